"""The frames of the WebSocket protocol as typed records (docs/reference/protocol.md).

One definition for both ends: the client encodes requests and decodes answers, the broker the
other way round. Must not know sockets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from tocsin.model import Beginning

Position = Annotated[int, Meta(ge=0)]
Limit = Annotated[int, Meta(ge=1, le=10_000)]
Ref = int | str
DEFAULT_LIMIT = 100

COME_AGAIN = 4000
MOVED = 4001
MALFORMED = 4400
UNAUTHENTICATED = 4401
GOING_AWAY = 1001
TOO_LARGE = 1009


class SubscriptionInfo(Struct, frozen=True):
    """A frontend subscription as services tell it. From `filter` on, to brokers alone."""

    subscription: int
    subscriber: str
    backend: int
    channel: str
    arguments: dict[str, Any]
    epoch: str
    head: int
    floor: int
    marker: int
    broker: str | None = None
    filter: Any | UnsetType = UNSET
    attachments: tuple[str, ...] | UnsetType = UNSET
    keys: tuple[str, ...] | UnsetType = UNSET


class Missing(Struct, frozen=True):
    """Positions (both inclusive) that are no longer kept."""

    first: int = msgspec.field(name="from")
    last: int = msgspec.field(name="to")


class ResultInfo(Struct, frozen=True):
    position: int
    at: float
    value: Any


# Client to broker


class Subscribe(Struct, frozen=True, tag_field="op", tag="subscribe"):
    ref: Ref
    channel: str
    arguments: dict[str, Any] | list[Any] = msgspec.field(default_factory=dict)
    beginning: Beginning | UnsetType | None = msgspec.field(default=UNSET, name="from")


class Unsubscribe(Struct, frozen=True, tag_field="op", tag="unsubscribe"):
    ref: Ref
    subscription: int


class Get(Struct, frozen=True, tag_field="op", tag="get"):
    ref: Ref
    subscription: int
    after: Position | None = None
    epoch: str | None = None
    limit: Limit = DEFAULT_LIMIT


class Ack(Struct, frozen=True, tag_field="op", tag="ack"):
    subscription: int
    epoch: str
    position: Position


class Publish(Struct, frozen=True, tag_field="op", tag="publish"):
    """A record, or a list of them. Sent again under the same key, it is published once."""

    ref: Ref
    dataset: str
    records: dict[str, Any] | list[dict[str, Any]]
    key: str | None = None


class Ping(Struct, frozen=True, tag_field="op", tag="ping"):
    ref: Ref | None = None


Request = Subscribe | Unsubscribe | Get | Ack | Publish | Ping


# Broker to client


class Welcome(Struct, frozen=True, tag_field="op", tag="welcome"):
    """All that the subscriber has. `cluster` is the store's id: ids of another mean nothing."""

    broker: str
    cluster: str
    subscriptions: list[SubscriptionInfo]


class Subscribed(Struct, frozen=True, tag_field="op", tag="subscribed"):
    ref: Ref
    subscription: SubscriptionInfo


class Unsubscribed(Struct, frozen=True, tag_field="op", tag="unsubscribed"):
    ref: Ref


class Published(Struct, frozen=True, tag_field="op", tag="published"):
    """As the cluster answers a publication over HTTP."""

    ref: Ref
    accepted: int
    rejected: int
    end: int
    errors: list[Any]


class Signal(Struct, frozen=True, tag_field="op", tag="signal"):
    backend: int
    epoch: str
    head: int


class Results(Struct, frozen=True, tag_field="op", tag="results", omit_defaults=True):
    """Results in (after, upto]. Without `ref` it was sent unasked (inline)."""

    backend: int
    epoch: str
    after: int
    upto: int
    head: int
    results: list[ResultInfo]
    gap: Missing | None = None
    cached: int = 0
    fetched: int = 0
    near: int = 0  # of neighbours' caches: between those fetched from the store and those cached
    subscription: int | UnsetType = UNSET
    ref: Ref | UnsetType = UNSET


class Acked(Struct, frozen=True, tag_field="op", tag="acked"):
    subscription: int
    epoch: str
    position: int


class Ended(Struct, frozen=True, tag_field="op", tag="ended"):
    """The subscription is over, by whomever: nothing more comes of it."""

    subscription: int


class Moved(Struct, frozen=True, tag_field="op", tag="moved"):
    """The last frame before the close: the subscriber is served by this broker now."""

    broker: str


class Failure(Struct, frozen=True, tag_field="op", tag="error"):
    """With a `subscription`, it is the answer to an acknowledgement: these have no `ref`."""

    error: dict[str, Any]
    ref: Ref | None = None
    subscription: int | UnsetType = UNSET


class Pong(Struct, frozen=True, tag_field="op", tag="pong"):
    ref: Ref | None = None


Answer = (
    Welcome
    | Subscribed
    | Unsubscribed
    | Published
    | Signal
    | Results
    | Acked
    | Ended
    | Moved
    | Failure
    | Pong
)

encode = msgspec.json.Encoder().encode
decode_request: Callable[[bytes | str], Request] = msgspec.json.Decoder(Request).decode
decode_answer: Callable[[bytes | str], Answer] = msgspec.json.Decoder(Answer).decode
