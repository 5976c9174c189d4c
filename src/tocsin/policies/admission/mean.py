"""The mean of the last batch."""

from __future__ import annotations

from msgspec import Struct

from tocsin.policies.admission import ADMISSION
from tocsin.policies.registry import Parameter


class Batch(Struct):
    """Counts every object; `level` is set when a batch is full."""

    level: float = 0.0  # the mean of the last full batch
    total: float = 0.0  # subscribers of the objects of this one
    count: float = 0.0


@ADMISSION.register("mean", Parameter("batch", 10, at_least=1), state=Batch)
def mean(state: Batch, waiting: int, batch: float) -> bool:
    """Cache if n is at least the last full batch's mean, or there is none yet (kafka, Figure 6)."""
    admitted = waiting >= state.level
    state.total += waiting
    state.count += 1
    if state.count >= batch:
        state.level = state.total / state.count
        state.total = state.count = 0.0
    return admitted
