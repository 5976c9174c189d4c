"""Along subscriptions."""

from __future__ import annotations

from tocsin.policies.message.request import REQUEST


@REQUEST.register("sub")
def along_subscriptions(interested: int) -> bool:
    """Ask only where somebody is interested, as publications go (survival 2.3; overlay III.B)."""
    return interested > 0
