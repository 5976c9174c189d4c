"""How long messages live, as every model answers: mean, curve, quantiles."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

Values = NDArray[np.float64]

SHARES = (0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
SHOWN_POINTS = 100


class Lifetime(Struct, frozen=True, kw_only=True):
    """From the publication of a message; one that is never cached lives 0 s."""

    mst: float  # mean survival time, unconditional (survival 3)
    p_loss: float
    at_s: Values  # times, from 0 …
    alive: Values  # … and P(T > t); exponential after the last
    hazard: float  # a second, after the last

    def survives(self, at_s: float) -> float:
        """P(T > t)."""
        last = float(self.at_s[-1])
        if at_s > last:
            return float(self.alive[-1] * np.exp(-self.hazard * (at_s - last)))
        return float(np.interp(at_s, self.at_s, self.alive, left=1.0))

    def quantile(self, share: float) -> float:
        """The time after which this share of all messages is gone."""
        left = 1.0 - share
        if left >= self.alive[0]:
            return 0.0
        if left < self.alive[-1]:
            more = np.log(self.alive[-1] / left) / self.hazard if self.hazard > 0 else np.inf
            return float(self.at_s[-1] + more)
        return float(np.interp(-left, -self.alive, self.at_s))

    def to_dict(self) -> dict[str, Any]:
        """For scripts."""
        shown = np.linspace(0.0, self.quantile(SHARES[-1]), SHOWN_POINTS + 1)
        return {
            "mst": self.mst,
            "p_loss": self.p_loss,
            "quantiles": {f"{share:g}": self.quantile(share) for share in SHARES},
            "curve": {
                "time_s": [float(time_s) for time_s in shown],
                "survives": [self.survives(float(time_s)) for time_s in shown],
            },
        }
