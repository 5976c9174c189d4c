"""When to try again: delays that double from the first to the longest. Reads no clock.

The jitter keeps many brokers that lost the same cluster from coming back in step. It is one number
for each machine, between 0 and 1, that whoever starts it draws.
"""

from __future__ import annotations

from tocsin.backoff import delay_s


class Retry:
    def __init__(self, first_s: float, longest_s: float, jitter: float = 1.0) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._part = 0.5 + jitter / 2
        self.failures = 0

    def next_s(self) -> float:
        """How long to wait after another failure."""
        step_s = delay_s(self.failures, self._first_s, self._longest_s)
        self.failures += 1
        return step_s * self._part

    def reset(self) -> None:
        """It worked: the next failure starts small again."""
        self.failures = 0
