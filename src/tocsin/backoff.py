"""How long to wait before trying again. Pure: never sleeps, knows no clock and no random source."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random


def delay_s(failures: int, first_s: float, most_s: float) -> float:
    """`first_s` after the first failure (0 before it), then twice as long each time."""
    return min(most_s, first_s * 2.0 ** min(failures, 64))


class Backoff:
    """Delays of 0.5 to 1 times a step that doubles from `first_s` to `most_s`.

    The jitter keeps many clients that lost the same service from coming back in step.
    """

    def __init__(self, random: Random, first_s: float = 0.05, most_s: float = 5.0) -> None:
        self.first_s = first_s
        self.most_s = most_s
        self._random = random
        self._failures = 0

    def reset(self) -> None:
        """It worked: the next failure starts small again."""
        self._failures = 0

    def next_s(self) -> float:
        step_s = delay_s(self._failures, self.first_s, self.most_s)
        self._failures += 1
        return step_s * (0.5 + self._random.random() / 2)
