"""What the broker core asks its driver to do, and the answers it makes. Plain records, no I/O.

`connections` of a Signal or SendInline share one frame: encode once, write to all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from tocsin.errors import TocsinError
from tocsin.model import Result

Request = Any
"""Whatever the driver gave with a get or an ack, to find again who asked."""


class Gap(Struct, frozen=True):
    """Positions that can no longer be served, both ends included."""

    first: int
    last: int


class Marker(Struct, frozen=True):
    subscription: int
    epoch: str
    position: int


class Fetch(Struct, frozen=True):
    """Read (after, upto] from the result store, at most `limit`; answer with `fetched`.

    The driver may batch; each ends in exactly one `fetched` or `fetch_failed`.
    """

    fetch: int
    backend: int
    after: int
    upto: int
    limit: int
    ahead: bool  # True: to fill the cache; False: somebody waits for a missed part


class AskNews(Struct, frozen=True):
    """Ask the cluster what changed after `since`; answer with `news` or `news_failed`."""

    since: int


class Signal(Struct, frozen=True):
    """Results up to `head` can be had."""

    backend: int
    epoch: str
    head: int
    connections: list[int]


class SendInline(Struct, frozen=True):
    """Results that continue at `after`. A client that has not read up to there gets instead."""

    backend: int
    epoch: str
    after: int
    head: int
    results: list[Result]
    connections: list[int]


class Answer(Struct, frozen=True):
    """One ordered answer to a get: those fetched from the store first, then those from a
    neighbour's cache, then the suffix that is cached here."""

    request: Request
    subscription: int
    backend: int
    epoch: str
    after: int
    upto: int
    head: int
    gap: Gap | None
    cached: int
    fetched: int
    results: list[Result]
    near: int = 0


class Fail(Struct, frozen=True):
    request: Request
    error: TocsinError


class StoreMarkers(Struct, frozen=True):
    """Make these durable; answer with `markers_stored` or `markers_failed`. One at a time."""

    markers: list[Marker]


class Acked(Struct, frozen=True):
    """The marker is durable at the cluster."""

    subscription: int
    epoch: str
    position: int
    connections: list[int]
    requests: list[Request]


class NotAcked(Struct, frozen=True):
    """What these connections acknowledged can have no marker."""

    subscription: int
    error: TocsinError
    connections: list[int]


class Ended(Struct, frozen=True):
    """The subscription is over for good; its subscriber's connections stay."""

    subscription: int
    connections: list[int]


class NewPages(Struct, frozen=True):
    """New results mention attachments, in these fields; so many subscriptions here get them. What
    has the same values in `keys` is the same story, of which only the newest counts."""

    channel: str
    subscriptions: int
    results: Sequence[Result]
    attachments: tuple[str, ...]
    keys: tuple[str, ...]


class CloseConnection(Struct, frozen=True):
    """The core has forgotten the connection already. Its subscriber is served by the broker
    `moved_to`; if that is None, it shall come again and hear what has become of it."""

    connection: int
    moved_to: str | None


Effect = (
    Fetch
    | AskNews
    | Signal
    | SendInline
    | Answer
    | Fail
    | StoreMarkers
    | Acked
    | NotAcked
    | Ended
    | CloseConnection
    | NewPages
)
