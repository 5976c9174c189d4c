"""What every result cache measures about itself, as functions over scalars.

The live cache calls them, the lab compiles them: they must stay that plain.
"""

from __future__ import annotations

REESTIMATE_EVERY_S = 300.0  # BAD IV.B: "say every 5 minutes"
AVERAGE_WEIGHT = 0.5
"""Weight of the newest interval in moving averages."""


def moving_average(previous: float, sample: float, weight: float) -> float:
    return previous + weight * (sample - previous)


def growth(arrival: float, consumption: float) -> float:
    """ρ = (λ − η)+ in bytes per second; η counts consumption only, not expiry (BAD IV.B)."""
    return max(0.0, arrival - consumption)
