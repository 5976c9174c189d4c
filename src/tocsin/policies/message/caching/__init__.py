"""Caching: does a broker keep a message that comes to it, published or as a response?

`keeps(clients, neighbours, *parameters) -> bool`, where `neighbours` are the neighbouring brokers
that subscribed to the message, without the one it came from. One file a policy.
"""

from __future__ import annotations

from collections.abc import Callable

from tocsin.policies.registry import Registry

Keeps = Callable[..., bool]

CACHING: Registry[Keeps] = Registry("caching", "message_policy", stateful=False)
CACHING.find_all(__name__, __path__)
