"""First in, first out, as long as anybody is interested."""

from __future__ import annotations

from tocsin.policies.message.priority import DROP, PRIORITY, STAY


@PRIORITY.register("fifo")
def fifo(clients: int, arrived: bool) -> int:
    """Stay, and leave with the last client that is interested (overlay III.D)."""
    return STAY if clients > 0 else DROP
