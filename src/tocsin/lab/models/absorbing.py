"""The time until a Markov chain is absorbed, by uniformisation.

With Λ above all rates the chain makes its steps at the times of a Poisson process, and one
sequence, a_j = P(not absorbed after j steps), gives everything: the mean is Σ a_j / Λ, and the
curve Σ Poisson(j; Λt) a_j (survival, equation 3, without the inverse or the exponential of a
matrix). Soon the sequence falls geometrically, and the rest of it is known.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from msgspec import Struct
from scipy.sparse import eye_array
from scipy.special import gammaln, pdtrc

from tocsin.errors import InvalidInput
from tocsin.lab.models.lifetime import Lifetime, Values

STEADY = 1e-6  # relative change of the ratio of two neighbours …
APART = 64  # … over so many steps
GONE = 1e-13
LEFT = 1e-4  # where the curve ends
MOST_STEPS = 3_000_000
POINTS = 512


class Steps(Struct, frozen=True):
    rate: float  # Λ
    survivors: Values  # a_j
    ratio: float  # a_{j+1} / a_j after the last; 0: nothing is left
    occupancy: Values  # mean time in each state

    @property
    def mean(self) -> float:
        return float(self.occupancy.sum())

    def survives(self, at_s: float) -> float:
        mean, last = self.rate * at_s, len(self.survivors) - 1
        if mean <= 0.0:
            return float(self.survivors[0])
        spread = 12 * math.sqrt(mean) + 30
        j = np.arange(max(0, int(mean - spread)), min(last, int(mean + spread)) + 1)
        weights = np.exp(j * math.log(mean) - mean - gammaln(j + 1.0))
        alive = float(weights @ self.survivors[j])
        if self.ratio > 0.0:
            scale = math.log(self.survivors[-1]) - last * math.log(self.ratio)
            beyond = float(pdtrc(last, mean * self.ratio))
            if beyond > 0.0:
                alive += math.exp(scale - mean * (1.0 - self.ratio) + math.log(beyond))
        return min(1.0, alive)


def absorbed(transient: Any, start: Values) -> Steps:
    """`transient` is the generator among transient states (sparse), `start` may sum to less than
    1: the rest is absorbed at once."""
    rate = 1.0001 * float(-transient.diagonal().min())
    step = (transient.T / rate + eye_array(len(start))).tocsr()
    now = start
    spent = np.zeros_like(start)
    left = [float(now.sum())]
    ratio = 0.0
    while left[-1] > GONE * left[0]:
        spent += now
        now = step @ now
        left.append(float(now.sum()))
        if len(left) % APART == 0:
            before, ratio = ratio, left[-1] / left[-2]
            if abs(ratio - before) <= STEADY * (1.0 - ratio):
                break
            if len(left) > MOST_STEPS:
                raise InvalidInput(
                    f"the chain makes more than {MOST_STEPS:,} steps in a message's life",
                    field="publication-rate",
                    hint="publications are too rare beside clients: simulate it instead",
                )
    else:
        ratio = 0.0
    if ratio > 0.0:
        spent += now / (1.0 - ratio)
    return Steps(rate, np.array(left), ratio, spent / rate)


def lifetime(steps: Steps) -> Lifetime:
    end = max(steps.mean, 1.0 / steps.rate)
    while steps.survives(end) > LEFT * steps.survivors[0]:
        end *= 1.5
    at_s = end * np.linspace(0.0, 1.0, POINTS) ** 2  # finer where it begins
    return Lifetime(
        mst=steps.mean,
        p_loss=1.0 - float(steps.survivors[0]),
        at_s=at_s,
        alive=np.array([steps.survives(float(time_s)) for time_s in at_s]),
        hazard=steps.rate * (1.0 - steps.ratio) if steps.ratio > 0 else steps.rate,
    )
