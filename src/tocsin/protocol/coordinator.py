"""Brokers, clients and the coordinator: heartbeats, who is alive, and the tree of brokers."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from tocsin.protocol.broker import BrokerInfo
from tocsin.protocol.fields import HttpUrl, WebSocketUrl, about


class Heartbeat(Struct, frozen=True):
    """A broker says that it lives."""

    url: HttpUrl
    ws_url: WebSocketUrl
    connections: Annotated[int, Meta(ge=0, description="clients that are connected to it")] = 0
    subscriptions: Annotated[int, Meta(ge=0, description="subscriptions that it serves")] = 0
    place: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        about("its place among all brokers, as it was first answered, by whichever coordinator"),
    ] = None


class OverlayAssignment(Struct, frozen=True):
    """A broker's part of the overlay."""

    entry: Annotated[str | None, about("the broker where publications enter the tree")]
    neighbours: Annotated[
        dict[str, str], about("whom it is to be linked with: by name, where each takes WebSockets")
    ]


class HeartbeatAnswer(Struct, frozen=True):
    interval_s: Annotated[float, about("when the next heartbeat is expected")]
    place: Annotated[
        int | None,
        about(
            "among all brokers; the next heartbeat repeats it, for a coordinator that starts anew"
        ),
    ] = None
    overlay: Annotated[OverlayAssignment | None, about("null: as before")] = None
    alive: Annotated[
        int, about("brokers that the coordinator knows to live: brokers follow who knows the most")
    ] = 0


class LiveBroker(BrokerInfo, frozen=True):
    """A broker as the coordinator sees it at one moment."""

    connections: int
    subscriptions: int
    alive: bool
    age_s: Annotated[float, about("since its last heartbeat")]


class LiveBrokers(Struct, frozen=True):
    """Every broker that reported and did not leave, dead ones too, by name."""

    brokers: list[LiveBroker]


class OverlayTree(Struct, frozen=True):
    """The tree that the living brokers are to form."""

    entry: Annotated[str | None, about("where publications enter; null if nobody lives")]
    brokers: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
