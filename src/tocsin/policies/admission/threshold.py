"""A threshold that follows the decisions."""

from __future__ import annotations

from tocsin.policies.admission import ADMISSION, Memory
from tocsin.policies.registry import Parameter


@ADMISSION.register("threshold", Parameter("lambda", 0.2), Parameter("mu", 0.8))
def threshold(memory: Memory, waiting: int, rise: float, fall: float) -> bool:
    """Cache if n is at least the threshold, which then rises by λ·n, else falls by μ·n (kafka)."""
    admitted = waiting >= memory.level
    memory.level += rise * waiting if admitted else -fall * waiting
    return admitted
