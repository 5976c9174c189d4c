"""What one part of a system needs, and where more machines would not help it."""

from __future__ import annotations

import math

from msgspec import Struct

from tocsin.lab.capacity.formulas import Formula

SPLIT = (
    "several systems, each with datasets and a store of its own, divide what each cluster takes; "
    "within one system it takes a cluster of several processes, which is not there today"
)


class Limit(Struct, frozen=True, kw_only=True):
    """Of a part that is one thing, however many machines there are."""

    of: str
    """What there is one of."""
    needs: float
    most: float
    unit: str
    moved_by: str
    """What would move the wall; nothing of it is done by buying machines."""

    @property
    def share(self) -> float:
        return self.needs / self.most

    @property
    def passed(self) -> bool:
        return self.needs > self.most


class Part(Struct, frozen=True, kw_only=True):
    name: str
    formulas: tuple[Formula, ...]
    limits: tuple[Limit, ...] = ()
    processes: int = 1
    machines: int = 0
    """0: it runs on the cluster's machine, or is no process."""
    binds: str = ""
    """What decided the number of processes or machines."""
    partitions: int = 0

    def amount(self, of: str) -> float:
        """In all of its processes together."""
        return next((formula.value for formula in self.formulas if formula.of == of), 0.0)

    @property
    def cores(self) -> float:
        return self.amount("cores")

    @property
    def memory_bytes(self) -> float:
        return self.amount("memory")

    @property
    def wall(self) -> Limit | None:
        """The worst of the limits that are passed."""
        passed = [limit for limit in self.limits if limit.passed]
        return max(passed, key=lambda limit: limit.share, default=None)


def machines_for(cores: float, memory_bytes: float, usable: tuple[float, float]) -> int:
    """`usable`: cores and memory of one."""
    return max(1, math.ceil(max(cores / usable[0], memory_bytes / usable[1]) - 1e-9))
