"""Requests for old messages, and the responses from caches (overlay III).

A request travels as a publication would, and carries its path. Every broker with a client that may
want the same searches its cache. A response goes back along the path; a broker with such a client
that holds the message drops it, because it has answered itself. Where the asking client is, the
message is cached.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from tocsin.overlay.filters import Filter
from tocsin.overlay.filters.filter import matcher
from tocsin.overlay.routing.effects import Recall
from tocsin.overlay.routing.links import Links
from tocsin.overlay.routing.tables import Tables
from tocsin.protocol.link import Publication, Request, Response

Wants = Callable[[Publication], bool]
Reaches = Callable[[int], bool]


class Cache(Protocol):
    """A broker's memory of messages; `caching.MessageCache` is one."""

    def __len__(self) -> int: ...

    def __contains__(self, key: object) -> bool: ...

    def put(
        self,
        key: tuple[str, int],
        message: Publication,
        clients: int,
        neighbours: int,
        *,
        passing: bool = False,
    ) -> bool: ...

    def search(self, wants: Wants) -> list[Publication]: ...

    def came(self, wants: Wants) -> None: ...

    def left(self, wants: Wants) -> None: ...


class RecallCounters(Struct):
    """What requests cost at one broker."""

    searches: int = 0
    slots_searched: int = 0
    responses: int = 0  # made here
    dropped: int = 0  # on arrival: the message is here
    delivered: int = 0  # arrived for a client here, or found here for it
    links: int = 0  # crossed by requests and responses that were sent from here


class Recalls:
    def __init__(self, name: str, links: Links, cache: Cache, reaches: Reaches) -> None:
        self.counters = RecallCounters()
        self._name = name
        self._links = links
        self._cache = cache
        self._reaches = reaches
        self._answered: dict[int, set[tuple[str, int]]] = {}

    def requested(self, request: int, filter_: Filter, tables: Tables) -> None:
        """A client here asks for old messages."""
        self._answered[request] = set()
        for publication in self._search(filter_, tables):
            self.counters.delivered += 1
            self._answer(request, publication, 0)
        self._pass_on(Request(request, filter_, (self._name,)), tables, None)

    def ended(self, request: int) -> None:
        """Nobody waits for further answers."""
        self._answered.pop(request, None)

    def request(self, message: Request, neighbour: str, tables: Tables) -> None:
        if self._name in message.path:
            return  # it has gone round
        for publication in self._search(message.filter, tables):
            response = Response(message.request, publication, message.path, len(message.path))
            self._send(neighbour, response)
        path = (*message.path, self._name)
        self._pass_on(Request(message.request, message.filter, path), tables, neighbour)

    def response(self, message: Response, neighbour: str, tables: Tables) -> None:
        if not message.path or message.path[-1] != self._name:
            return
        *rest, _ = message.path
        publication, here = message.publication, not rest
        interest = tables.interest(publication.record, besides=neighbour)
        if publication.key in self._cache and self._reaches(int(bool(interest.clients))):
            self.counters.dropped += 1
            if here:  # perhaps it came by another way since, and to others
                self._answer(message.request, publication, message.hops)
            return
        clients, neighbours = len(interest.clients), len(interest.neighbours)
        self._cache.put(publication.key, publication, clients, neighbours, passing=not here)
        if here:
            self.counters.delivered += 1
            self._answer(message.request, publication, message.hops)
        elif rest[-1] in self._links:
            self._send(rest[-1], Response(message.request, publication, tuple(rest), message.hops))

    def _answer(self, request: int, publication: Publication, hops: int) -> None:
        """To the client, once."""
        answered = self._answered.get(request)
        if answered is not None and publication.key not in answered:
            answered.add(publication.key)
            self._links.do(Recall(request, publication, hops))

    def _search(self, filter_: Filter, tables: Tables) -> list[Publication]:
        if not self._reaches(int(tables.clients_want(filter_))):
            return []
        self.counters.searches += 1
        self.counters.slots_searched += len(self._cache)
        publications = self._cache.search(wants(filter_))
        self.counters.responses += len(publications)
        return publications

    def _pass_on(self, request: Request, tables: Tables, besides: str | None) -> None:
        for neighbour in self._links.names():
            if neighbour != besides and self._reaches(int(tables.wants(neighbour, request.filter))):
                self._send(neighbour, request)

    def _send(self, neighbour: str, message: Request | Response) -> None:
        self.counters.links += 1
        self._links.send(neighbour, message)


def wants(filter_: Filter) -> Wants:
    """Does a message match?"""
    matches = matcher(filter_)

    def wanted(publication: Publication) -> bool:
        return publication.dataset == filter_.dataset and matches(publication.record)

    return wanted
