"""Admission: is a new result object cached at all?

`admit(waiting) -> bool`, where `waiting` is the number of subscribers the object is for. Since a
cache is always one contiguous newest suffix, refusing an object also drops the older ones.
"""

from __future__ import annotations

from collections.abc import Callable

from tocsin.policies.registry import Registry

Admit = Callable[[int], bool]

ADMISSION: Registry[Admit] = Registry("admission")


@ADMISSION.register("all")
def everything(waiting: int) -> bool:
    """Whatever somebody waits for (BAD, Algorithm 1, PUT)."""
    return waiting > 0


@ADMISSION.register("none")
def nothing(waiting: int) -> bool:
    """No cache at all: BAD's "NC" (Fig. 7). Every get goes to the result store."""
    return False
