"""Admission: is a new result object cached at all?

`admit([state,] waiting, *parameters) -> bool`, where `waiting` is the number of subscribers the
object is for (at least one: what nobody waits for is never cached). A policy that must remember
something from one object to the next declares the record as its `state`, one for all caches of a
broker; it consists of numbers, since deliveries to consumer logs keep it across restarts. A policy
that always or never admits declares so: `admits=True`, `admits=False`. Since a cache is always one
contiguous newest suffix, refusing an object also drops the older ones. One file a policy.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from tocsin.policies.registry import Chosen, Registry

Admit = Callable[..., bool]

ADMISSION: Registry[Admit] = Registry("admission", "cache_policy", declares=("admits",))


class AdmissionPolicy(Struct, frozen=True):
    """An admission policy alone, for what has no cache to evict from."""

    text: str  # as the user wrote it
    admit: Chosen[Admit]


def parse_admission(text: str, field: str = "ADMIT") -> AdmissionPolicy:
    """`all`, `none`, `threshold(0.2, mu=0.8)`."""
    return AdmissionPolicy(text, ADMISSION.choose(text.strip().removeprefix("admit="), field))


ADMISSION.find_all(__name__, __path__)
