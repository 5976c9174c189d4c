"""Who may read an attachment, where subscriptions are bound to claims.

As long as nothing private holds attachments, whoever knows an id may read it. As soon as a channel
with bound parameters or a bound routed dataset does, a reader says which result led there: it must
be one of their own, and mention the attachment. That is one look into the store for each read.
"""

from __future__ import annotations

from tocsin.cluster.routing import Routing
from tocsin.errors import Forbidden, NotFound
from tocsin.intake.validator import mentioned
from tocsin.model import attachments_of
from tocsin.service.tokens import Identity
from tocsin.storage.store.results import Range
from tocsin.storage.store.store import Store

FREE = frozenset({"admin", "broker"})
"""Scopes that read everything."""


class AttachmentAccess:
    """All calls may wait for the store."""

    def __init__(self, store: Store, routing: Routing) -> None:
        self._store = store
        self._routing = routing

    def private(self) -> bool:
        """Whether a reader must say what led to an attachment."""
        datasets = [d for d in self._store.catalog.datasets() if attachments_of(d)]
        if any(dataset.bound for dataset in datasets):
            return True
        names = {dataset.name for dataset in datasets}
        return any(
            channel.bound and names.intersection(channel.reads)
            for channel in self._store.catalog.channels()
        )

    def check(
        self, reader: Identity | None, id: str, subscription: int | None, position: int | None
    ) -> bool:
        """Raises unless `reader` may read it; whether it is private."""
        if not self.private():
            return False
        if reader is None:
            raise Forbidden(
                "attachments are private here, and this call has no token of who reads",
                field="subscriber",
                hint="pass on the token of the subscriber",
            )
        if reader.scopes & FREE:
            return True
        if subscription is None or position is None:
            raise Forbidden(
                "attachments are private here: say which of your results led to this one",
                field="subscription",
                hint="?subscription=…&position=… of the result",
            )
        if id not in self._mentions(reader.subject, subscription, position):
            raise NotFound(
                f"no result {position} of a subscription {subscription} of yours mentions it",
                field="position",
            )
        return True

    def _mentions(self, subscriber: str, number: int, position: int) -> set[str]:
        subscription = self._store.subscriptions.get(number)
        if subscription.subscriber != subscriber:
            raise NotFound(f"you have no subscription {number}", field="subscription")
        wanted = [Range(subscription.backend.id, max(0, position - 1), position, 1)]
        (stored,) = self._store.results.read_many(wanted)
        (filtered,) = self._routing.answers(wanted, [stored])
        if filtered is not None:
            payloads = [bytes(result.value) for result in filtered.results or ()]
        else:
            payloads = [] if stored is None else [result.payload for result in stored.results]
        return set().union(*map(mentioned, payloads))
