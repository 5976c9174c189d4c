"""Two brokers over a link: the hello with which one dials, and the messages that follow.

A message travels as JSON text, `[number, message]`. A link carries them in order, each once;
`number` says which one it is of this incarnation of the link.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct

from tocsin.overlay.filters import Filter
from tocsin.protocol.fields import (
    After,
    At,
    BackendId,
    BrokerName,
    DatasetName,
    Epoch,
    LogPosition,
    ProtocolVersion,
    Upto,
    about,
)

PATH = "/v1/link"
INCARNATION_HEADER = "Tocsin-Incarnation"
"""In a refusal: the newest incarnation that the refusing broker knows. If the dialling broker's
clock has gone back, it learns so which numbers are used up."""

RequestId = Annotated[int, about("a request for old messages, as its first broker counts them")]
QuestionId = Annotated[int, about("as the asking broker counts its questions")]
Path = Annotated[tuple[str, ...], about("brokers on the way, the one that asked first")]


class Hello(Struct, frozen=True):
    """The query of the dialled address. Of two brokers the one with the smaller name dials."""

    broker: BrokerName
    incarnation: Annotated[
        int,
        Meta(
            ge=1,
            le=(1 << 63) - 1,
            description="grows with every dial: of two sockets between the same brokers the one "
            "with the higher number counts, at both ends",
        ),
    ]
    protocol: ProtocolVersion | None = None
    store_id: Annotated[
        str | None,
        about("the store that the dialling broker is with; between two stores there is no link"),
    ] = None


class Publication(Struct, frozen=True, tag="publication"):
    """A record of a dataset. Positions grow along the dataset's log: whoever has all up to one
    can read the rest there."""

    dataset: DatasetName
    position: LogPosition
    record: dict[str, Any]
    at: At = 0.0

    @property
    def key(self) -> tuple[str, int]:
        return self.dataset, self.position


class Subscriptions(Struct, frozen=True, tag="subscriptions", omit_defaults=True):
    """What the sender asks for from now on, and what no longer: of all filters behind it the widest
    (overlay II). Both count at once, so that nothing falls between."""

    dataset: DatasetName
    come: Annotated[tuple[Filter, ...], about("filters that it asks for from now on")] = ()
    gone: Annotated[tuple[Filter, ...], about("filters that it no longer asks for")] = ()


class Assured(Struct, frozen=True, tag="assured"):
    """Whatever is after `position` and matches what you asked for, up to your message `number`,
    comes over this link. With number 0, nothing is assured any more."""

    dataset: DatasetName
    position: LogPosition
    number: Annotated[int, about("the last message of the receiver that this takes into account")]


class Request(Struct, frozen=True, tag="request"):
    """Who has old messages that match?"""

    request: RequestId
    filter: Filter
    path: Path


class Response(Struct, frozen=True, tag="response"):
    """An old message on its way back to whoever asked."""

    request: RequestId
    publication: Publication
    path: Path
    hops: Annotated[int, about("how many links away it was found")]


class ResultsWanted(Struct, frozen=True, tag="results-wanted"):
    """Has the neighbour's result cache what a backend subscription has in (after, upto]?"""

    question: QuestionId
    backend: BackendId
    epoch: Epoch
    after: After
    upto: Upto


class ResultsFound(Struct, frozen=True, tag="results-found"):
    """All that there is in (after, upto], a part of what was wanted. Nothing is known if
    after = upto."""

    question: QuestionId
    after: After
    upto: Upto
    results: Annotated[
        tuple[tuple[int, float, Raw], ...], about("position, time of making and JSON of each")
    ] = ()


Question = ResultsWanted | ResultsFound
"""Between the result caches of two neighbours; routing has no part in it."""

Message = Publication | Subscriptions | Assured | Request | Response | Question

Number = Annotated[int, Meta(ge=1)]

encode: Callable[[tuple[int, Message]], bytes] = msgspec.json.Encoder().encode
decode: Callable[[bytes], tuple[int, Message]] = msgspec.json.Decoder(tuple[Number, Message]).decode
