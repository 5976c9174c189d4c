"""The player: what it asks of subscribers and publishers, in which order, whatever their pace."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from tocsin.demo.course import LOGINS_AT_ONCE, CityPlayer, Subscriber
from tocsin.demo.player import Actor, Player, Publisher, Record, Timed
from tocsin.demo.trace import Event, Login, Logout, Plan, Publish, Subscribe, Trace, Unsubscribe
from tocsin.model import Arguments


class Notes:
    """Everything that was asked for, in order, and how many were in at once."""

    def __init__(self) -> None:
        self.told: list[tuple[str, ...]] = []
        self.entering = 0
        self.most_entering = 0


class Slow(Subscriber):
    """A subscriber who needs a few turns of the loop for everything."""

    def __init__(self, name: str, notes: Notes, turns: int = 3) -> None:
        super().__init__()
        self.name = name
        self._notes = notes
        self._turns = turns

    async def _do(self, *what: str) -> None:
        for _ in range(self._turns):
            await asyncio.sleep(0)
        self._notes.told.append((self.name, *what))

    async def login(self) -> None:
        self._notes.entering += 1
        self._notes.most_entering = max(self._notes.most_entering, self._notes.entering)
        await self._do("login")
        self._notes.entering -= 1

    async def logout(self) -> None:
        await self._do("logout")

    async def subscribe_all(self, wishes: list[tuple[str, Arguments]]) -> None:
        await self._do("subscribe", *(channel for channel, _ in wishes))

    async def subscribe(self, channel: str, arguments: Arguments) -> None:
        await self._do("subscribe", channel)

    async def unsubscribe(self, channel: str, arguments: Arguments) -> None:
        await self._do("unsubscribe", channel)


class Sent:
    """A cluster that takes its time."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, list[Record]]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self, dataset: str, records: Sequence[Record]) -> None:
        self.calls.append((dataset, list(records)))
        await self.gate.wait()


def trace_of(*events: Event, duration_s: float = 0.05) -> Trace:
    return Trace(plan=Plan(duration_s=duration_s), events=events)


def opening(name: str, *channels: str) -> list[Event]:
    made: list[Event] = [Login(at_s=0, subscriber=name)]
    made += [Subscribe(at_s=0, subscriber=name, channel=c, arguments={}) for c in channels]
    return made


async def test_a_record_that_is_not_complete_holds_up_no_other() -> None:
    sent, uploaded = Sent(), asyncio.Event()

    async def pictured(record: Record) -> Record:
        await uploaded.wait()
        return {**record, "photo": "p"}

    publisher = Publisher(sent, lambda record: pictured(record) if record["n"] == 1 else None)
    for number in (1, 2, 3):
        publisher.publish("emergencies", {"n": number})
    await asyncio.sleep(0.01)
    assert [record for _, records in sent.calls for record in records] == [{"n": 2}, {"n": 3}]
    assert publisher.busy
    uploaded.set()
    await publisher.finished()
    assert sent.calls[-1] == ("emergencies", [{"n": 1, "photo": "p"}])


async def test_what_a_record_lacks_and_cannot_be_had_ends_the_play() -> None:
    async def refused(record: Record) -> Record:
        raise ConnectionError("no room for pictures")

    publisher = Publisher(Sent(), refused)
    publisher.publish("emergencies", {"n": 1})
    with pytest.raises(ConnectionError):
        await publisher.finished()


async def test_everybody_logs_in_before_subscribing_to_all_they_wish_for() -> None:
    notes = Notes()
    people = {name: Slow(name, notes) for name in ("ann", "bob")}
    trace = trace_of(*opening("ann", "floods", "fires"), *opening("bob", "fires"))
    await CityPlayer(trace, people, Publisher(Sent())).open()
    assert [each for each in notes.told if each[0] == "ann"] == [
        ("ann", "login"),
        ("ann", "subscribe", "floods", "fires"),
    ]
    assert ("bob", "subscribe", "fires") in notes.told


async def test_the_opening_lets_in_a_few_at_a_time() -> None:
    notes = Notes()
    names = [f"user-{number}" for number in range(3 * LOGINS_AT_ONCE)]
    people = {name: Slow(name, notes) for name in names}
    events = [event for name in names for event in opening(name, "floods")]
    await CityPlayer(trace_of(*events), people, Publisher(Sent())).open()
    assert notes.most_entering == LOGINS_AT_ONCE
    assert len(notes.told) == 2 * len(names)


async def test_one_subscribers_events_keep_their_order_though_each_takes_long() -> None:
    notes = Notes()
    people = {"ann": Slow("ann", notes, turns=50), "bob": Slow("bob", notes, turns=1)}
    trace = trace_of(
        Login(at_s=0.001, subscriber="ann"),
        Unsubscribe(at_s=0.002, subscriber="ann", channel="floods", arguments={}),
        Subscribe(at_s=0.002, subscriber="ann", channel="fires", arguments={}),
        Logout(at_s=0.003, subscriber="ann"),
        Login(at_s=0.004, subscriber="bob"),
    )
    player = CityPlayer(trace, people, Publisher(Sent()))
    await player.course()
    assert [each[1:] for each in notes.told if each[0] == "ann"] == [
        ("login",),
        ("unsubscribe", "floods"),
        ("subscribe", "fires"),
        ("logout",),
    ]
    assert notes.told.index(("bob", "login")) < notes.told.index(("ann", "logout"))
    assert player.elapsed_s == trace.duration_s


async def test_records_that_come_while_a_call_is_under_way_travel_together_and_in_order() -> None:
    sent = Sent()
    sent.gate.clear()
    publisher = Publisher(sent)
    publisher.publish("emergencies", {"report_id": "a"})
    await asyncio.sleep(0)
    for name in "bcd":
        publisher.publish("emergencies", {"report_id": name})
    publisher.publish("shelters", {"shelter_id": "s"})
    assert publisher.busy
    sent.gate.set()
    await publisher.finished()
    emergencies = [[r["report_id"] for r in records] for d, records in sent.calls if d[0] == "e"]
    assert emergencies == [["a"], ["b", "c", "d"]]
    assert not publisher.busy


async def test_a_record_is_stamped_when_it_happens_not_when_its_call_goes_out() -> None:
    sent = Sent()
    sent.gate.clear()
    player = CityPlayer(trace_of(), {}, Publisher(sent))
    player.publish("emergencies", {"report_id": "a"})
    await asyncio.sleep(0)
    player.publish("emergencies", {"report_id": "b"})
    await asyncio.sleep(0.05)
    player.publish("emergencies", {"report_id": "c"})
    sent.gate.set()
    await player.idle()
    [_, (_, [b, c])] = sent.calls
    assert b["reported_at"] < c["reported_at"]


async def test_a_refused_publication_ends_the_play() -> None:
    async def refuse(dataset: str, records: Sequence[Record]) -> None:
        raise ValueError("refused")

    trace = trace_of(Publish(at_s=0.001, dataset="emergencies", record={}))
    with pytest.raises(ValueError, match="refused"):
        await CityPlayer(trace, {}, Publisher(refuse)).course()


async def test_whoever_is_away_comes_back_at_the_end() -> None:
    notes = Notes()
    people = {name: Slow(name, notes) for name in ("ann", "bob")}
    await CityPlayer(trace_of(), people, Publisher(Sent())).all_in()
    assert sorted(notes.told) == [("ann", "login"), ("bob", "login")]


async def refuse() -> None:
    raise ValueError("refused")


async def test_an_act_may_end_the_play_before_what_comes_later() -> None:
    actor, begun = Actor(), []
    course = [Timed(0.0, lambda: actor.then(refuse)), Timed(60.0, lambda: begun.append(1))]
    with pytest.raises(ValueError, match="refused"):
        await Player([actor]).play(course)
    assert begun == []


async def test_whoever_gives_up_does_nothing_more_beside_or_after() -> None:
    notes = Notes()
    ann = Slow("ann", notes)
    ann.then(ann.login)
    ann.then(ann.logout)
    ann.concurrently(ann.logout)
    await ann.give_up()
    assert (notes.told, ann.busy) == ([], False)
