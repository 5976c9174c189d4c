"""Means and differences with their 95 % confidence intervals (Student's t over seeds).

Knows columns of numbers; what a policy or a figure is, others know.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from msgspec import Struct
from scipy.special import stdtrit

CONFIDENCE = 0.95


class Estimate(Struct, frozen=True):
    """A mean over seeds. With one seed there is no interval: low and high are NaN."""

    mean: float
    low: float
    high: float
    seeds: int

    @property
    def certain(self) -> bool:
        return self.seeds > 1

    def above(self, limit: float) -> bool:
        """The whole interval lies above; with one seed, the value does."""
        return (self.low if self.certain else self.mean) > limit

    def below(self, limit: float) -> bool:
        return (self.high if self.certain else self.mean) < limit

    def within(self, low: float, high: float) -> bool:
        """The whole interval lies inside the closed range."""
        if not self.certain:
            return low <= self.mean <= high
        return low <= self.low and self.high <= high

    def negated(self) -> Estimate:
        return Estimate(-self.mean, -self.high, -self.low, self.seeds)


def estimate(values: Iterable[float]) -> Estimate:
    """Mean and confidence interval of independent values; NaNs are left out."""
    sample = np.asarray(list(values), dtype=float)
    sample = sample[~np.isnan(sample)]
    count = len(sample)
    if count == 0:
        return Estimate(math.nan, math.nan, math.nan, 0)
    mean = float(sample.mean())
    if count == 1:
        return Estimate(mean, math.nan, math.nan, 1)
    spread = float(sample.std(ddof=1)) / math.sqrt(count)
    half = float(stdtrit(count - 1, 0.5 + CONFIDENCE / 2)) * spread
    return Estimate(mean, mean - half, mean + half, count)


def exactly(value: float) -> Estimate:
    """A figure that all seeds together give, without an interval."""
    return Estimate(value, value, value, 1)
