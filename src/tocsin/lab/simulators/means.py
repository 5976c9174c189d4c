"""Means with 95 % confidence intervals (Student's t), as runs and batches of them give."""

from __future__ import annotations

import math

from msgspec import Struct
from scipy.special import stdtrit

CONFIDENCE = 0.95


class Mean(Struct, frozen=True):
    value: float
    half: float  # of its confidence interval; NaN: there is too little to tell


UNKNOWN = Mean(math.nan, math.nan)


def half_width(deviation: float, count: int) -> float:
    """Of the interval of a mean of so many values that deviate so far."""
    spread = deviation / math.sqrt(count)
    return float(stdtrit(count - 1, 0.5 + CONFIDENCE / 2)) * spread


def number(value: float) -> float | None:
    """JSON knows no NaN."""
    return None if math.isnan(value) else value
