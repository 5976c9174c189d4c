"""What the broker machine asks whoever drives it to do. Plain records, no I/O; `Effect` names all.

Calls of the cluster carry a number, `call`, which the machine gives them on their way out: answers
and failures come back with it, and one that is no longer waited for changes nothing.
`connections` of a Signal or SendInline share one frame: encode once, write to all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from tocsin.errors import TocsinError
from tocsin.model import Result, Subscription
from tocsin.overlay.routing import Publication, Relink, Send
from tocsin.protocol.client import Interest
from tocsin.protocol.client import Marker as Marker

T_contra = TypeVar("T_contra", contravariant=True)


class Asker(Protocol[T_contra]):
    """Who waits for an answer. The machine keeps it and hands it back, and calls nothing."""

    def answered(self, answer: T_contra) -> None: ...
    def failed(self, error: TocsinError) -> None: ...


class Gap(Struct, frozen=True):
    """Positions that can no longer be served, both ends included."""

    first: int
    last: int


# -- calls of the cluster --------------------------------------------------------------------------


class Register(Struct, frozen=True):
    """Say where notices for this broker go; answer with `registered`."""

    call: int = 0


class LoadSubscriptions(Struct, frozen=True):
    """Ask for the subscriptions on this broker, those behind a number; answer with `loaded`."""

    after: int = 0
    call: int = 0


class AttachSubscriber(Struct, frozen=True):
    """Move a subscriber here with all subscriptions; answer with `attached`. `token`: what the
    subscriber showed, for the cluster to look at."""

    arrival: int
    subscriber: str
    token: str = ""
    call: int = 0


class CreateSubscription(Struct, frozen=True):
    """Subscribe somebody, here unless it is served elsewhere; answer with `subscribed`."""

    arrival: int
    subscriber: str
    interest: Interest
    token: str = ""
    call: int = 0


class DeleteSubscription(Struct, frozen=True):
    """End a subscription; answer with `unsubscribed`."""

    arrival: int
    subscriber: str
    subscription: int
    call: int = 0


class Fetch(Struct, frozen=True):
    """Read (after, upto] from the result store, at most `limit`; answer with `fetched`.

    The driver may batch; each ends in exactly one answer or failure.
    """

    fetch: int  # the core's own number of it
    backend: int
    after: int
    upto: int
    limit: int
    ahead: bool  # True: to fill the cache; False: somebody waits for a missed part
    call: int = 0


class AskNews(Struct, frozen=True):
    """Ask the cluster what changed after `since`; answer with `news`."""

    since: int
    call: int = 0


class StoreMarkers(Struct, frozen=True):
    """Make these durable; answer with `markers_stored`. One at a time."""

    markers: list[Marker]
    call: int = 0


class ReadLog(Struct, frozen=True):
    """Read what a dataset's log has in (after, upto], or the first of it; answer with
    `log_read`."""

    fill: int
    dataset: str
    after: int
    upto: int
    call: int = 0


class OpenStream(Struct, frozen=True):
    """Follow the stream of routed records; each line is a `streamed`, its end a failure."""

    call: int = 0


ClusterCall = (
    Register
    | LoadSubscriptions
    | AttachSubscriber
    | CreateSubscription
    | DeleteSubscription
    | Fetch
    | AskNews
    | StoreMarkers
    | ReadLog
    | OpenStream
)


class CloseStream(Struct, frozen=True):
    """Records enter elsewhere."""

    call: int


# -- words to clients ------------------------------------------------------------------------------


class Welcome(Struct, frozen=True):
    """The connection is served from now on; these are its subscriber's subscriptions."""

    connection: int
    store_id: str
    subscriptions: list[Subscription]


class Refuse(Struct, frozen=True):
    """The connection cannot be served, and is forgotten already."""

    connection: int
    error: TocsinError


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

    request: Asker[Answer] | None
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
    from_neighbours: int = 0


class Attached(Struct, frozen=True):
    """The subscriber is served here with all of these."""

    request: Asker[Attached]
    subscriptions: list[Subscription]


class Subscribed(Struct, frozen=True):
    request: Asker[Subscribed]
    subscription: Subscription


class Unsubscribed(Struct, frozen=True):
    request: Asker[Unsubscribed]


class RecalledPublication(Struct, frozen=True):
    """What a message cache had, how far away, and how long after the request it was here."""

    publication: Publication
    hops: int
    took_s: float


class Recalled(Struct, frozen=True):
    """What matches in the message caches of the overlay, as far as they answered in time."""

    request: Asker[Recalled]
    publications: list[RecalledPublication]


class Fail(Struct, frozen=True):
    request: Asker[Any] | None
    error: TocsinError


class Acked(Struct, frozen=True):
    """The marker is durable at the cluster."""

    subscription: int
    epoch: str
    position: int
    connections: list[int]
    requests: list[Asker[Acked]]


class AckedMany(Struct, frozen=True):
    """These markers are durable at the cluster: the connection acknowledged them together with
    others."""

    connection: int
    markers: list[Marker]


class NotAcked(Struct, frozen=True):
    """What these connections acknowledged can have no marker."""

    subscription: int
    error: TocsinError
    connections: list[int]


class Ended(Struct, frozen=True):
    """The subscription is over for good; its subscriber's connections stay."""

    subscription: int
    connections: list[int]


class CloseConnection(Struct, frozen=True):
    """The machine has forgotten the connection already. Its subscriber is served by the broker
    `moved_to`; if that is None, it shall come again and hear what has become of it."""

    connection: int
    moved_to: str | None
    store_replaced: bool = False


# -- pages -----------------------------------------------------------------------------------------


class ServePage(Struct, frozen=True):
    """Give the page's bytes: as they come with that fetch, or those that are kept."""

    request: Asker[ServePage]
    page: str
    size_bytes: int
    fetch: int | None


class FetchPage(Struct, frozen=True):
    """Read a page from the cluster: `begun` when it answers, then `fetched` or `failed`."""

    fetch: int
    page: str


class EndFetch(Struct, frozen=True):
    """Nobody reads what this fetch brought. It is given up if it is still under way."""

    fetch: int


class KeepPage(Struct, frozen=True):
    """Keep what the fetch has brought, for later and for after a crash."""

    fetch: int
    page: str


class DropPage(Struct, frozen=True):
    """Delete what is kept of the page; those who read it go on."""

    page: str


PageEffect = ServePage | FetchPage | EndFetch | KeepPage | DropPage


# -- what concerns the broker itself ---------------------------------------------------------------


class NewPages(Struct, frozen=True):
    """New results mention attachments, in these fields; so many subscriptions here get them. What
    has the same values in `keys` is the same story, of which only the newest counts."""

    channel: str
    subscriptions: int
    results: Sequence[Result]
    attachments: tuple[str, ...]
    keys: tuple[str, ...]


class Synchronised(Struct, frozen=True):
    """Everything was compared with the cluster; this broker serves clients."""

    store_id: str


class StoreReplaced(Struct, frozen=True):
    """The cluster has another store: all that was known is forgotten."""

    store_id: str


class Rejected(Struct, frozen=True):
    """The cluster will not have this broker, and waiting does not mend it: a wrong secret, say."""

    error: TocsinError


Effect = (
    ClusterCall
    | CloseStream
    | Send
    | Relink
    | Welcome
    | Refuse
    | Signal
    | SendInline
    | Answer
    | Attached
    | Subscribed
    | Unsubscribed
    | Recalled
    | Fail
    | Acked
    | AckedMany
    | NotAcked
    | Ended
    | CloseConnection
    | PageEffect
    | NewPages
    | Synchronised
    | StoreReplaced
    | Rejected
)
