"""Regeneration and degradation."""

from __future__ import annotations

from tocsin.policies.message.priority import BOTTOM, PRIORITY, STAY, TOP


@PRIORITY.register("prt")
def prioritised(clients: int, arrived: bool) -> int:
    """To the top when a client comes, to the bottom when the last one leaves (survival 2.3)."""
    if arrived:
        return TOP
    return STAY if clients > 0 else BOTTOM
