"""Who may ask for what a consumer log lacks: the subscriber whose log it is.

What is missing is written into that log and nowhere else, so that asking shows nobody anything. But
it costs the owner room in the log, and the cluster work. A request without a token is believed, as
it came through Kafka's own access rules, unless grants decide: then nobody knows who asks.
"""

from __future__ import annotations

from collections.abc import Callable

from tocsin.cluster.permissions import Permissions
from tocsin.errors import Forbidden
from tocsin.service.tokens import Identity
from tocsin.storage.store.deliveries import Consumer

RequireOwner = Callable[[str, Consumer], None]
"""Raises unless a token is that of a consumer's subscriber."""


def owner_check(permissions: Permissions, identify: Callable[[str], Identity]) -> RequireOwner:
    """`identify` may be called on any thread, and raises for a token that is not good."""

    def require_owner(token: str, consumer: Consumer) -> None:
        if token:
            identity = identify(token)
            identity.require("subscribe")
            if identity.subject != consumer.subscriber:
                raise Forbidden(
                    f"subscription {consumer.subscription} is not {identity.subject!r}'s",
                    field="subscription",
                )
            permissions.require_subscribe(identity, consumer.channel)
        elif permissions.in_force:
            raise Forbidden(
                "grants decide here, and the consumer does not say who it is",
                field="token",
                hint="consumer_log(…, token=…)",
            )

    return require_owner


def believe(token: str, consumer: Consumer) -> None:
    """Whoever can write to the topic may ask."""
