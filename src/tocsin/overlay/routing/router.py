"""The router of a broker: events in, effects out. The live broker, the fault simulation and the
tests drive this one object; it reads no clock, opens no socket, starts no task.

Rules that hold throughout:

- What a broker tells a neighbour depends on what others ask of it alone, not on how that came
  about: tables after any faults are those of a fresh start.
- A message counts once, and only in the incarnation of the link it was sent over.
- Each client gets every publication that matches it after the position it began at, once, in order:
  by routing, and from the dataset's log what was on its way when a link broke.
"""

from __future__ import annotations

from collections.abc import Sequence

from tocsin.errors import NotFound
from tocsin.overlay.filters import Filter
from tocsin.overlay.routing.effects import Asked, RoutingEffect
from tocsin.overlay.routing.links import Links
from tocsin.overlay.routing.recall import Cache, Reaches, Recalls, wants
from tocsin.overlay.routing.route import HERE, Route
from tocsin.protocol.link import (
    Assured,
    Message,
    Publication,
    Question,
    Request,
    Response,
    Subscriptions,
)

MOST_HELD = 1000


class Router:
    def __init__(
        self, name: str, cache: Cache, reaches: Reaches, *, most_held: int = MOST_HELD
    ) -> None:
        self.name = name
        self.cache = cache
        self._most_held = most_held  # publications that a client waits with while the log is read
        self._links = Links()
        self._routes: dict[str, Route] = {}
        self._datasets: dict[int, str] = {}  # of subscriptions
        self._recalls = Recalls(name, self._links, cache, reaches)
        self.counters = self._recalls.counters

    def route(self, dataset: str) -> Route:
        """What is known of a dataset."""
        if dataset not in self._routes:
            self._routes[dataset] = Route(dataset, self._links, self._most_held)
        return self._routes[dataset]

    @property
    def neighbours(self) -> list[str]:
        return self._links.names()

    def incarnation(self, neighbour: str) -> int:
        """Of the open link."""
        return self._links.incarnation(neighbour)

    # -- links ------------------------------------------------------------------------------------

    def linked(self, neighbour: str, incarnation: int) -> list[RoutingEffect]:
        """A link is open, both ways. Incarnations of a link grow."""
        if neighbour in self._links:
            if self._links.incarnation(neighbour) >= incarnation:
                return []
            self._unlink(neighbour)
        self._links.open(neighbour, incarnation)
        for route in self._routes.values():
            route.link(neighbour)
        return self._links.take()

    def unlinked(self, neighbour: str, incarnation: int) -> list[RoutingEffect]:
        if self._links.is_open(neighbour, incarnation):
            self._unlink(neighbour)
        return self._links.take()

    def _unlink(self, neighbour: str) -> None:
        self._links.close(neighbour)
        for route in self._routes.values():
            route.unlink(neighbour)

    def heard(
        self, neighbour: str, incarnation: int, sequence: int, message: Message
    ) -> list[RoutingEffect]:
        """What a neighbour's Send has brought."""
        if self._links.counts(neighbour, incarnation, sequence):
            match message:
                case Publication():
                    self._publication(message, neighbour)
                case Subscriptions():
                    self.route(message.dataset).asked(neighbour, sequence, message)
                case Assured():
                    self.route(message.dataset).assured(neighbour, message)
                case Request():
                    tables = self.route(message.filter.dataset).tables
                    self._recalls.request(message, neighbour, tables)
                case Response():
                    tables = self.route(message.publication.dataset).tables
                    self._recalls.response(message, neighbour, tables)
                case _:
                    self._links.do(Asked(neighbour, message))
        return self._links.take()

    # -- clients ----------------------------------------------------------------------------------

    def subscribed(self, subscription: int, filter_: Filter, after: int) -> list[RoutingEffect]:
        """A client wants what matches, of all after a position of the dataset's log."""
        if subscription not in self._datasets:
            self._datasets[subscription] = filter_.dataset
            self.route(filter_.dataset).subscribed(subscription, filter_, after)
            self.cache.came(wants(filter_))
        return self._links.take()

    def unsubscribed(self, subscription: int) -> list[RoutingEffect]:
        dataset = self._datasets.pop(subscription, None)
        if dataset is not None:
            route = self._routes[dataset]
            filter_ = route.clients.filter_of(subscription)
            route.unsubscribed(subscription)
            self.cache.left(wants(filter_))
        return self._links.take()

    def marker(self, subscription: int) -> int:
        """All up to here was told to the subscription, or is not for it."""
        if subscription not in self._datasets:
            raise NotFound(f"there is no subscription {subscription}", field="subscription")
        route = self._routes[self._datasets[subscription]]
        return route.clients.marker_of(subscription, route.seen)

    # -- publications -----------------------------------------------------------------------------

    def entered(self, dataset: str, position: int) -> list[RoutingEffect]:
        """All publications of the dataset after the position will be `published` here, in order of
        the log. Of those before it, some may have been published elsewhere, or nowhere."""
        self.route(dataset).entered(position)
        return self._links.take()

    def published(self, publication: Publication, after: int) -> list[RoutingEffect]:
        """`after` is the position before it in the log, so that nothing is left out unnoticed."""
        self.route(publication.dataset).follows(after)
        self._publication(publication, HERE)
        return self._links.take()

    def passed(self, dataset: str, position: int) -> list[RoutingEffect]:
        """Everything up to the position was published. To be told now and then: what must be filled
        when a link breaks is what came after."""
        self.route(dataset).passed(position)
        return self._links.take()

    def left(self, dataset: str) -> list[RoutingEffect]:
        """The dataset's publications enter elsewhere."""
        self.route(dataset).left()
        return self._links.take()

    def filled(
        self,
        dataset: str,
        fill: int,
        publications: Sequence[Publication],
        floor: int = -1,
        upto: int | None = None,
    ) -> list[RoutingEffect]:
        """What the log has between the positions of a Fill, or the next part of it, as far as
        `upto`; up to `floor` it keeps nothing."""
        self.route(dataset).filled(fill, publications, floor, upto)
        return self._links.take()

    def _publication(self, publication: Publication, where: str) -> None:
        interest = self.route(publication.dataset).publication(publication, where)
        if interest is not None:
            self.cache.put(
                publication.key, publication, len(interest.clients), len(interest.neighbours)
            )

    # -- old messages -----------------------------------------------------------------------------

    def requested(self, request: int, filter_: Filter) -> list[RoutingEffect]:
        """A client asks for what is still cached somewhere; a Recall follows for each found."""
        self._recalls.requested(request, filter_, self.route(filter_.dataset).tables)
        return self._links.take()

    def ask(self, neighbour: str, question: Question) -> list[RoutingEffect]:
        """A question about results, or the answer to one; lost if the link is."""
        if neighbour in self._links:
            self._links.send(neighbour, question)
        return self._links.take()

    def request_ended(self, request: int) -> list[RoutingEffect]:
        self._recalls.ended(request)
        return self._links.take()
