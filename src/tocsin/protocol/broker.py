"""REST at a broker: where it is, markers, its caches, its place in the overlay, old messages."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta, Struct, field

from tocsin.protocol.fields import (
    At,
    BrokerName,
    Counters,
    DatasetName,
    HttpUrl,
    LogPosition,
    MarkerPosition,
    WebSocketUrl,
    about,
)


class BrokerInfo(Struct, frozen=True):
    """Where a broker is. A broker says it of itself, a coordinator of all."""

    name: BrokerName
    url: HttpUrl
    ws_url: WebSocketUrl


class MarkerInfo(Struct, frozen=True):
    """The acknowledgement is durable."""

    marker: MarkerPosition


class CacheInfo(Struct, frozen=True):
    """The result cache."""

    policy: Annotated[str, about("how it was written")]
    budget_bytes: int
    size_bytes: int
    backends: Annotated[int, about("backend subscriptions that this broker serves")]
    hit_ratio: Annotated[float, about("results given from the cache, of all that were asked for")]
    counters: Counters


class PolicyChange(Struct, frozen=True):
    """Another policy for the result cache; what is cached stays as far as that allows."""

    policy: Annotated[str, about("the name of a policy, or one of each family")]


class PagesInfo(Struct, frozen=True):
    """The page cache, which holds attachments."""

    policy: Annotated[str, about("how it was written")]
    capacity_bytes: int
    size_bytes: int
    pages: Annotated[int, about("attachments that are there whole")]
    filling: Annotated[int, about("attachments that are on their way from the cluster")]
    hit_ratio: float
    byte_hit_ratio: float
    served_bytes: Annotated[int, about("sent to clients")]
    fetched_bytes: Annotated[int, about("got from the cluster")]
    saved_bytes: Annotated[int, about("sent without having to be fetched")]
    counters: Counters


class PagesChange(Struct, frozen=True, forbid_unknown_fields=True):
    """What is not given stays."""

    policy: str | None = None
    capacity_bytes: Annotated[int, Meta(ge=0)] | None = None


class MessagesChange(Struct, frozen=True, forbid_unknown_fields=True):
    """What is not given stays."""

    policy: str | None = None
    slots: Annotated[int, Meta(ge=0)] | None = None


class MessagesInfo(Struct, frozen=True):
    """The message cache, and what requests for old messages cost here."""

    policy: Annotated[str, about("how it was written")]
    slots: Annotated[int, about("how many messages it may hold")]
    held: Annotated[int, about("how many it holds")]
    requests: Counters


class OverlayInfo(Struct, frozen=True):
    """A broker among the others."""

    name: BrokerName
    entry: Annotated[str | None, about("the broker where publications enter the tree")]
    neighbours: Annotated[list[str], about("brokers that it is linked with now")]
    filters: Annotated[int, about("subscriptions to routed datasets that it serves")]
    messages: MessagesInfo
    from_neighbours: Annotated[
        dict[str, float], about("what it asked of neighbours' result caches, and what it gave")
    ]


class Recalling(Struct, frozen=True):
    """Ask for old records of a routed dataset, as far as the brokers' message caches hold them."""

    dataset: DatasetName
    where: Annotated[str, about("a filter; empty: all records")] = ""
    wait_s: Annotated[float, Meta(ge=0, le=10, description="how long answers are gathered")] = 0.2


class RecalledRecord(Struct, frozen=True):
    position: LogPosition
    at: At
    record: dict[str, Any]
    hops: Annotated[int, about("how many links away it was found")]
    took_s: Annotated[float, about("how long after the request it was here")]


class Recalled(Struct, frozen=True):
    """In order of positions; what no cache holds is not among them."""

    records: list[RecalledRecord] = field(name="found")
