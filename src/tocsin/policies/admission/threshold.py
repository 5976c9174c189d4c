"""A threshold that follows the decisions."""

from __future__ import annotations

from msgspec import Struct

from tocsin.policies.admission import ADMISSION
from tocsin.policies.registry import Parameter


class Threshold(Struct):
    """Moved by every object."""

    level: float = 0.0  # fewer subscribers are not enough


@ADMISSION.register("threshold", Parameter("lambda", 0.2), Parameter("mu", 0.8), state=Threshold)
def threshold(state: Threshold, waiting: int, rise: float, fall: float) -> bool:
    """Cache if n ≥ the threshold: then it rises by λ·n, else it falls by μ·n (kafka, Figure 5)."""
    admitted = waiting >= state.level
    state.level += rise * waiting if admitted else -fall * waiting
    return admitted
