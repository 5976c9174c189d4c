"""What the router asks its driver to do. Plain records, no I/O."""

from __future__ import annotations

from msgspec import Struct

from tocsin.protocol.link import Message, Publication, Question


class Send(Struct, frozen=True):
    """To a neighbour, over this incarnation of the link or not at all; in order of `sequence`."""

    neighbour: str
    incarnation: int
    sequence: int
    message: Message


class Relink(Struct, frozen=True):
    """A message over this link was lost: close it, and link anew."""

    neighbour: str
    incarnation: int


class Deliver(Struct, frozen=True):
    """To these subscriptions. Each gets what matches it once, in order of positions."""

    subscriptions: list[int]
    publication: Publication


class Fill(Struct, frozen=True):
    """Read what the dataset's log has in (after, upto], and answer with `filled`; to be repeated
    until it could be read."""

    fill: int
    dataset: str
    after: int
    upto: int


class Gap(Struct, frozen=True):
    """Publications in (after, upto] are no longer kept: what was for these subscriptions among
    them, they will not get."""

    subscriptions: list[int]
    dataset: str
    after: int
    upto: int


class Recall(Struct, frozen=True):
    """An old message for whoever made the request, found in a cache `hops` away."""

    request: int
    publication: Publication
    hops: int


class Asked(Struct, frozen=True):
    """A neighbour's question about results, or its answer to one."""

    neighbour: str
    question: Question


RoutingEffect = Send | Relink | Deliver | Fill | Gap | Recall | Asked
