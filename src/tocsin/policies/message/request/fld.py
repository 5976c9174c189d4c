"""Flooding."""

from __future__ import annotations

from tocsin.policies.message.request import REQUEST


@REQUEST.register("fld")
def flooding(interested: int) -> bool:
    """Ask every broker: what is cached is found, at the cost of more requests (survival 2.3)."""
    return True
