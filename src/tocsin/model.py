"""The words of Tocsin as frozen records (docs/glossary.md says what each means).

Knows nothing of storage, Spark, sockets or clocks. Times are seconds since the epoch (`_at`),
durations are seconds (`_s`), sizes are bytes (`_bytes`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

from msgspec import Struct

from tocsin.errors import InvalidInput

Arguments = dict[str, Any]
"""A parameter set: the value given for each of a channel's parameters, JSON-able."""

ANY: Final[Mapping[str, bool]] = {"any": True}
"""In the place of a value it leaves the parameter open. Parameters are scalar, so no value of one
can be an object."""

MessageFormat = Literal["json", "csv"]
ChannelKind = Literal["continuous", "repetitive", "filter"]
"""A filter is made with its dataset, not by a statement of its own, and runs nothing."""

FILTERED: Final = "dataset/"
"""Before a dataset's name: the channel of all filters on its records. Their results are the records
themselves, at the positions that they have in the dataset's log, counted from one."""

Mode = Literal["micro-batches", "real-time"]
"""How Spark feeds a continuous channel; chosen once, when the channel is created."""


Privilege = Literal["subscribe", "publish", "read"]
"""What a grant allows: to subscribe to a channel, to publish to a dataset, to read its records."""


class Grant(Struct, frozen=True):
    """`name` is a channel's if the privilege is to subscribe, otherwise a dataset's."""

    role: str
    privilege: Privilege
    name: str


QuotaName = Literal["subscriptions", "parameter_sets", "publications", "bytes", "connections"]
"""What a quota bounds for each subject of its role."""

EVERYBODY: Final = ""
"""In the place of a role's name: all roles, and whoever has none."""


class Quota(Struct, frozen=True):
    """The most of it that one subject may have; of `publications` and `bytes`, in a second."""

    role: str
    name: QuotaName
    size: int


class Column(Struct, frozen=True):
    name: str
    type: str  # canonical SQL type text, as Spark's DDL reads it: "STRING", "ARRAY<INT>", …


class KafkaSource(Struct, frozen=True):
    """A topic that others fill."""

    topic: str
    format: MessageFormat = "json"


class BoundColumn(Struct, frozen=True):
    """A column of a routed dataset: a subscriber gets the records in which it has the value of a
    claim of the subscriber's token."""

    column: str
    claim: str


class Dataset(Struct, frozen=True):
    """A named collection of records. `open` keeps fields that no column declares; `source` is what
    feeds it by itself."""

    name: str
    columns: tuple[Column, ...]
    open: bool = False
    primary_key: tuple[str, ...] = ()
    retain_s: float | None = None
    created_at: float = 0.0
    source: KafkaSource | None = None
    routed: bool = False  # brokers pass its records on by filters
    bound: tuple[BoundColumn, ...] = ()  # what every filter on it is joined with


class Parameter(Struct, frozen=True, omit_defaults=True):
    """One with a `claim` is bound: its value is that claim of the subscriber's token, and nobody
    gives it. Neither it nor one that is `required` can be left open."""

    name: str
    type: str
    required: bool = False
    claim: str | None = None

    @property
    def needed(self) -> bool:
        return self.required or self.claim is not None


SUBSCRIBER: Final = Parameter("_subscriber", "STRING", claim="sub")
"""What `current_subscriber()` in a channel's query is: a parameter like others, whose name no
statement can give to one."""


class Delivery(Struct, frozen=True, kw_only=True):
    """How results leave besides through brokers: into one Kafka topic of the user's, or (without a
    `topic`) into a log of each consumer's own."""

    topic: str = ""
    admit: str = "all"  # which publications are written into the consumer logs at once
    keep_bytes: int | None = None  # the most that each consumer log keeps
    shared: bool = False  # values are in one log, consumer logs refer to them

    @property
    def counts(self) -> bool:
        """Whether it must know how many consumers a publication is for."""
        return not self.topic and self.admit not in ("all", "none")


class Channel(Struct, frozen=True):
    """A parameterised query. `query` is the text as its author wrote it."""

    name: str
    kind: ChannelKind
    parameters: tuple[Parameter, ...]
    query: str
    reads: tuple[str, ...]  # every dataset the query names
    new: tuple[str, ...]  # those marked NEW
    period_s: float | None = None  # repetitive only
    push: bool = False  # payloads travel with the notice
    created_at: float = 0.0
    starts: dict[str, int] = {}  # the logs' ends at its creation: it hears of what comes after
    mode: Mode = "micro-batches"
    mode_reason: str = ""
    delivery: Delivery | None = None
    attachments: tuple[str, ...] = ()  # fields of its results that hold attachments
    keys: tuple[str, ...] = ()  # those fields that are the key of the record that had them

    @property
    def given(self) -> tuple[Parameter, ...]:
        """The parameters that subscribers give, in order."""
        return tuple(parameter for parameter in self.parameters if parameter.claim is None)

    @property
    def bound(self) -> tuple[Parameter, ...]:
        """The parameters that are bound to claims."""
        return tuple(parameter for parameter in self.parameters if parameter.claim is not None)


class Broker(Struct, frozen=True):
    """A broker as the cluster knows it: where notices for it go."""

    name: str
    url: str
    created_at: float = 0.0


class Cursor(Struct, frozen=True):
    """How far someone has read. Positions of different epochs cannot be compared."""

    epoch: str
    position: int


class Beginning(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where a new subscription begins, if not with what comes next: with what came within so many
    `seconds`, or with the `last` so many results. One of the two."""

    seconds: float | None = None
    last: int | None = None


class BackendSubscription(Struct, frozen=True):
    """Channel + parameters, shared by all who asked the same. Results in (floor, head] are kept.
    `filter`: of a dataset's records, as brokers match it (an `overlay` Filter, as JSON)."""

    id: int
    channel: str
    arguments: Arguments
    epoch: str
    head: int = 0
    floor: int = 0
    filter: Any = None
    attachments: tuple[str, ...] = ()  # fields of its results that hold attachments
    keys: tuple[str, ...] = ()  # fields that name the story: the newest version of it counts
    since: int = 0  # the position from which records of its channel's one NEW dataset count
    claims: tuple[str, ...] = ()  # of the subscriber's token: what its arguments are bound to


class Subscription(Struct, frozen=True):
    """A frontend subscription: one person's interest, where it is served, how far it was read."""

    id: int
    subscriber: str
    broker: str | None
    backend: BackendSubscription
    marker: int  # every result up to here was acknowledged


class Result(Struct, frozen=True, gc=False):
    """One answer of a channel for one backend subscription. `payload` is a JSON object."""

    backend: int
    position: int
    created_at: float
    payload: bytes

    @property
    def size_bytes(self) -> int:
        return len(self.payload)


class Departure(Struct, frozen=True):
    """A frontend subscription that left a broker: for another one, or (`to` is None) for good."""

    subscription: int
    to: str | None = None


class Head(Struct, frozen=True, gc=False):
    """Up to which position a backend subscription has results; what a notice carries."""

    backend: int
    epoch: str
    head: int


ATTACHMENT: Final = "ATTACHMENT"
"""The type of a column whose values are attachments."""

_ATTACHMENT_ID = re.compile(r"[0-9a-f]{64}")


class Attachment(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a record says of an attachment. Its bytes lie in the content store, under their hash."""

    id: str  # lower-case hexadecimal SHA-256 of the bytes
    size: int
    type: str  # such as image/png
    name: str | None = None


def is_attachment_id(text: str) -> bool:
    return _ATTACHMENT_ID.fullmatch(text) is not None


def check_attachment_id(text: str) -> str:
    """Whatever becomes a file's name went through here."""
    if not is_attachment_id(text):
        raise InvalidInput(
            "that is no attachment's id",
            field="id",
            hint="an id is the SHA-256 of the bytes: 64 hexadecimal digits, lower case",
        )
    return text


def attachments_of(dataset: Dataset) -> tuple[str, ...]:
    """Its columns that hold attachments."""
    return tuple(column.name for column in dataset.columns if column.type == ATTACHMENT)


def filters_of(dataset: Dataset) -> Channel:
    """The channel that all filters on the dataset's records are subscriptions of."""
    return Channel(
        name=FILTERED + dataset.name,
        kind="filter",
        parameters=(Parameter("where", "STRING"),),
        query="",
        reads=(dataset.name,),
        new=(),
        created_at=dataset.created_at,
        attachments=attachments_of(dataset),
        keys=dataset.primary_key,
    )


def filtered_dataset(channel: str) -> str | None:
    """The dataset whose records a channel's subscriptions filter, if it is such a channel."""
    return channel.removeprefix(FILTERED) if channel.startswith(FILTERED) else None
