"""What brokers tell each other over a link. Plain records, encodable as they are.

A link carries them in order, each once; `Send` says in which incarnation of the link, and which one
it is of that.
"""

from __future__ import annotations

from typing import Any

from msgspec import Raw, Struct

from tocsin.overlay.filters import Filter


class Publication(Struct, frozen=True, tag="publication"):
    """A record of a dataset. Positions grow along the dataset's log: whoever has all up to one
    can read the rest there. `at`: when it was received."""

    dataset: str
    position: int
    record: dict[str, Any]
    at: float = 0.0

    @property
    def key(self) -> tuple[str, int]:
        return self.dataset, self.position


class Subscriptions(Struct, frozen=True, tag="subscriptions", omit_defaults=True):
    """What the sender asks for from now on, and what no longer: of all filters behind it the widest
    (overlay II). Both count at once, so that nothing falls between."""

    dataset: str
    come: tuple[Filter, ...] = ()
    gone: tuple[Filter, ...] = ()


class Assured(Struct, frozen=True, tag="assured"):
    """Whatever is after `position` and matches what you asked for, up to your message `number`,
    comes over this link. With number 0, nothing is assured any more."""

    dataset: str
    position: int
    number: int


class Request(Struct, frozen=True, tag="request"):
    """Who has old messages that match? `path`: the brokers it came through, who asked first."""

    request: int
    filter: Filter
    path: tuple[str, ...]


class Response(Struct, frozen=True, tag="response"):
    """An old message, on its way back: `path` is what is left of it. It was found `hops` away."""

    request: int
    publication: Publication
    path: tuple[str, ...]
    hops: int


class ResultsWanted(Struct, frozen=True, tag="results-wanted"):
    """Has the neighbour's result cache what a backend subscription has in (after, upto]?"""

    question: int
    backend: int
    epoch: str
    after: int
    upto: int


class ResultsFound(Struct, frozen=True, tag="results-found"):
    """All that there is in (after, upto], a part of what was wanted: position, time of making and
    JSON of each. Nothing is known if after = upto."""

    question: int
    after: int
    upto: int
    results: tuple[tuple[int, float, Raw], ...] = ()


Question = ResultsWanted | ResultsFound
"""Between the result caches of two neighbours; routing has no part in it."""

Message = Publication | Subscriptions | Assured | Request | Response | Question
