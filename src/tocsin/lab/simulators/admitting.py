"""Admission policies as kernels call them: compiled, with a memory of their own."""

from __future__ import annotations

from typing import Any

import numba

from tocsin.lab.compiling.functions import JIT
from tocsin.lab.compiling.records import record_dtype, records
from tocsin.policies.admission import Memory

MEMORY = record_dtype(Memory)
ADMIT = (
    numba.boolean(numba.from_dtype(MEMORY), numba.int64, numba.float64, numba.float64)
    if JIT
    else "admit"
)


def new_memory() -> Any:
    """What a policy remembers before the first object: one record in an array."""
    return records(1, MEMORY)
