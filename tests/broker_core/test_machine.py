"""The machine around the core: registration, arrivals, neighbours, fills and the entry of records.
Each rule by itself; what they do together under faults is the simulation's business."""

from __future__ import annotations

import pytest

from broker_core.bench import Q, R, answer, only, subscription
from broker_core.filters import filtered
from tocsin.broker.machine import BrokerMachine, MachineConfig, fills
from tocsin.broker.machine.effects import (
    Answer,
    AskNews,
    AttachSubscriber,
    CloseConnection,
    CloseStream,
    CreateSubscription,
    DeleteSubscription,
    Effect,
    Ended,
    Fail,
    Fetch,
    LoadSubscriptions,
    OpenStream,
    ReadLog,
    Recalled,
    Refuse,
    Register,
    Rejected,
    Signal,
    StoreReplaced,
    Subscribed,
    Synchronised,
    Unsubscribed,
    Welcome,
)
from tocsin.broker.machine.events import Cursor, Entered, LogPart, NewHead, Published
from tocsin.errors import NotFound, QuotaExceeded, Unauthenticated, Unavailable
from tocsin.model import Subscription
from tocsin.overlay.filters import Filter
from tocsin.overlay.routing import Fill, Publication, Relink, ResultsFound, ResultsWanted, Send
from tocsin.policies import parse_policy
from tocsin.policies.message import parse_message_policy
from tocsin.protocol.client import Interest

AWAY = Unavailable("no answer")
UNKNOWN = NotFound("no broker is called broker_1")


class MachineBench:
    def __init__(self, *subscriptions: Subscription) -> None:
        config = MachineConfig(
            name="broker_1",
            policy=parse_policy("lsc"),
            budget_bytes=1000,
            message_policy=parse_message_policy("sel-sub-fifo"),
            message_slots=8,
            news_poll_s=1000.0,
        )
        self.machine = BrokerMachine(config, 0.0)
        self.load(self.machine.tick(0.0), 0.0, *subscriptions)

    def load(
        self, effects: list[Effect], now: float, *subscriptions: Subscription, store: str = "one"
    ) -> list[Effect]:
        """Answer a registration and what it brings; all that comes of it."""
        effects = self.machine.registered(only(effects, Register).call, store, now)
        load = only(effects, LoadSubscriptions)
        effects += self.machine.loaded(load.call, store, 10, subscriptions, now)
        for ask in [effect for effect in effects if isinstance(effect, AskNews)]:
            effects += self.machine.news(ask.call, store, 10, [], [], now)
        return effects

    def connect(self, connection: int = 1, *subscriptions: Subscription) -> list[Effect]:
        effects = self.machine.connect(connection, "alice", False, 0.0)
        return self.machine.attached(only(effects, AttachSubscriber).call, subscriptions, 0.0)


def kinds(effects: list[Effect]) -> list[type]:
    return [type(effect) for effect in effects]


# -- registration ----------------------------------------------------------------------------------


def test_it_registers_loads_and_says_that_it_serves() -> None:
    bench = MachineBench()
    assert bench.machine.store_id == "one"
    assert kinds(bench.connect()) == [Welcome]


def test_a_cluster_that_is_away_is_asked_again_and_later_each_time() -> None:
    machine = MachineBench().machine
    call = only(machine.compare(10.0), Register).call
    assert machine.failed(call, AWAY, 10.0) == []
    assert machine.tick(10.05) == []
    call = only(machine.tick(10.1), Register).call
    machine.failed(call, AWAY, 10.1)
    assert machine.tick(10.25) == []
    assert kinds(machine.tick(10.3)) == [Register]


def test_a_lost_answer_to_the_load_begins_with_registering_again() -> None:
    machine = MachineBench().machine
    call = only(machine.compare(10.0), Register).call
    load = only(machine.registered(call, "one", 10.0), LoadSubscriptions)
    machine.failed(load.call, AWAY, 10.0)
    assert kinds(machine.tick(10.1)) == [Register]


def test_a_load_of_another_store_than_that_of_the_registration_counts_nothing() -> None:
    bench = MachineBench(subscription())
    call = only(bench.machine.compare(10.0), Register).call
    load = only(bench.machine.registered(call, "one", 10.0), LoadSubscriptions)
    assert bench.machine.loaded(load.call, "two", 0, [], 10.0) == []
    assert set(bench.machine.core.table.frontends) == {5}
    assert kinds(bench.machine.tick(10.1)) == [Register]


def test_subscriptions_are_loaded_by_pages_and_news_go_on_from_the_first() -> None:
    machine = BrokerMachine(MachineBench().machine.config, 0.0)
    call = only(machine.tick(0.0), Register).call
    load = only(machine.registered(call, "one", 0.0), LoadSubscriptions)
    assert load.after == 0
    effects = machine.loaded(load.call, "one", 10, [subscription()], 0.1, 5)
    assert kinds(effects) == [LoadSubscriptions]  # it serves nobody yet
    load = only(effects, LoadSubscriptions)
    assert load.after == 5
    effects = machine.loaded(load.call, "one", 12, [subscription(8, "bob")], 0.2)
    assert kinds(effects) == [Synchronised, AskNews]
    assert only(effects, AskNews).since == 10
    assert set(machine.core.table.frontends) == {5, 8}


def test_what_left_is_known_by_the_page_that_it_is_not_on() -> None:
    bench = MachineBench(*(subscription(number) for number in (5, 6, 8, 9)))
    machine = bench.machine
    load = only(
        machine.registered(only(machine.compare(10.0), Register).call, "one", 10.0),
        LoadSubscriptions,
    )
    effects = machine.loaded(load.call, "one", 20, [subscription(5)], 10.1, 6)
    assert set(machine.core.table.frontends) == {5, 6, 8, 9}  # all at once, at the end
    load = only(effects, LoadSubscriptions)
    machine.loaded(load.call, "one", 21, [subscription(9)], 10.2)
    assert set(machine.core.table.frontends) == {5, 9}


def test_a_page_of_another_store_begins_all_again() -> None:
    bench = MachineBench(subscription())
    machine = bench.machine
    load = only(
        machine.registered(only(machine.compare(10.0), Register).call, "one", 10.0),
        LoadSubscriptions,
    )
    load = only(machine.loaded(load.call, "one", 20, [subscription(5)], 10.1, 5), LoadSubscriptions)
    assert machine.loaded(load.call, "two", 3, [], 10.2) == []
    assert kinds(machine.tick(10.4)) == [Register]


def test_a_cluster_that_refuses_a_new_broker_is_not_asked_again_in_vain() -> None:
    config = MachineBench().machine.config
    machine = BrokerMachine(config, 0.0)
    wrong = Unauthenticated("a wrong secret")
    effects = machine.failed(only(machine.tick(0.0), Register).call, wrong, 0.0)
    assert effects == [Rejected(wrong)]


def test_what_is_unknown_to_one_of_the_two_is_compared() -> None:
    bench = MachineBench()
    machine = bench.machine
    unknown = [NewHead(99, "A", 1)]
    ask = only(machine.tick(1000.0), AskNews)
    effects = machine.news(ask.call, "one", 11, unknown, [], 1000.0)
    assert Synchronised("one") in bench.load(effects, 1000.0)
    ask = only(machine.tick(2000.5), AskNews)
    bench.load(machine.news(ask.call, "one", 12, unknown, [], 2000.5), 2000.5)
    ask = only(machine.tick(3001.0), AskNews)
    assert kinds(machine.failed(ask.call, UNKNOWN, 3001.0)) == [Register]


def test_news_of_something_unknown_within_seconds_wait_for_their_turn() -> None:
    bench = MachineBench(subscription())
    machine = bench.machine
    bench.load(machine.compare(100.0), 100.0, subscription())
    fetch = only(machine.notice("one", [NewHead(7, "A", 1)], [], 101.0), Fetch)
    effects = machine.failed(fetch.call, NotFound("gone"), 101.0)
    assert Register not in kinds(effects)
    assert Register not in kinds(machine.tick(104.9))
    assert Register in kinds(machine.tick(105.0))


def test_a_notice_of_another_store_is_followed_at_once() -> None:
    machine = MachineBench().machine
    assert kinds(machine.notice("two", [], [], 0.1)) == [Register]
    assert machine.notice("two", [], [], 0.2) == []  # it is under way


# -- another store ---------------------------------------------------------------------------------


def test_with_another_store_all_begins_anew() -> None:
    bench = MachineBench()
    bench.connect(1, subscription(), filtered())
    machine = bench.machine
    machine.linked("broker_2", 3, 0.0)
    before = machine.core, machine.router
    effects = bench.load(machine.notice("two", [], [], 1.0), 1.0, store="two")
    assert StoreReplaced("two") in effects
    assert CloseConnection(1, None, store_replaced=True) in effects
    assert Relink("broker_2", 3) in effects
    assert machine.store_id == "two"
    assert machine.core is not before[0]
    assert machine.router is not before[1]
    assert machine.core.table.frontends == {}


def test_answers_of_the_former_store_change_nothing() -> None:
    bench = MachineBench()
    bench.connect(1, subscription())
    machine = bench.machine
    fetch = only(machine.notice("one", [NewHead(7, "A", 3)], [], 1.0), Fetch)
    ask = only(machine.tick(1001.0), AskNews)
    bench.load(machine.notice("two", [], [], 1002.0), 1002.0, subscription(head=0), store="two")
    assert machine.fetched(fetch.call, answer(1, 3), 1003.0) == []
    assert machine.news(ask.call, "one", 50, [NewHead(7, "A", 3)], [], 1003.0) == []
    assert machine.failed(fetch.call, AWAY, 1003.0) == []
    assert machine.core.cache.contents(7) == []
    assert machine.core.query_token.sequence == 10


def test_whoever_waits_for_the_former_store_hears_of_it() -> None:
    bench = MachineBench()
    bench.connect(1, subscription(head=3))
    machine = bench.machine
    machine.get(R, "alice", 5, 1.0, Cursor(0, "A"))
    machine.ack("alice", 5, "A", 1, 1.0, request=Q)
    effects = bench.load(machine.notice("two", [], [], 1.0), 1.0, store="two")
    assert {effect.request for effect in effects if isinstance(effect, Fail)} == {R, Q}


def test_who_was_about_to_come_is_asked_for_again_at_the_new_store() -> None:
    bench = MachineBench()
    machine = bench.machine
    old = only(machine.connect(1, "alice", False, 0.0), AttachSubscriber)
    effects = bench.load(machine.notice("two", [], [], 1.0), 1.0, store="two")
    new = only(effects, AttachSubscriber)
    assert machine.attached(old.call, [subscription()], 1.0) == []
    (welcome,) = machine.attached(new.call, [], 1.0)
    assert welcome == Welcome(1, "two", [])


# -- arrivals --------------------------------------------------------------------------------------


def test_a_patient_client_is_welcomed_when_the_cluster_answers_at_last() -> None:
    machine = MachineBench().machine
    ask = only(machine.connect(1, "alice", False, 0.0), AttachSubscriber)
    assert machine.failed(ask.call, AWAY, 0.0) == []
    ask = only(machine.tick(0.05), AttachSubscriber)
    assert kinds(machine.attached(ask.call, [], 0.1)) == [Welcome]


def test_who_left_meanwhile_is_not_welcomed() -> None:
    machine = MachineBench().machine
    ask = only(machine.connect(1, "alice", False, 0.0), AttachSubscriber)
    machine.disconnected(1, 0.1)
    assert machine.attached(ask.call, [subscription()], 0.2) == []
    assert machine.core.table.connections == {}


def test_connections_that_come_together_get_the_places_there_are_and_leave_them_to_others() -> None:
    machine = MachineBench().machine
    asks = [
        only(machine.connect(number, "alice", False, 0.0), AttachSubscriber) for number in (1, 2, 3)
    ]
    outcomes = [machine.attached(ask.call, [subscription()], 0.1, 2) for ask in asks]
    assert [kinds(effects)[0] for effects in outcomes] == [Welcome, Welcome, Refuse]
    error = only(outcomes[2], Refuse).error
    assert (type(error), error.field) == (QuotaExceeded, "connections")
    assert machine.serves("alice", subscription().id)  # the cluster has moved it here
    machine.disconnected(1, 0.2)
    ask = only(machine.connect(4, "alice", False, 0.3), AttachSubscriber)
    assert kinds(machine.attached(ask.call, [subscription()], 0.3, 2))[0] is Welcome


def test_a_client_without_patience_is_refused() -> None:
    machine = MachineBench().machine
    ask = only(machine.connect(1, "alice", False, 0.0, patient=False), AttachSubscriber)
    assert machine.failed(ask.call, AWAY, 0.0) == [Refuse(1, AWAY)]


def test_a_cluster_that_forgot_this_broker_is_told_of_it_at_once() -> None:
    machine = MachineBench().machine
    ask = only(machine.connect(1, "alice", False, 0.0), AttachSubscriber)
    assert kinds(machine.failed(ask.call, UNKNOWN, 0.1)) == [Register]
    assert AttachSubscriber in kinds(machine.tick(0.2))


def test_a_subscription_is_asked_for_a_few_times() -> None:
    machine = MachineBench().machine
    effects = machine.subscribe(R, "alice", Interest("by_type", {}), 0.0)
    now = 0.0
    for _ in range(4):
        assert machine.failed(only(effects, CreateSubscription).call, AWAY, now) == []
        now += 1.0
        effects = machine.tick(now)
    assert machine.failed(only(effects, CreateSubscription).call, AWAY, now) == [Fail(R, AWAY)]


def test_what_a_subscriber_showed_goes_with_every_call_in_their_name() -> None:
    machine = MachineBench().machine
    ask = only(machine.connect(1, "alice", False, 0.0, token="shown"), AttachSubscriber)
    assert ask.token == "shown"
    assert machine.failed(ask.call, AWAY, 0.0) == []
    assert only(machine.tick(0.2), AttachSubscriber).token == "shown"
    assert only(machine.attach(R, "bob", 0.3, token="other"), AttachSubscriber).token == "other"
    wish = Interest("by_type", {})
    subscribing = machine.subscribe(R, "bob", wish, 0.4, token="other")
    creating = only(subscribing, CreateSubscription)
    assert creating.token == "other"
    there = subscription()
    elsewhere = Subscription(there.id, "bob", "broker_2", there.backend, 0)
    moving = machine.subscribed(creating.call, elsewhere, 0.5)
    assert only(moving, AttachSubscriber).token == "other"


def test_whoever_subscribes_hears_of_it_before_the_first_signal() -> None:
    bench = MachineBench()
    bench.connect(1, subscription(6, head=0))
    bench.machine.notice("one", [NewHead(7, "A", 3, answer(1, 3).results)], [], 1.0)
    effects = bench.machine.subscribe(R, "alice", Interest("by_type", {}), 1.0, connection=1)
    call = only(effects, CreateSubscription).call
    effects = bench.machine.subscribed(call, subscription(head=1), 1.1)
    assert kinds(effects) == [Subscribed, Signal]


def test_one_that_is_served_elsewhere_brings_its_subscriber_here() -> None:
    machine = MachineBench().machine
    effects = machine.subscribe(R, "alice", Interest("by_type", {}), 0.0)
    there = subscription()
    call = only(effects, CreateSubscription).call
    elsewhere = Subscription(there.id, "alice", "broker_2", there.backend, 0)
    ask = only(machine.subscribed(call, elsewhere, 0.1), AttachSubscriber)
    assert machine.attached(ask.call, [there], 0.2) == [Subscribed(R, there)]
    assert machine.serves("alice", 5)


def test_an_end_that_the_cluster_knows_already_is_an_end() -> None:
    bench = MachineBench()
    bench.connect(1, subscription())
    call = only(bench.machine.unsubscribe(R, "alice", 5, 0.0), DeleteSubscription).call
    missing = NotFound("no subscription 5")
    assert bench.machine.failed(call, missing, 0.1) == [Ended(5, [1]), Fail(R, missing)]
    bench.connect(2, subscription(6))
    call = only(bench.machine.unsubscribe(R, "alice", 6, 0.0), DeleteSubscription).call
    assert bench.machine.unsubscribed(call, 0.1)[-1] == Unsubscribed(R)


# -- neighbours ------------------------------------------------------------------------------------


def _missing() -> tuple[BrokerMachine, Send]:
    """Alice misses (0, 3], and a neighbour was asked for it."""
    bench = MachineBench()
    bench.connect(1, subscription(head=3))
    bench.machine.linked("broker_2", 1, 0.0)
    effects = bench.machine.get(R, "alice", 5, 1.0, Cursor(0, "A"))
    asked = only(effects, Send)
    assert isinstance(asked.message, ResultsWanted)
    return bench.machine, asked


def test_a_silent_neighbour_is_not_waited_for_long() -> None:
    machine, _ = _missing()
    assert machine.tick(1.05) == []
    fetch = only(machine.tick(1.1), Fetch)
    assert (fetch.after, fetch.upto) == (0, 3)
    assert only(machine.fetched(fetch.call, answer(1, 3), 1.2), Answer).fetched == 3


def test_the_store_is_asked_for_what_the_neighbour_has_not() -> None:
    machine, asked = _missing()
    assert isinstance(asked.message, ResultsWanted)
    rows = tuple((r.position, r.created_at, r.payload) for r in answer(2, 3).results)
    part = ResultsFound(asked.message.question, 1, 3, rows)  # type: ignore[arg-type]
    fetch = only(machine.heard("broker_2", 1, 1, part, 1.01), Fetch)
    assert (fetch.after, fetch.upto) == (0, 1)
    got = only(machine.fetched(fetch.call, answer(1, 1, head=3), 1.2), Answer)
    assert (got.fetched, got.from_neighbours) == (1, 2)
    assert [result.position for result in got.results] == [1, 2, 3]


def test_a_store_that_fails_fails_the_get_whatever_neighbours_had() -> None:
    machine, asked = _missing()
    assert isinstance(asked.message, ResultsWanted)
    rows = tuple((r.position, r.created_at, r.payload) for r in answer(2, 3).results)
    part = ResultsFound(asked.message.question, 1, 3, rows)  # type: ignore[arg-type]
    fetch = only(machine.heard("broker_2", 1, 1, part, 1.01), Fetch)
    assert only(machine.failed(fetch.call, AWAY, 1.2), Fail).request == R


# -- routed datasets -------------------------------------------------------------------------------


def _entered() -> tuple[BrokerMachine, OpenStream]:
    bench = MachineBench()
    bench.connect(1, filtered())
    return bench.machine, only(bench.machine.assigned("broker_1", 1.0), OpenStream)


def record(position: int) -> Publication:
    return Publication("reports", position, {"level": 4}, 3.5)


def test_where_records_enter_their_stream_is_followed_and_opened_again() -> None:
    machine, stream = _entered()
    machine.streamed(stream.call, Entered("reports", 10), 1.0)
    effects = machine.streamed(stream.call, Published(record(20), 10), 1.1)
    assert effects == [Signal(8, "F", 20, [1])]
    assert machine.failed(stream.call, AWAY, 2.0) == []
    assert machine.streamed(stream.call, Published(record(30), 20), 2.0) == []  # it is over
    again = only(machine.tick(2.1), OpenStream)
    assert machine.assigned("broker_2", 3.0) == [CloseStream(again.call)]
    assert machine.tick(9.0) == []


def test_what_is_filled_is_read_by_parts_until_it_was_read() -> None:
    machine, stream = _entered()
    read = only(machine.streamed(stream.call, Entered("reports", 40), 1.0), ReadLog)
    assert (read.after, read.upto) == (10, 40)
    assert machine.failed(read.call, AWAY, 1.0) == []
    assert machine.tick(1.04) == []
    read = only(machine.tick(1.05), ReadLog)
    again, signal = machine.log_read(read.call, LogPart(0, 25, [record(20)]), 1.1)
    assert signal == Signal(8, "F", 20, [1])  # each part is passed on as it comes
    read = only([again], ReadLog)
    assert (read.after, read.upto) == (25, 40)
    late = machine.streamed(stream.call, Published(record(50), 40), 1.15)
    assert late == []  # it comes behind what is being filled
    effects = machine.log_read(read.call, LogPart(0, 40, [record(30)]), 1.2)
    assert effects == [Signal(8, "F", 30, [1]), Signal(8, "F", 50, [1])]
    assert machine.filling == 0


def test_so_many_parts_of_fills_are_asked_for_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fills, "PARTS_AT_ONCE", 2)
    filling = fills.Fills(MachineBench().machine.router, 1.0)
    asked = [filling.begin(Fill(number, "reports", 0, 40)) for number in (1, 2, 3, 4)]
    first, second = ReadLog(1, "reports", 0, 40), ReadLog(2, "reports", 0, 40)
    third, fourth = ReadLog(3, "reports", 0, 40), ReadLog(4, "reports", 0, 40)
    assert asked == [[first], [second], [], []]
    assert filling.failed(first, AWAY, 1.0) == [third]
    assert filling.read(second, LogPart(0, 40, [])) == [fourth]
    assert filling.tick(9.0) == []  # the first has its turn again when another part has come
    assert filling.read(fourth, LogPart(0, 20, [])) == [first]
    assert len(filling) == 3


def test_of_a_dropped_dataset_nobody_misses_anything() -> None:
    machine, stream = _entered()
    read = only(machine.streamed(stream.call, Entered("reports", 40), 1.0), ReadLog)
    assert machine.failed(read.call, NotFound("there is no dataset"), 1.0) == []
    assert machine.filling == 0


def test_a_recall_is_answered_when_its_time_is_over() -> None:
    machine, stream = _entered()
    machine.streamed(stream.call, Entered("reports", 10), 1.0)
    machine.streamed(stream.call, Published(record(20), 10), 1.1)
    assert machine.recall(R, Filter("reports"), 0.2, 2.0) == []
    assert machine.tick(2.1) == []
    recalled = only(machine.tick(2.2), Recalled)
    assert [one.publication.position for one in recalled.publications] == [20]
