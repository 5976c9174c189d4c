"""Quotas by role: the most that one subject may have, and whether there is room for more.

Publications ask as often as for rights, so that sizes are in memory as these are: replaced in the
order of commits, before the next writer starts. How many subscriptions somebody has is read in the
transaction that makes more of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct
from sqlalchemy import Connection, delete, func, insert, select

from tocsin.errors import Forbidden, QuotaExceeded
from tocsin.model import EVERYBODY, Quota, QuotaName
from tocsin.storage.store import schema
from tocsin.storage.store.database import Database, Write, reads, writes
from tocsin.storage.store.grants import Credentials
from tocsin.storage.store.names import require

_COUNTED: tuple[QuotaName, ...] = ("subscriptions", "parameter_sets")
_quotas = schema.quotas
_backend = schema.backend_subscriptions
_frontend = schema.frontend_subscriptions


class Sizes(Struct, frozen=True):
    """Of all quotas, as of one commit."""

    by_role: Mapping[tuple[QuotaName, str], int]

    def of(self, name: QuotaName, roles: Iterable[str]) -> int | None:
        """The largest that these roles have; else everybody's; None: there is no bound."""
        sizes = [self.by_role[name, role] for role in roles if (name, role) in self.by_role]
        return max(sizes, default=self.by_role.get((name, EVERYBODY)))


class Quotas:
    def __init__(self, database: Database) -> None:
        self._database = database
        self.sizes = self._read()

    @writes
    def set_size(self, write: Write, quota: Quota) -> None:
        if quota.role != EVERYBODY:
            require(write.connection, "role", quota.role)
        _delete(write, quota.role, quota.name)
        row = {"role": quota.role, "name": quota.name, "size": quota.size}
        write.connection.execute(insert(_quotas), row)
        self._change(write)

    @writes
    def drop(self, write: Write, role: str, name: QuotaName) -> bool:
        """Whether it was there."""
        if role != EVERYBODY:
            require(write.connection, "role", role)
        dropped = _delete(write, role, name)
        self._change(write)
        return dropped

    @reads
    def all_(self, connection: Connection) -> list[Quota]:
        return _read_quotas(connection)

    @reads
    def used(self, connection: Connection, subscriber: str) -> Counter[str]:
        """How many subscriptions they have to each channel."""
        return _used(connection, subscriber)

    # -- parts of others' transactions ------------------------------------------------------------

    def drop_role(self, write: Write, role: str) -> None:
        if write.connection.execute(delete(_quotas).where(_quotas.c.role == role)).rowcount:
            self._change(write)

    def room(self, connection: Connection) -> Room:
        """For what a transaction makes."""
        return Room(connection, self.sizes)

    def _change(self, write: Write) -> None:
        sizes = _sizes(write.connection)
        write.after_commit.append(lambda: self._set(sizes))

    def _set(self, sizes: Sizes) -> None:
        self.sizes = sizes

    @reads
    def _read(self, connection: Connection) -> Sizes:
        return _sizes(connection)


class Room:
    """What there is room for, while subscriptions are made in one transaction."""

    def __init__(self, connection: Connection, sizes: Sizes) -> None:
        self._connection = connection
        self._sizes = sizes
        self._stored: dict[str, Counter[str]] = {}  # by subscriber: to each channel
        self._taken: dict[str, Counter[str]] = {}

    def take(self, shown: Credentials | None, wanted: Mapping[str, Counter[str]]) -> None:
        """Raise unless all that is `wanted` has room: by subscriber, new subscriptions to each
        channel. What has room is counted from then on."""
        if shown is None:
            self._refuse_unknown()
        elif not shown.admin:
            self._require(shown, wanted)
        for subscriber, by_channel in wanted.items():
            self._taken.setdefault(subscriber, Counter()).update(by_channel)

    def _require(self, shown: Credentials, wanted: Mapping[str, Counter[str]]) -> None:
        most = self._sizes.of("subscriptions", shown.roles)
        most_sets = self._sizes.of("parameter_sets", shown.roles)
        if most is None and most_sets is None:
            return
        for subscriber, by_channel in wanted.items():
            if subscriber not in self._stored:
                self._stored[subscriber] = _used(self._connection, subscriber)
            used = self._stored[subscriber] + self._taken.get(subscriber, Counter())
            _require("subscriptions", subscriber, used.total(), by_channel.total(), most)
            for channel, count in by_channel.items():
                whose = f"{subscriber} in {channel}"
                _require("parameter_sets", whose, used[channel], count, most_sets)

    def _refuse_unknown(self) -> None:
        """Where roles decide, a broker must say who asks."""
        if any(name in _COUNTED for name, _ in self._sizes.by_role):
            raise Forbidden(
                "subscriptions have quotas here, and the broker does not say who asks",
                field="role",
                hint="upgrade the broker",
            )


def _require(name: QuotaName, whose: str, used: int, more: int, most: int | None) -> None:
    if most is None or used + more <= most:
        return
    raise QuotaExceeded(
        f"{whose} uses {used} of {most} {name}: there is no room for {more} more",
        field=name,
        hint=f"UNSUBSCRIBE from some, or have an admin say: SET QUOTA {name} = … FOR ROLE …",
    )


def _used(connection: Connection, subscriber: str) -> Counter[str]:
    counted = (
        select(_backend.c.channel, func.count())
        .join_from(_frontend, _backend, _frontend.c.backend == _backend.c.id)
        .where(_frontend.c.subscriber == subscriber)
        .group_by(_backend.c.channel)
    )
    return Counter({channel: count for channel, count in connection.execute(counted)})


def _delete(write: Write, role: str, name: QuotaName) -> bool:
    chosen = (_quotas.c.role == role) & (_quotas.c.name == name)
    return bool(write.connection.execute(delete(_quotas).where(chosen)).rowcount)


def _read_quotas(connection: Connection) -> list[Quota]:
    rows = connection.execute(select(_quotas).order_by(_quotas.c.role, _quotas.c.name))
    return [Quota(row.role, row.name, row.size) for row in rows]


def _sizes(connection: Connection) -> Sizes:
    return Sizes({(quota.name, quota.role): quota.size for quota in _read_quotas(connection)})
