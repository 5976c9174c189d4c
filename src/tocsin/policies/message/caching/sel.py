"""Selective."""

from __future__ import annotations

from tocsin.policies.message.caching import CACHING


@CACHING.register("sel")
def selective(clients: int, neighbours: int) -> bool:
    """Keep a message if a client here is interested (survival 2.3; overlay IV.A, "basic")."""
    return clients > 0
