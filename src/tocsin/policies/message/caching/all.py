"""Everything."""

from __future__ import annotations

from tocsin.policies.message.caching import CACHING


@CACHING.register("all")
def everything(clients: int, neighbours: int) -> bool:
    """Keep every message that comes by: a yardstick (survival 2.3)."""
    return True
