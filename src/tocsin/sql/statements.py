"""The statements of Tocsin's SQL as frozen records: what was asked for, and where it was written.

Only data: `parser` makes them, the cluster executes them.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct

from tocsin.errors import StatementError
from tocsin.model import (
    Beginning,
    BoundColumn,
    ChannelKind,
    Column,
    Dataset,
    Delivery,
    KafkaSource,
    Parameter,
    Privilege,
    QuotaName,
)
from tocsin.sql.filters import Condition

Kind = Literal["dataset", "channel", "broker", "role"]
Shown = Literal["datasets", "channels", "brokers", "subscriptions", "roles"]


class Statement(Struct, frozen=True, kw_only=True):
    """`text` is the statement as its author wrote it; it began at `line` and `column`."""

    text: str
    line: int = 1
    column: int = 1


class CreateDataset(Statement, frozen=True, kw_only=True):
    name: str
    columns: tuple[Column, ...]
    open: bool = False
    primary_key: tuple[str, ...] = ()
    retain_s: float | None = None
    source: KafkaSource | None = None
    routed: bool = False
    bound: tuple[BoundColumn, ...] = ()
    if_not_exists: bool = False


class CreateChannel(Statement, frozen=True, kw_only=True):
    """`query` began at `query_line` and `query_column` of the whole text."""

    name: str
    kind: ChannelKind
    parameters: tuple[Parameter, ...]
    query: str
    query_line: int = 1
    query_column: int = 1
    period_s: float | None = None
    push: bool = False
    delivery: Delivery | None = None
    if_not_exists: bool = False


class CreateBroker(Statement, frozen=True, kw_only=True):
    name: str
    url: str
    if_not_exists: bool = False


class CreateRole(Statement, frozen=True, kw_only=True):
    name: str
    if_not_exists: bool = False


class GrantPrivileges(Statement, frozen=True, kw_only=True):
    """`name` is that of a channel or of a dataset, as the privileges say."""

    privileges: tuple[Privilege, ...]
    name: str
    role: str


class RevokePrivileges(GrantPrivileges, frozen=True, kw_only=True):
    pass


class SetQuota(Statement, frozen=True, kw_only=True):
    """`role` is EVERYBODY, or the name of one."""

    quota: QuotaName
    size: int
    role: str


class DropQuota(Statement, frozen=True, kw_only=True):
    quota: QuotaName
    role: str


class Drop(Statement, frozen=True, kw_only=True):
    kind: Kind
    name: str
    if_exists: bool = False


class Subscribe(Statement, frozen=True, kw_only=True):
    """`arguments` is a list when they were given by position, a dict when by name."""

    channel: str
    arguments: list[Any] | dict[str, Any]
    broker: str | None = None
    beginning: Beginning | None = None


class SubscribeMany(Statement, frozen=True, kw_only=True):
    """A subscription for each row of arguments."""

    channel: str
    rows: tuple[list[Any] | dict[str, Any], ...]
    broker: str | None = None
    beginning: Beginning | None = None


class SubscribeToDataset(Statement, frozen=True, kw_only=True):
    """Every record that meets all conditions; all records if there are none."""

    dataset: str
    where: tuple[Condition, ...] = ()
    broker: str | None = None
    beginning: Beginning | None = None


class Unsubscribe(Statement, frozen=True, kw_only=True):
    subscription: int


class ChangeSubscription(Statement, frozen=True, kw_only=True):
    subscription: int
    broker: str


class Insert(Statement, frozen=True, kw_only=True):
    """`columns` is None when the statement left them out; `rows_at` says where each row began."""

    dataset: str
    columns: tuple[str, ...] | None
    rows: tuple[tuple[Any, ...], ...]
    rows_at: tuple[tuple[int, int], ...]

    def records(self, dataset: Dataset) -> list[dict[str, Any]]:
        """The rows as records; without a column list they take the dataset's columns in order."""
        names = self.columns or tuple(column.name for column in dataset.columns)
        for row, (line, column) in zip(self.rows, self.rows_at, strict=True):
            if len(row) != len(names):
                raise StatementError(
                    f"this row has {len(row)} values for {len(names)} columns",
                    line=line,
                    column=column,
                    hint=f"the columns are {', '.join(names)}",
                )
        return [dict(zip(names, row, strict=True)) for row in self.rows]


class Show(Statement, frozen=True, kw_only=True):
    what: Shown


class ShowGrants(Statement, frozen=True, kw_only=True):
    """`role` is None for all that the asker may see."""

    role: str | None = None


class ShowQuotas(Statement, frozen=True, kw_only=True):
    """`subscriber`: what is set for them, and how much of it they use; None: all that the asker may
    see."""

    subscriber: str | None = None


class Describe(Statement, frozen=True, kw_only=True):
    """`kind` is None for `DESCRIBE name`: whatever bears that name."""

    kind: Literal["dataset", "channel"] | None
    name: str


class Query(Statement, frozen=True, kw_only=True):
    """An ad hoc SELECT: `text` is the query."""
