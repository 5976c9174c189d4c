"""Taking grants back: in the same transaction, the subscriptions end that they had allowed.

A subscription's subscriber is away, or behind a broker: what they showed last is stored with it.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from sqlalchemy import select

from tocsin.model import FILTERED, Grant, Privilege, Subscription
from tocsin.storage.store import schema
from tocsin.storage.store.database import Database, Write, writes
from tocsin.storage.store.grants import Grants, Rights, read_credentials
from tocsin.storage.store.quotas import Quotas
from tocsin.storage.store.subscription_rows import subscriptions_with
from tocsin.storage.store.subscriptions import Subscriptions

_backend = schema.backend_subscriptions
_frontend = schema.frontend_subscriptions


class Revoked(Struct, frozen=True):
    """What was taken back, and what ended with it."""

    grants: list[Grant]
    ended: list[Subscription]


class Revocation:
    def __init__(
        self, database: Database, grants: Grants, quotas: Quotas, subscriptions: Subscriptions
    ) -> None:
        self._database = database
        self._grants = grants
        self._quotas = quotas
        self._subscriptions = subscriptions

    @writes
    def revoke(
        self, write: Write, role: str, privileges: Iterable[Privilege], name: str
    ) -> Revoked:
        gone = self._grants.take(write, role, privileges, name)
        return self._end(write, [Grant(role, privilege, name) for privilege in gone])

    @writes
    def drop_role(self, write: Write, name: str) -> Revoked:
        """Its grants and quotas go with it."""
        self._quotas.drop_role(write, name)
        return self._end(write, self._grants.drop_role(write, name))

    def _end(self, write: Write, gone: list[Grant]) -> Revoked:
        rights = self._grants.change(write)
        refused = [number for grant in gone for number in _refused(write, rights, grant)]
        ending = subscriptions_with(write.connection, refused)
        self._subscriptions.end(write, ending)
        return Revoked(gone, ending)


def _refused(write: Write, rights: Rights, gone: Grant) -> list[int]:
    """Subscriptions that this grant had allowed, and none of those that are left does."""
    if gone.privilege == "publish":
        return []
    channel = gone.name if gone.privilege == "subscribe" else FILTERED + gone.name
    shown = (
        select(_frontend.c.id, _frontend.c.credentials)
        .join_from(_frontend, _backend, _frontend.c.backend == _backend.c.id)
        .where(_backend.c.channel == channel)
    )
    return [
        number
        for number, credentials in write.connection.execute(shown)
        if not rights.allow(read_credentials(credentials), gone.privilege, gone.name)
    ]
