"""A client and its broker: the frames of the WebSocket, and the bodies of REST and events.

The client encodes requests and decodes answers, the broker the other way round. A payload is JSON
already: the broker copies it (`Raw`) and the client parses it, so the records that hold payloads
are generic in the payload's type. Must not know sockets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Generic, Self, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from tocsin.model import Beginning, Subscription
from tocsin.overlay.filters import Filter
from tocsin.protocol import numbers
from tocsin.protocol.failure import ErrorInfo
from tocsin.protocol.fields import (
    After,
    At,
    BackendId,
    BrokerName,
    ChannelName,
    DatasetName,
    Epoch,
    Floor,
    Head,
    Limit,
    MarkerPosition,
    Position,
    ProtocolVersion,
    StoreId,
    Subscriber,
    SubscriptionId,
    Upto,
    about,
)
from tocsin.protocol.fields import Ref as Ref
from tocsin.protocol.numbers import exact
from tocsin.protocol.publishing import Published

PATH = "/v1/ws"  # where a broker takes WebSockets
DEFAULT_LIMIT = 100
LONGEST_WAIT_S = 60.0

# Close codes of a WebSocket; 4000 and above are our own.
GOING_AWAY = 1001
TOO_LARGE = 1009
INTERNAL = 1011
COME_AGAIN = 4000
MOVED = 4001
MALFORMED = 4400
UNAUTHENTICATED = 4401
UPGRADE_REQUIRED = 4426
OVER_QUOTA = 4429

V = TypeVar("V")


class SubscriptionInfo(Struct, frozen=True):
    """A frontend subscription. The fields from `filter` on are for brokers; clients never get
    them."""

    subscription: SubscriptionId
    subscriber: Subscriber
    backend: BackendId
    channel: ChannelName
    arguments: Annotated[dict[str, Any], about("the value of each parameter; `ANY` leaves it open")]
    epoch: Epoch
    head: Head
    floor: Floor
    marker: MarkerPosition
    broker: Annotated[str | None, about("the broker that serves it; null: none yet")] = None
    filter: (
        Annotated[Filter, about("of a routed dataset: what brokers match records with")] | UnsetType
    ) = UNSET
    attachments: (
        Annotated[tuple[str, ...], about("fields of its results that hold attachments")] | UnsetType
    ) = UNSET
    keys: (
        Annotated[
            tuple[str, ...],
            about("fields that name the story: a newer version makes older attachments needless"),
        ]
        | UnsetType
    ) = UNSET
    claims: (
        Annotated[
            tuple[str, ...],
            about("claims of the subscriber's token that its arguments are bound to"),
        ]
        | UnsetType
    ) = UNSET

    @classmethod
    def of(cls, subscription: Subscription, **more: Any) -> Self:
        """With what only brokers need, if that is given."""
        backend = subscription.backend
        return cls(
            subscription=subscription.id,
            subscriber=subscription.subscriber,
            backend=backend.id,
            channel=backend.channel,
            arguments=backend.arguments,
            epoch=backend.epoch,
            head=backend.head,
            floor=backend.floor,
            marker=subscription.marker,
            broker=subscription.broker,
            **more,
        )


class SubscriptionList(Struct, frozen=True):
    subscriptions: list[SubscriptionInfo]


class Missing(Struct, frozen=True):
    """Positions that are no longer kept, both ends included."""

    first: Annotated[int, about("the first that is lost")] = field(name="from")
    last: Annotated[int, about("the last that is lost")] = field(name="to")


class ResultInfo(Struct, Generic[V], frozen=True, gc=False):
    """One result, or one record of a routed dataset."""

    position: Position
    at: At
    value: V


class Results(Struct, Generic[V], frozen=True):
    """Results in (after, upto], oldest first: those from the store, those from neighbouring
    brokers, those of this broker's cache. If `upto` < `head`, there is more to get."""

    backend: BackendId
    epoch: Epoch
    after: After
    upto: Upto
    head: Head
    results: list[ResultInfo[V]]
    gap: Annotated[Missing | None, about("what was asked for and is lost")] = None
    cached: Annotated[int, about("how many came from this broker's result cache")] = 0
    fetched: Annotated[int, about("how many came from the result store")] = 0
    from_neighbours: Annotated[
        int, about("how many came from the result caches of neighbouring brokers")
    ] = 0
    subscription: SubscriptionId | UnsetType = UNSET


# Client to broker


class Interest(Struct, frozen=True):
    """What somebody subscribes to."""

    channel: ChannelName
    arguments: Annotated[
        dict[str, Any] | list[Any], about("the channel's arguments, by name or by place")
    ] = field(default_factory=dict)
    beginning: (
        Annotated[
            Beginning | None,
            about("where a new subscription begins; without it, with what comes next"),
        ]
        | UnsetType
    ) = field(default=UNSET, name="from")


class Subscribe(Interest, frozen=True, kw_only=True, tag_field="op", tag="subscribe"):
    """The same channel and arguments give the same subscription."""

    ref: Ref


class Unsubscribe(Struct, frozen=True, tag_field="op", tag="unsubscribe"):
    """End a subscription for good."""

    ref: Ref
    subscription: SubscriptionId


class Get(Struct, frozen=True, tag_field="op", tag="get"):
    """Ask for results behind a cursor; without one, behind the marker."""

    ref: Ref
    subscription: SubscriptionId
    after: Position | None = None
    epoch: Epoch | None = None
    limit: Limit = DEFAULT_LIMIT


class GetMany(Struct, frozen=True, tag_field="op", tag="get_many"):
    """Several gets, each answered by itself. For brokers whose `welcome` says `batch`."""

    gets: list[Get]


class Acknowledgement(Struct, frozen=True):
    """Everything up to a position was taken. One beyond the head counts as the head; one of another
    epoch, or behind the marker, changes nothing."""

    epoch: Epoch
    position: Position


class Ack(Acknowledgement, frozen=True, kw_only=True, tag_field="op", tag="ack"):
    """Has no `ref`: several may be answered by one."""

    subscription: SubscriptionId


class Marker(Struct, frozen=True):
    """How far a frontend subscription was acknowledged. It never goes backwards."""

    subscription: SubscriptionId
    epoch: Epoch
    position: Position


class AckMany(Struct, frozen=True, tag_field="op", tag="ack_many"):
    """What was taken of many subscriptions, each as by `ack`. For brokers whose `welcome` says
    `batch`; the answer is `acked_many`."""

    markers: list[Marker]


class Publish(Struct, frozen=True, tag_field="op", tag="publish"):
    """A record, or a list of them. Connections keep the order of their records."""

    ref: Ref
    dataset: DatasetName
    records: dict[str, Any] | list[dict[str, Any]]
    key: Annotated[
        str | None, about("as the header Idempotency-Key: sent again, it is published once")
    ] = None


class Ping(Struct, frozen=True, tag_field="op", tag="ping"):
    ref: Ref | None = None


SingleRequest = Subscribe | Unsubscribe | Get | Ack | AckMany | Publish | Ping
Request = SingleRequest | GetMany


# Broker to client


class Welcome(Struct, frozen=True, tag_field="op", tag="welcome"):
    """The broker speaks first: all that the subscriber has. One that is missing has ended, unless
    the store is another one than before."""

    broker: BrokerName
    store_id: StoreId
    subscriptions: list[SubscriptionInfo]
    protocol: ProtocolVersion | None = None
    batch: (
        Annotated[
            bool,
            about(
                "you asked for `batch`: you get such frames, and may send `get_many` and `ack_many`"
            ),
        ]
        | UnsetType
    ) = UNSET


class Subscribed(Struct, frozen=True, tag_field="op", tag="subscribed"):
    ref: Ref
    subscription: SubscriptionInfo


class Unsubscribed(Struct, frozen=True, tag_field="op", tag="unsubscribed"):
    ref: Ref


class PublishedFrame(Published, frozen=True, kw_only=True, tag_field="op", tag="published"):
    """The records are durable."""

    ref: Ref


class Signal(Struct, frozen=True, tag_field="op", tag="signal"):
    """There are results up to `head` for all your subscriptions of this backend subscription.
    Signals conflate: a slow reader sees only the newest."""

    backend: BackendId
    epoch: Epoch
    head: Head


class ResultsFrame(Results[V], Generic[V], frozen=True, tag_field="op", tag="results"):
    """Without `ref` and `subscription` it was sent unasked (inline)."""

    ref: Ref | UnsetType = UNSET


class Acked(Struct, frozen=True, tag_field="op", tag="acked"):
    """The marker as it is durable now."""

    subscription: SubscriptionId
    epoch: Epoch
    position: Position


class AckedMany(Struct, frozen=True, tag_field="op", tag="acked_many"):
    """The markers as they are durable now, of what `ack_many` acknowledged."""

    markers: list[Marker]


class Ended(Struct, frozen=True, tag_field="op", tag="ended"):
    """The subscription is over, by whomever: nothing more comes of it."""

    subscription: SubscriptionId


class Moved(Struct, frozen=True, tag_field="op", tag="moved"):
    """The last frame before the close: the subscriber is served by this broker now."""

    broker: BrokerName


class Failure(Struct, frozen=True, tag_field="op", tag="error"):
    """The answer to a request that failed. With a `subscription`, to an acknowledgement: these have
    no `ref`."""

    error: ErrorInfo
    ref: Ref | None = None
    subscription: SubscriptionId | UnsetType = UNSET


class Pong(Struct, frozen=True, tag_field="op", tag="pong"):
    ref: Ref | None = None


Batched = (
    Subscribed
    | Unsubscribed
    | PublishedFrame
    | Signal
    | ResultsFrame[Any]
    | Acked
    | AckedMany
    | Ended
    | Moved
    | Failure
    | Pong
)


class Batch(Struct, Generic[V], frozen=True, tag_field="op", tag="batch"):
    """What a broker has for a client at one moment. For clients that asked for it by `batch=1`."""

    frames: Annotated[list[V], about("any but `welcome` and `batch`, in order")]


Answer = Welcome | Batch[Batched] | Batched

encode = numbers.encode
decode_request: Callable[[bytes | str], Request] = msgspec.json.Decoder(
    Request, float_hook=exact
).decode
decode_answer: Callable[[bytes | str], Answer] = msgspec.json.Decoder(
    Answer, float_hook=exact
).decode
decode_batch: Callable[[bytes | str], Batch[Raw]] = msgspec.json.Decoder(Batch[Raw]).decode
"""With frames that are not looked into: some may be of a newer version."""


def encode_batch(encoded: Iterable[bytes]) -> bytes:
    """A `batch` of frames that were encoded before."""
    return b'{"op":"batch","frames":[%b]}' % b",".join(encoded)


# Server-sent events carry the same frames, and at the end:


class Closing(Struct, frozen=True):
    """Why the stream ends; the codes are those of the WebSocket."""

    code: int
    reason: str


Event = Welcome | Signal | ResultsFrame[Any] | Acked | Ended | Moved | Failure
"""The data of an event; the last one, `closing`, has a Closing."""
