"""A broker and the cluster: registration, subscriptions, notices, ranges of results and of logs,
markers, and the stream of routed records.

Payloads and records stay the bytes that they are in the store (`Raw`): the cluster encodes them so
and brokers read results so; a broker that must match records reads them as objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Generic, Literal

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from tocsin.model import Broker, Channel, Dataset, Departure
from tocsin.overlay.filters import Filter
from tocsin.protocol.client import Interest, Marker, ResultInfo, SubscriptionList, V
from tocsin.protocol.fields import (
    After,
    At,
    BackendId,
    BrokerName,
    DatasetName,
    Epoch,
    Floor,
    Head,
    HttpUrl,
    LogPosition,
    Sequence,
    StoreId,
    Subscriber,
    Upto,
    about,
)
from tocsin.protocol.unreadable import readable

SUBSCRIBER_TOKEN = "Tocsin-Subscriber-Token"
"""The header in which a broker passes on the token of the subscriber for whom it asks."""


class Registration(Struct, frozen=True):
    """A broker says where notices for it go."""

    url: HttpUrl


class Registered(Struct, frozen=True, omit_defaults=True):
    name: BrokerName
    store_id: StoreId
    notice_secret: Annotated[
        str | None, about("signs notices for this broker alone; without it, the shared secret does")
    ] = None


class AttachRequest(Struct, frozen=True):
    """A subscriber has come to a broker: everything of theirs moves there."""

    subscriber: Subscriber


class Arrived(SubscriptionList, frozen=True, kw_only=True):
    """What a broker serves of a subscriber who came."""

    connections: (
        Annotated[int, about("the most that the subscriber may have; without it, any number")]
        | UnsetType
    ) = UNSET


class BrokerSubscriptions(SubscriptionList, frozen=True, kw_only=True):
    """Frontend subscriptions that a broker serves, as of `sequence`: all, or a page of them, by
    number. What changes while pages are read is news since the sequence of the first."""

    sequence: Sequence
    store_id: StoreId | None = None
    upto: Annotated[
        int | None, about("up to this number there are no others; null: nor are there behind it")
    ] = None


class SubscriptionRequest(Interest, frozen=True, forbid_unknown_fields=True):
    """A subscription for somebody, at a broker."""

    subscriber: Annotated[
        str | None, about("for whom; without it, for the token's own subject")
    ] = None
    broker: Annotated[str | None, about("the broker that is to serve it")] = None


class HeadNews(Struct, frozen=True, omit_defaults=True, gc=False):
    """A backend subscription has more results. `results`: those that travel with the notice,
    without holes and up to `head`; others are fetched."""

    backend: BackendId
    epoch: Epoch
    head: Head
    results: list[ResultInfo[Raw]] = []


class News(Struct, frozen=True):
    """What changed for a broker: the body of a notice, and the answer to "what is new since"."""

    sequence: Sequence
    heads: list[HeadNews] = []
    detached: Annotated[
        list[Departure], about("frontend subscriptions that this broker no longer serves")
    ] = []
    store_id: StoreId | None = None
    number: Annotated[
        int | None, about("of a notice: one more than that of the notice before to this broker")
    ] = None


class Noticed(Struct, frozen=True, omit_defaults=True):
    """A broker's answer to a notice: what it would do with results, and what it does not serve."""

    keeps: Annotated[
        bool | None,
        about(
            "whether results may travel with notices: it caches them, or has somebody inline;"
            " without it, those of channels that push do"
        ),
    ] = None
    unknown: Annotated[
        list[int], about("backend subscriptions of the notice that nobody here holds")
    ] = []


class RangeRequest(Struct, frozen=True):
    """Results of a backend subscription in (after, upto], the oldest first."""

    backend: BackendId
    after: After
    upto: Upto
    limit: Annotated[int, about("the most results that the answer may hold")]


class RangeRequests(Struct, frozen=True):
    """Several ranges travel in one call; the answers come in the same order."""

    ranges: list[RangeRequest]


class ResultRange(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A part of a backend subscription's results. An unknown one harms no other: it is `gone`."""

    backend: BackendId
    epoch: Epoch = ""
    floor: Floor | None = None
    head: Head | None = None
    results: list[ResultInfo[Raw]] | None = None
    gone: Annotated[bool, about("the cluster does not know it (now)")] = False
    upto: Annotated[int | None, about("of a routed dataset: there is nothing else up to here")] = (
        None
    )


class ResultRanges(Struct, frozen=True):
    ranges: list[ResultRange]


class Markers(Struct, frozen=True):
    """Acknowledgements to be made durable."""

    markers: list[Marker]


class UnknownMarkers(Struct, frozen=True):
    """The acknowledgements are durable, but for these."""

    unknown: Annotated[list[int], about("frontend subscriptions that the cluster does not know")]


class LogRecord(Struct, Generic[V], frozen=True):
    """A record of a dataset, at its place in the dataset's log."""

    position: LogPosition
    at: At
    record: V


class LogRange(Struct, Generic[V], frozen=True):
    """All records of a dataset in (after, upto]."""

    floor: Annotated[int, about("records up to this position are no longer kept")]
    upto: Annotated[int, about("there are no other records up to here")]
    records: list[LogRecord[V]]


class BoundFilter(Struct, frozen=True):
    """A filter by its text."""

    where: Annotated[str, about("its canonical text: filters that ask the same have the same")]
    filter: Annotated[Filter, about("what brokers match records with")]


class RoutedLine(Struct, Generic[V], frozen=True, omit_defaults=True):
    """A line of the stream of routed records. One with a `position` is a record that was just
    published; `entered`, `passed` and `left` say what else is to be known of its dataset."""

    dataset: DatasetName
    after: Annotated[int | None, about("the position of the record before")] = None
    position: LogPosition | None = None
    at: At = 0.0
    record: V | None = None
    entered: Annotated[int | None, about("records behind this position come from now on")] = None
    passed: Annotated[int | None, about("all records up to here have been sent")] = None
    left: Annotated[bool, about("no more of this dataset comes")] = False


encode_lines: Callable[[Iterable[RoutedLine[Raw]]], bytes] = msgspec.json.Encoder().encode_lines
decode_line: Callable[[bytes | str], RoutedLine[dict[str, Any]]] = readable(
    msgspec.json.Decoder(RoutedLine[dict[str, Any]]).decode
)


class AttachmentReading(Struct, frozen=True):
    """The subscriber for whom a broker asked may read the attachment."""

    private: Annotated[
        bool,
        about("others may not: each reader must be asked for; false: whoever knows its id may"),
    ]


class ClusterStatus(Struct, frozen=True, kw_only=True):
    """Whether the cluster works, told without a token."""

    ready: Annotated[bool, about("Spark is up, and statements are run")]
    role: Annotated[
        Literal["leader", "standby"] | None,
        about("whether it has the store, or waits for another cluster that has it"),
    ] = None
    leader: Annotated[str | None, about("of a standby: where the leader is, if it said so")] = None
    leader_silent_s: Annotated[
        float | None, about("of a standby: for how long the leader has not renewed its lease")
    ] = None
    store_id: StoreId | None = None
    waits_for: Annotated[str | None, about("what must come first: the store, for example")] = None
    trouble: Annotated[str | None, about("why records do not flow")] = None
    warnings: Annotated[
        list[str], about("what may lose what was acknowledged, and what to do about it")
    ] = []


class DatasetList(Struct, frozen=True):
    datasets: list[Dataset]


class ChannelList(Struct, frozen=True):
    channels: list[Channel]


class RegisteredBrokers(Struct, frozen=True):
    """All brokers that ever registered, alive or not."""

    brokers: list[Broker]
