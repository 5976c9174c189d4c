"""What a lost call looks like, and how long to wait before trying again. Never sleeps."""

from __future__ import annotations

from random import Random

import httpx

NO_ANSWER = (httpx.HTTPError, OSError, AttributeError)
"""What an HTTP call raises when the other side is not there. The last two are no HTTPErrors, but
httpx lets them through when a peer dies in the very moment of connecting."""


class Backoff:
    """Delays of 0.5 to 1 times a step that doubles from `first_s` to `most_s`.

    The jitter keeps many clients that lost the same service from coming back in step.
    """

    def __init__(
        self, first_s: float = 0.05, most_s: float = 5.0, random: Random | None = None
    ) -> None:
        self.first_s = first_s
        self.most_s = most_s
        self._step_s = first_s
        self._random = random or Random()

    def reset(self) -> None:
        """It worked: the next failure starts small again."""
        self._step_s = self.first_s

    def next_s(self) -> float:
        step_s = self._step_s
        self._step_s = min(self.most_s, step_s * 2)
        return step_s * (0.5 + self._random.random() / 2)
