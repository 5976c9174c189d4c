"""The mean of the last batch."""

from __future__ import annotations

from tocsin.policies.admission import ADMISSION, Memory
from tocsin.policies.registry import Parameter


@ADMISSION.register("mean", Parameter("batch", 10, at_least=1))
def mean(memory: Memory, waiting: int, batch: float, unused: float) -> bool:
    """Cache if n is at least the mean of the last full batch; before the first, always (kafka)."""
    admitted = waiting >= memory.level
    memory.total += waiting
    memory.count += 1
    if memory.count >= batch:
        memory.level = memory.total / memory.count
        memory.total = memory.count = 0.0
    return admitted
