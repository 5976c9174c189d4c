"""The present and the previous one, weighed."""

from __future__ import annotations

from tocsin.policies.admission import ADMISSION, Memory
from tocsin.policies.registry import Parameter


@ADMISSION.register("buffer", Parameter("gamma", 0.5), Parameter("alpha", 0.5))
def buffer(memory: Memory, waiting: int, gamma: float, alpha: float) -> bool:
    """Cache if n is at least γ·n + α·(the n before) (kafka).

    With γ + α = 1 and α > 0 that is: cache if n is at least the one before.
    """
    level = gamma * waiting + alpha * memory.previous
    memory.previous = float(waiting)
    memory.level = level
    return waiting >= level * (1 - 1e-12)  # an equal n is not refused for a rounding error
