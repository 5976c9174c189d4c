"""Which code decides a point's result: a digest of it keeps points of different code apart.

A change to a figure or a claim keeps the points, and a new policy keeps those of the others.
"""

from __future__ import annotations

import inspect
from functools import cache
from pathlib import Path

import numpy as np

from tocsin.lab.compiling.imports import digest, imported
from tocsin.policies import parse_policy

SIMULATOR = "tocsin.lab.simulators.result_cache.simulator"
BOUND = "tocsin.lab.sweeps.bound_rows"
WORKLOAD = "tocsin.lab.workloads.edge"
MADE_WITH = np.__version__  # its random streams


@cache
def policy_digest(policy: str) -> str:
    """Of the simulation, of this policy's own files and of what they import."""
    chosen = parse_policy(policy)
    files = imported(SIMULATOR) | imported(WORKLOAD)
    for function in (chosen.admit, chosen.evict, chosen.expire):
        if function is not None:
            own = inspect.getsourcefile(inspect.unwrap(function))
            files |= imported(function.__module__) | ({Path(own)} if own else set())
    return digest(files, MADE_WITH)


@cache
def bound_digest() -> str:
    return digest(imported(BOUND) | imported(WORKLOAD), MADE_WITH)
