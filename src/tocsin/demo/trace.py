"""What happens in the demo's city: a seeded list of events, each with its time in the trace.

Everything at second 0 is the opening: shelters and positions are published, and every subscriber
logs in and subscribes. After it people come and go (ON and OFF times of BAD, Table II),
change their minds, move; reporters publish. Pure: the same arguments give the same trace.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from tocsin.demo import reports
from tocsin.demo.interest import Crowd, Wish
from tocsin.model import Arguments

# BAD, Table II: lognormal, in minutes, parameters of the underlying normal (means 15.9, 20.7).
ON_MINUTES = (1.753, 1.425)
OFF_MINUTES = (2.415, 1.11)
ONLINE_SHARE = 15.9 / (15.9 + 20.7)


class Event(Struct, frozen=True, kw_only=True, tag=True):
    at_s: float


class Publish(Event, frozen=True, kw_only=True):
    """`record` lacks `reported_at`: whoever publishes it stamps it (`reports.stamped`)."""

    dataset: str
    record: dict[str, Any]


class Login(Event, frozen=True, kw_only=True):
    subscriber: str


class Logout(Event, frozen=True, kw_only=True):
    subscriber: str


class Subscribe(Event, frozen=True, kw_only=True):
    subscriber: str
    channel: str
    arguments: Arguments


class Unsubscribe(Event, frozen=True, kw_only=True):
    subscriber: str
    channel: str
    arguments: Arguments


class Plan(Struct, frozen=True, kw_only=True):
    """What shapes a trace. The paper has one reporter; a busy hour has several."""

    seed: int = 1
    subscribers: int = 400
    duration_s: float = 3600.0
    interval_s: float = 10.0  # mean time between two publications of one reporter
    emergency_reporters: int = 2
    shelter_reporters: int = 1
    shelters: int = 48
    move_s: float = 120.0  # how often an online user's position is published
    change_s: float = 1800.0  # mean online time after which a subscriber swaps one subscription


class Trace(Struct, frozen=True, kw_only=True):
    """`events` in order of time; at equal times in the order in which they must be played."""

    plan: Plan
    speed: float = 1.0
    events: tuple[Event, ...]

    @property
    def duration_s(self) -> float:
        return self.plan.duration_s / self.speed

    @property
    def opening(self) -> tuple[Event, ...]:
        return tuple(event for event in self.events if event.at_s == 0)

    @property
    def course(self) -> tuple[Event, ...]:
        return tuple(event for event in self.events if event.at_s > 0)

    def compress(self, speed: float) -> Trace:
        """The same trace in `1/speed` of its time."""
        return Trace(
            plan=self.plan,
            speed=self.speed * speed,
            events=tuple(replace(event, at_s=event.at_s / speed) for event in self.events),
        )


def make_trace(plan: Plan) -> Trace:
    """The trace of a plan. Each source has its own random stream, so that one does not move
    because another was asked for more."""
    users = [f"user-{number:04d}" for number in range(1, plan.subscribers + 1)]
    crowd = Crowd(users, _stream(plan, "interest"))
    events: list[Event] = []
    events += _shelter_events(plan)
    events += _emergency_events(plan, crowd)
    for user, wishes in zip(users, crowd.holdings(), strict=True):
        sessions = list(_sessions(plan, _stream(plan, "sessions", user)))
        events += _position_events(plan, user, sessions, crowd)
        events += _visit_events(plan.duration_s, user, sessions)
        events += _interest_events(plan, user, wishes, sessions, crowd)
    # The sort is stable: at equal times a login stays ahead of its subscriptions.
    return Trace(plan=plan, events=tuple(sorted(events, key=lambda event: event.at_s)))


def _stream(plan: Plan, *names: str) -> Random:
    return Random(f"{plan.seed} {' '.join(names)}")


Session = tuple[float, float]  # from when until when a subscriber is online


def _sessions(plan: Plan, random: Random) -> Iterator[Session]:
    """All come at the opening, to subscribe. As in any other minute only a part of them stays:
    the others leave within the first minute and come back after an OFF time."""
    begin = 0.0
    stays = random.random() < ONLINE_SHARE
    length = 60 * random.lognormvariate(*ON_MINUTES) if stays else random.uniform(5, 60)
    while begin < plan.duration_s:
        yield begin, min(begin + length, plan.duration_s)
        begin += length + 60 * random.lognormvariate(*OFF_MINUTES)
        length = 60 * random.lognormvariate(*ON_MINUTES)


def _visit_events(duration_s: float, user: str, sessions: list[Session]) -> Iterator[Event]:
    for begin, end in sessions:
        yield Login(at_s=begin, subscriber=user)
        if end < duration_s:
            yield Logout(at_s=end, subscriber=user)


def _interest_events(
    plan: Plan, user: str, wishes: list[Wish], sessions: list[Session], crowd: Crowd
) -> Iterator[Event]:
    """Everything wished for at the opening; later, now and then, one is swapped for another."""
    random = _stream(plan, "changes", user)
    for wish in wishes:
        yield Subscribe(at_s=0.0, subscriber=user, channel=wish.channel, arguments=wish.arguments)
    held = list(wishes)
    for begin, end in sessions:
        at_s = begin + random.expovariate(1 / plan.change_s)
        while at_s < end:
            given_up = held.pop(random.randrange(len(held)))
            [wanted] = crowd.fresh(1, [*held, given_up])
            held.append(wanted)
            for kind, wish in ((Unsubscribe, given_up), (Subscribe, wanted)):
                yield kind(
                    at_s=at_s, subscriber=user, channel=wish.channel, arguments=wish.arguments
                )
            at_s += random.expovariate(1 / plan.change_s)


def _position_events(
    plan: Plan, user: str, sessions: list[Session], crowd: Crowd
) -> Iterator[Event]:
    random = _stream(plan, "positions", user)
    walk = reports.Walk(user, crowd.places, random)
    yield Publish(at_s=0.0, dataset="locations", record=walk.record())
    for begin, end in sessions:
        at_s = begin + plan.move_s * random.uniform(0.5, 1.5)
        while at_s < end:
            walk.go_on(plan.move_s)
            yield Publish(at_s=at_s, dataset="locations", record=walk.record())
            at_s += plan.move_s * random.uniform(0.5, 1.5)


def _ticks(plan: Plan, random: Random) -> Iterator[float]:
    """When one reporter publishes: about every `interval_s`, not in step with the others."""
    at_s = random.uniform(0, plan.interval_s) or plan.interval_s
    while at_s < plan.duration_s:
        yield at_s
        at_s += plan.interval_s * random.uniform(0.5, 1.5)


def _emergency_events(plan: Plan, crowd: Crowd) -> Iterator[Event]:
    for reporter in range(1, plan.emergency_reporters + 1):
        random = _stream(plan, "emergencies", str(reporter))
        for number, at_s in enumerate(_ticks(plan, random), start=1):
            record = reports.emergency(
                f"report-{reporter}-{number:05d}", crowd.types, crowd.places, random
            )
            yield Publish(at_s=at_s, dataset="emergencies", record=record)


def _shelter_events(plan: Plan) -> Iterator[Event]:
    random = _stream(plan, "shelters")
    shelters = [reports.shelter(number, random) for number in range(1, plan.shelters + 1)]
    for record in shelters:
        yield Publish(at_s=0.0, dataset="shelters", record=record)
    for reporter in range(1, plan.shelter_reporters + 1):
        random = _stream(plan, "shelter reports", str(reporter))
        for at_s in _ticks(plan, random):
            record = reports.shelter_news(random.choice(shelters), random)
            yield Publish(at_s=at_s, dataset="shelters", record=record)
