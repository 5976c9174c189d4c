"""Leaf brokers."""

from __future__ import annotations

from tocsin.policies.message.caching import CACHING


@CACHING.register("leaf")
def leaf(clients: int, neighbours: int) -> bool:
    """Keep a message if a client here is interested, and no neighbour but the one that it came from
    (overlay IV.B)."""
    return clients > 0 and neighbours == 0
