"""Which code decides a point's result: a digest of it keeps points of different code apart.

A change to a figure or a claim keeps the points, and a new policy keeps those of the others.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import numpy as np

from tocsin.lab.compiling.imports import imported
from tocsin.policies import parse_policy

SIMULATOR = "tocsin.lab.simulators.result_cache.simulator"
BOUND = "tocsin.lab.sweeps.bound_rows"
WORKLOAD = "tocsin.lab.workloads.edge"


@cache
def policy_digest(policy: str) -> str:
    """Of the simulation and of this policy's own files."""
    chosen = parse_policy(policy)
    functions = [chosen.admit, chosen.evict, chosen.expire]
    own = {inspect.getsourcefile(inspect.unwrap(one)) for one in functions if one is not None}
    files = {Path(name) for name in own if name}
    return _digest(files | imported(SIMULATOR) | imported(WORKLOAD))


@cache
def bound_digest() -> str:
    return _digest(imported(BOUND) | imported(WORKLOAD))


def _digest(files: Iterable[Path]) -> str:
    digest = hashlib.sha256(np.__version__.encode())  # its random streams
    for file in sorted(files):
        digest.update(file.name.encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]
