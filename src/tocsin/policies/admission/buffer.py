"""The present and the previous one, weighed."""

from __future__ import annotations

from msgspec import Struct

from tocsin.policies.admission import ADMISSION
from tocsin.policies.registry import Parameter


class Buffer(Struct):
    """Set by every object."""

    previous: float = 0.0  # how many the last object was for


@ADMISSION.register("buffer", Parameter("gamma", 0.5), Parameter("alpha", 0.5), state=Buffer)
def buffer(state: Buffer, waiting: int, gamma: float, alpha: float) -> bool:
    """Cache if n is at least γ·n + α·(the n before) (kafka, Figure 7).

    With γ + α = 1 and α > 0 that is: cache if n is at least the one before.
    """
    level = gamma * waiting + alpha * state.previous
    state.previous = float(waiting)
    return waiting >= level * (1 - 1e-12)  # an equal n is not refused for a rounding error
