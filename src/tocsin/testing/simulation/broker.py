"""A broker process in the simulated world: the real machine, driven; lost in a crash.

Carries effects out as the live server does: calls of the cluster and words to clients take their
time, and may be lost.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tocsin.broker.machine import BrokerMachine, MachineConfig
from tocsin.broker.machine.effects import (
    Acked,
    AckedMany,
    Answer,
    AskNews,
    Attached,
    AttachSubscriber,
    CloseConnection,
    CloseStream,
    ClusterCall,
    CreateSubscription,
    DeleteSubscription,
    Effect,
    Ended,
    Fail,
    Fetch,
    LoadSubscriptions,
    OpenStream,
    PageEffect,
    ReadLog,
    Recalled,
    Refuse,
    Register,
    SendInline,
    Signal,
    StoreMarkers,
    StoreReplaced,
    Subscribed,
    Synchronised,
    Unsubscribed,
    Welcome,
)
from tocsin.broker.machine.events import Cursor, LogPart, NewHead
from tocsin.errors import TocsinError, Unavailable
from tocsin.model import Departure
from tocsin.overlay.routing import Relink, Send
from tocsin.policies import parse_policy
from tocsin.policies.message import message_policy_names, parse_message_policy
from tocsin.policies.page import parse_page_policy
from tocsin.protocol.client import Interest
from tocsin.testing.simulation.checkers import BrokerChecker, promise
from tocsin.testing.simulation.client import SimulatedClient

if TYPE_CHECKING:
    from tocsin.testing.simulation.world import World

RECORDS_PER_CALL = 4
PendingAnswer = Callable[..., list[Effect]]
"""An answer on its way: to be called with `now`."""
Word = Callable[[SimulatedClient], None]
"""To a client: what it does when it hears it."""
T = TypeVar("T")


class FrameAsker(Generic[T]):
    """A frame on whose connection an answer goes back."""

    def __init__(
        self,
        say: Callable[[int, Word], None],
        connection: int,
        answered: Callable[[SimulatedClient, T], None],
        failed: Callable[[SimulatedClient], None] = lambda client: None,
    ) -> None:
        self._say = say
        self._connection = connection
        self._answered = answered
        self._failed = failed

    def answered(self, answer: T) -> None:
        self._say(self._connection, lambda client: self._answered(client, answer))

    def failed(self, error: TocsinError) -> None:
        self._say(self._connection, self._failed)


class SimulatedBroker:
    """A broker process: a machine, or none while it is down."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.machine: BrokerMachine | None = None
        self.checker: BrokerChecker | None = None
        self.compared_at = -1.0  # everything with the cluster
        self.incarnation = 0
        self.connections: dict[int, str] = {}
        self._arriving: int | None = None  # the connection that is being accepted
        self._words: dict[int, list[Word]] = {}  # to clients, by connection

    @property
    def ready(self) -> bool:
        return self.machine is not None and self.compared_at >= 0

    def start(self) -> None:
        world = self.world
        self.incarnation += 1
        self.compared_at = -1.0
        random = world.random
        page_policy, page_bytes = world.page_cache()
        config = MachineConfig(
            name=self.name,
            policy=parse_policy(random.choice(world.policies)),
            budget_bytes=world.budget_bytes,
            message_policy=parse_message_policy(random.choice(message_policy_names())),
            message_slots=random.choice([0, 2, 8]),
            page_policy=parse_page_policy(page_policy),
            page_bytes=page_bytes,
            fetch_limit=random.choice([2, 5, 1000]),
            most_held=random.choice([1, 1000]),
            jitter=random.random(),
        )
        self.machine = BrokerMachine(config, world.now)
        self.checker = BrokerChecker(world.cluster, self.machine)
        world.began(self)
        self._tick(self.incarnation)

    def crash(self) -> None:
        self.machine = self.checker = None
        self.world.died(self)
        for connection in list(self.connections):
            self.world.break_connection(connection)
        self.connections.clear()
        self._words.clear()

    def _tick(self, incarnation: int) -> None:
        if self.machine is not None and incarnation == self.incarnation:
            before = self.machine.core.cache.size_bytes
            effects = self.machine.tick(self.world.now)
            if effects or self.machine.core.cache.size_bytes != before:  # most bring nothing
                self.do(effects)
            self.world.later(0.1 * self.world.scale, lambda: self._tick(incarnation))

    # -- calls of the cluster ---------------------------------------------------------------------

    def _carry(self, call: ClusterCall) -> None:
        """Request or answer may be lost, both take their time."""
        world, incarnation = self.world, self.incarnation
        machine, lost = self.machine, Unavailable("no answer, as the world wished")
        assert machine is not None

        def alive() -> bool:
            return self.machine is not None and self.incarnation == incarnation

        def arrive() -> None:
            answered = None
            if world.request_passes(self) and not world.cluster.down:
                answered = self._answer(machine, call)
            if answered is None or not world.answer_passes(self):
                answered = partial(machine.failed, call.call, lost)
            world.later(world.delay_s(), partial(come_back, answered))

        def come_back(answered: PendingAnswer) -> None:
            if alive():
                self.do(answered(now=world.now))

        world.later(world.request_takes_s(self, call), arrive)
        if world.request_is_repeated():
            world.later(world.delay_s() * 3, lambda: self._answer(machine, call))

    def _answer(self, machine: BrokerMachine, call: ClusterCall) -> PendingAnswer:
        """What the cluster does now, and what the broker hears of it later."""
        try:
            return self._ask(machine, call)
        except TocsinError as error:
            return partial(machine.failed, call.call, error)

    def _ask(self, machine: BrokerMachine, call: ClusterCall) -> PendingAnswer:
        cluster, number = self.world.cluster, call.call
        match call:
            case Register():
                return partial(machine.registered, number, cluster.register(self.name))
            case LoadSubscriptions():
                sequence, page, upto = cluster.load(self.name, call.after)
                loaded = partial(machine.loaded, number, cluster.store_id, sequence, page)
                return partial(loaded, upto=upto)
            case AttachSubscriber(arrival, subscriber):
                connection = self.world.arriving.get((self.name, arrival, self.incarnation))
                late = connection in machine.core.table.connections  # or repeated: it was welcomed
                subscriptions = cluster.attach(subscriber, self.name, None if late else connection)
                return partial(machine.attached, number, subscriptions)
            case CreateSubscription(_, subscriber, interest):
                assert isinstance(interest.arguments, dict)
                backend = interest.arguments["backend"]
                subscription = cluster.subscribe(subscriber, self.name, backend)
                return partial(machine.subscribed, number, subscription)
            case DeleteSubscription():
                cluster.unsubscribe(call.subscription)
                return partial(machine.unsubscribed, number)
            case AskNews(since):
                news = cluster.news(self.name, since)
                return partial(machine.news, number, cluster.store_id, *news)
            case StoreMarkers(markers):
                return partial(machine.markers_stored, number, cluster.put_markers(markers))
            case Fetch():
                answer = cluster.read(call.backend, call.after, call.upto, call.limit)
                return partial(machine.fetched, number, answer)
            case ReadLog():
                log = cluster.known_for_log(self.name)
                upto, publications = log.between(call.after, call.upto, RECORDS_PER_CALL)
                return partial(machine.log_read, number, LogPart(log.floor, upto, publications))
            case OpenStream():
                raise AssertionError("streams are the world's")

    def notice(
        self,
        store_id: str,
        heads: list[NewHead],
        detached: list[Departure],
        number: int | None = None,
    ) -> tuple[bool, list[int]] | None:
        """Whether results may travel, and what nobody here holds; None: nobody hears it."""
        if self.machine is None or not self.ready:
            return None
        self.do(self.machine.notice(store_id, heads, detached, self.world.now, number=number))
        core = self.machine.core
        unknown = [head.backend for head in heads if head.backend not in core.table.backends]
        return core.keeps_results, unknown

    # -- clients' frames ------------------------------------------------------------------------

    def accept(self, connection: int, client: SimulatedClient) -> None:
        if self.machine is None or not self.ready:
            self.world.break_connection(connection)
            return
        self.connections[connection] = client.name
        self._arriving = connection
        self.do(self.machine.connect(connection, client.name, client.inline, self.world.now))
        self._arriving = None

    def hang_up(self, connection: int) -> None:
        if self.connections.pop(connection, None) is not None and self.machine is not None:
            self.do(self.machine.disconnected(connection, self.world.now))

    def receive(self, connection: int, frame: tuple[Any, ...]) -> None:
        machine, world = self.machine, self.world
        name = self.connections.get(connection)
        if machine is None or name is None or connection not in machine.core.table.connections:
            return  # frames that come before the welcome are refused
        kind, number, *rest = frame
        if kind == "ack_many":
            self.do(machine.ack_many(name, number, world.now, connection))
        elif kind == "get":
            ref, after, epoch, limit = rest
            get = FrameAsker[Answer](
                self._say,
                connection,
                lambda client, answer: client.answered(ref, answer),
                lambda client: world.retry(client, (connection, ref)),
            )
            self.do(machine.get(get, name, number, world.now, Cursor(after, epoch), limit=limit))
        elif kind == "ack":
            epoch, position = rest
            self.do(machine.ack(name, number, epoch, position, world.now, connection=connection))
        elif kind == "subscribe":
            interest = Interest("channel", {"backend": number})
            asker = FrameAsker[Subscribed](
                self._say,
                connection,
                lambda client, answer: client.subscribed(answer.subscription),
                lambda client: world.ask_again(client, frame),
            )
            self.do(machine.subscribe(asker, name, interest, world.now, connection=connection))
        elif kind == "unsubscribe":
            leaver = FrameAsker[Unsubscribed](self._say, connection, lambda client, answer: None)
            self.do(machine.unsubscribe(leaver, name, number, world.now))

    # -- effects ----------------------------------------------------------------------------------

    def do(self, effects: list[Effect]) -> None:
        for effect in effects:
            self._do(effect)
        self._send_words()
        machine = self.machine
        if machine is not None and self.checker is not None:
            slots = machine.messages.slots
            promise(len(machine.messages) <= slots, f"{len(machine.messages)} in {slots} slots")
            self.checker.check()
            self.world.stepped(self)

    def _say(self, connection: int, word: Word) -> None:
        """What comes of one turn goes out together."""
        self._words.setdefault(connection, []).append(word)

    def _send_words(self, *, hold: bool = True) -> None:
        """Some connections wait a moment: what comes meanwhile is of the same turn."""
        words, self._words = self._words, {}
        for connection, said in words.items():
            if hold and self.world.more_may_come(connection):
                self._words[connection] = said
            else:
                self.world.say(connection, said)
        if self._words:
            self.world.defer(lambda: self._send_words(hold=False))

    def _do(self, effect: Effect) -> None:
        world, machine = self.world, self.machine
        assert machine is not None
        if isinstance(effect, OpenStream | CloseStream | Send | Relink):
            world.overlay_effect(self, effect)
        elif isinstance(effect, PageEffect):
            world.page_effect(self, effect)
        elif isinstance(effect, ClusterCall):
            self._check_call(effect)
            self._carry(effect)
        elif isinstance(effect, Synchronised):
            self.compared_at = world.now
            world.comparisons += 1
        elif isinstance(effect, StoreReplaced):
            world.restarted(self)
        else:
            self._tell(machine, effect)

    def _check_call(self, call: ClusterCall) -> None:
        world = self.world
        match call:
            case Fetch():
                promise(
                    not call.ahead or call.backend not in world.cluster.log.filters,
                    f"{call} reads what routing brings",
                )
            case ReadLog():
                assert self.machine is not None
                world.fills += 1
                head = world.cluster.log.head
                stale = self.machine.store_id != world.cluster.store_id
                promise(stale or call.upto <= head, f"{call} is beyond the log's end, {head}")
            case StoreMarkers(markers):
                world.delivery.stored(markers)
            case AttachSubscriber() if self._arriving is not None:
                world.arriving[self.name, call.arrival, self.incarnation] = self._arriving

    def _tell(self, machine: BrokerMachine, effect: Effect) -> None:
        """Words to clients."""
        world = self.world
        match effect:
            case Welcome(connection, store_id, subscriptions):
                self._say(connection, lambda c: c.welcomed(store_id, subscriptions))
            case Refuse(connection):
                del self.connections[connection]
                world.break_connection(connection)
            case Signal(backend, _, head):
                reached = machine.core.table.backends[backend].fetched
                promise(head <= reached, f"signalled {head} of {backend}, had {reached}")
                for connection in effect.connections:
                    self._say(connection, lambda c: c.signalled(effect))
            case SendInline():
                self._send_inline(effect)
            case Answer() | Attached() | Subscribed() | Unsubscribed() | Recalled():
                assert effect.request is not None
                effect.request.answered(effect)  # type: ignore[arg-type]
            case Fail():
                assert effect.request is not None
                effect.request.failed(effect.error)
            case Acked(subscription, epoch, position, connections):
                for connection in connections:
                    self._say(connection, lambda c: c.confirmed(subscription, epoch, position))
            case AckedMany(connection):
                self._say(connection, lambda c: c.all_confirmed(effect))
            case Ended(subscription, connections):
                for connection in connections:
                    self._say(connection, lambda c: c.ended(subscription))
            case CloseConnection():
                self._close(effect)
            case _:
                pass  # of NotAcked, clients learn in other words

    def _send_inline(self, effect: SendInline) -> None:
        """As a connection does: one that is behind gets a signal in its place."""
        signal = Signal(effect.backend, effect.epoch, effect.head, [])
        for connection in effect.connections:
            if self.world.falls_behind():
                self._say(connection, lambda c: c.signalled(signal))
            else:
                self._say(connection, lambda c: c.sent_inline(effect))

    def _close(self, effect: CloseConnection) -> None:
        world, name, moved_to = self.world, self.connections.pop(effect.connection), effect.moved_to
        promise(
            moved_to is None or world.cluster.served.get(name) != effect.connection,
            f"{name} was closed as moved on the connection that serves it",
        )
        promise(
            moved_to is not None or effect.store_replaced or self.compared_at == world.now,
            f"{name} was sent away and not told where to",
        )
        world.break_connection(effect.connection, moved_to)
