"""How soon subscribers come back, learned from how long they stayed away."""

from __future__ import annotations

from tocsin.policies.estimates import BINS, bin_ends, bin_of, observe, rate_returns


class Absences:
    def __init__(self) -> None:
        self._ends = bin_ends()
        self._returns = [0.0] * BINS
        self._exposure_s = [0.0] * BINS
        self._rates = [0.0] * BINS
        self.learn()

    def ended(self, away_s: float, *, returned: bool) -> None:
        observe(self._ends, self._returns, self._exposure_s, away_s, returned)

    def learn(self) -> None:
        """Let what was observed count from now on."""
        rate_returns(self._returns, self._exposure_s, self._rates)

    def return_rate(self, away_s: float) -> float:
        """Returns a second, by those who have been away for so long."""
        return self._rates[bin_of(self._ends, away_s)]
