"""Admission: is a new result object cached at all?

`admit(memory, waiting, first, second) -> bool`, where `waiting` is the number of subscribers the
object is for (at least one: what nobody waits for is never cached) and the last two are the
policy's parameters. What a policy must remember from one object to the next are the few numbers
of its `Memory`, which it may change. Since a cache is always one contiguous newest suffix,
refusing an object also drops the older ones. One file a policy.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from tocsin.policies.registry import Registry


class Memory(Struct):
    """What an admission policy remembers, one for all caches of a broker."""

    level: float = 0.0  # the threshold in force: fewer subscribers are not enough
    previous: float = 0.0
    total: float = 0.0
    count: float = 0.0


Admit = Callable[[Memory, int, float, float], bool]

ADMISSION: Registry[Admit] = Registry("admission")
ADMISSION.find_all(__name__, __path__)
