"""First come, first served."""

from __future__ import annotations

from tocsin.policies.message.priority import PRIORITY, STAY


@PRIORITY.register("nop")
def unmoved(clients: int, arrived: bool) -> int:
    """Stay: the message that was cached first leaves first (survival 2.3)."""
    return STAY
