"""Routing of one dataset at one broker: its table, what is assured, its clients.

Publications of a dataset enter the overlay at one broker, in the order of the log, and flow down
the tree from there. Each broker *assures* its neighbours that what they asked for comes to them:
the broker of entry can, and every other once its own questions have been assured to it. The
assurance follows a subscription's way back, and names the position it begins at; what is earlier is
filled from the log. When the way breaks it is withdrawn, and given again over the new one.

Publications count only if they come from where all is assured, and once: so that links of two trees
at a time, while brokers learn of a new one, do no harm.
"""

from __future__ import annotations

from collections.abc import Sequence

from tocsin.overlay.filters import Filter
from tocsin.overlay.filters.widest import Change
from tocsin.overlay.routing.clients import Client, Clients, Stamp
from tocsin.overlay.routing.links import Links
from tocsin.overlay.routing.tables import Interest, Tables
from tocsin.protocol.link import Assured, Publication, Subscriptions

HERE = ""
"""Instead of a neighbour: publications enter at this broker."""


class _Neighbour:
    __slots__ = ("assured", "first", "number", "position", "steps", "upto")

    def __init__(self, first: int) -> None:
        self.first = first  # the number of our first message about the table; 0: none
        self.position = -1  # what it assures us …
        self.number = 0
        self.steps: list[tuple[int, Stamp]] = []  # its messages, and ours that pass them on
        self.assured = 0  # … and what we assure it
        self.upto = -1


class Route:
    def __init__(self, dataset: str, links: Links, most_held: int) -> None:
        self.dataset = dataset
        self.tables = Tables()
        self.clients = Clients(dataset, links.do, most_held)
        self.seen = -1  # all up to here has passed, or was before our time
        self._links = links
        self._neighbours: dict[str, _Neighbour] = {}
        self._from: str | None = None  # where publications come from
        self._stamp: Stamp = {}
        for neighbour in links.names():
            self.link(neighbour)

    # -- links ------------------------------------------------------------------------------------

    def link(self, neighbour: str) -> None:
        change = self.tables.link(neighbour)
        self._neighbours[neighbour] = _Neighbour(self._tell(neighbour, change))

    def unlink(self, neighbour: str) -> None:
        del self._neighbours[neighbour]
        self._stamp = {link: number for link, number in self._stamp.items() if link[0] != neighbour}
        if self._from == neighbour:
            self._look_elsewhere()
        self._tell_all(self.tables.unlink(neighbour))

    # -- who asks for what ------------------------------------------------------------------------

    def subscribed(self, subscription: int, filter_: Filter, after: int) -> None:
        self._tell_all(self.tables.change(subscription, come=[filter_]))
        self.clients.add(Client(subscription, filter_, after, self._stamp))
        self.clients.settle(self.seen, self._is_assured)

    def unsubscribed(self, subscription: int) -> None:
        filter_ = self.clients.filter_of(subscription)
        self.clients.remove(subscription)
        self._tell_all(self.tables.change(subscription, gone=[filter_]))

    def asked(self, neighbour: str, number: int, subscriptions: Subscriptions) -> None:
        self._tell_all(self.tables.change(neighbour, subscriptions.come, subscriptions.gone))
        self._neighbours[neighbour].steps.append((number, self._stamp))
        self._assure(neighbour)

    def _tell_all(self, changes: dict[str, Change]) -> None:
        for neighbour, change in changes.items():
            self._tell(neighbour, change)

    def _tell(self, neighbour: str, change: Change) -> int:
        if change == Change():
            return 0
        subscriptions = Subscriptions(self.dataset, change.come, change.gone)
        number = self._links.send(neighbour, subscriptions)
        self._stamp = {**self._stamp, (neighbour, self._links.incarnation(neighbour)): number}
        return number

    # -- what is assured --------------------------------------------------------------------------

    def entered(self, position: int) -> None:
        """Everything after the position is published at this broker, whatever was before."""
        if position > self.seen:
            self._withdraw()
        self._take(HERE, position)

    def follows(self, position: int) -> None:
        """What is published here next follows this one in the log. If that was not here, somebody
        else had it, or nobody."""
        if self._from == HERE and position > self.seen:
            self.entered(position)

    def passed(self, position: int) -> None:
        """Nothing more is published here up to the position."""
        if self._from == HERE:
            self._take(HERE, position)

    def left(self) -> None:
        """Publications enter elsewhere."""
        if self._from == HERE:
            self._look_elsewhere()

    def assured(self, neighbour: str, assurance: Assured) -> None:
        state = self._neighbours[neighbour]
        state.position, state.number = assurance.position, assurance.number
        if self._from == neighbour and not state.number:
            self._look_elsewhere()
        elif state.number and self._from != HERE:
            # Another way is not taken because it is there, but because it knows of more.
            more = state.position > self.seen
            if more or self._from in (None, neighbour):
                self._take(neighbour, state.position)

    def _look_elsewhere(self) -> None:
        self._withdraw()
        others = [
            (state.position, name) for name, state in self._neighbours.items() if state.number
        ]
        if others:
            position, name = max(others)
            self._take(name, position)

    def _take(self, where: str, position: int) -> None:
        """Everything after the position comes from there."""
        if self._from not in (None, where) and position > self.seen:
            self._withdraw()  # what lies between was never here
        self._from = where
        self.seen = max(self.seen, position)
        self.clients.unsettle(self.seen, self._is_assured)
        self.clients.settle(self.seen, self._is_assured)
        self._assure_all()

    def _withdraw(self) -> None:
        self._from = None
        self.clients.unsettle(self.seen, self._is_assured)
        self._assure_all()

    def _is_assured(self, client: Client) -> bool:
        return self._covers(client.stamp)

    def _covers(self, stamp: Stamp) -> bool:
        """Is all that we had sent by then assured?"""
        where = self._from
        if where is None or where == HERE:
            return where == HERE
        state = self._neighbours[where]
        return stamp.get((where, self._links.incarnation(where)), state.first) <= state.number

    def _assure_all(self) -> None:
        for neighbour in self._neighbours:
            self._assure(neighbour)

    def _assure(self, name: str) -> None:
        """Tell a neighbour what has become of its questions, if that is news."""
        state = self._neighbours[name]
        number = 0
        if name != self._from and self.tables.asks(name):
            for at in reversed(range(len(state.steps))):
                if self._covers(state.steps[at][1]):
                    number = state.steps[at][0]
                    del state.steps[:at]
                    break
        if number != state.assured or (number and self.seen != state.upto):
            self._links.send(name, Assured(self.dataset, self.seen, number))
            state.assured, state.upto = number, self.seen

    # -- publications -----------------------------------------------------------------------------

    def publication(self, publication: Publication, where: str) -> Interest | None:
        """Pass it on. Who wanted it; None if it does not count."""
        if where in self._neighbours:
            state = self._neighbours[where]
            state.position = max(state.position, publication.position)
        if where != self._from or publication.position <= self.seen:
            return None
        self.seen = publication.position
        interest = self.tables.interest(publication.record, besides=where)
        for neighbour in interest.neighbours:
            self._links.send(neighbour, publication)
        self.clients.routed(publication, interest.clients)
        return interest

    def filled(
        self, fill: int, publications: Sequence[Publication], floor: int, upto: int | None
    ) -> None:
        def wanted_by(publication: Publication) -> list[int]:
            return self.tables.interest(publication.record).clients

        self.clients.filled(fill, publications, floor, upto, wanted_by)
        self.clients.settle(self.seen, self._is_assured)
