"""The demo's trace: seeded, in order, with the numbers of the paper's prototype."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tocsin.demo import city, reports
from tocsin.demo.trace import (
    Event,
    Login,
    Logout,
    Plan,
    Publish,
    Subscribe,
    Trace,
    Unsubscribe,
    make_trace,
)

Key = tuple[str, tuple[tuple[str, object], ...]]


def key(event: Subscribe | Unsubscribe) -> Key:
    return event.channel, tuple(event.arguments.items())


def held_after(events: tuple[Event, ...]) -> dict[str, set[Key]]:
    held: defaultdict[str, set[Key]] = defaultdict(set)
    for event in events:
        if isinstance(event, Subscribe):
            held[event.subscriber].add(key(event))
        elif isinstance(event, Unsubscribe):
            held[event.subscriber].remove(key(event))
    return held


def counts(held: dict[str, set[Key]]) -> tuple[int, int]:
    return sum(map(len, held.values())), len(set[Key]().union(*held.values()))


@pytest.fixture(scope="module")
def hour() -> Trace:
    return make_trace(Plan())


@pytest.mark.parametrize("seed", range(8))
def test_400_subscribers_hold_3500_frontend_and_800_backend_subscriptions(seed: int) -> None:
    trace = make_trace(Plan(seed=seed))
    for events in (trace.opening, trace.events):
        frontend, backend = counts(held_after(events))
        assert abs(frontend - 3500) <= 350
        assert abs(backend - 800) <= 80


@pytest.mark.parametrize("subscribers", [200, 1000, 2000])
def test_subscriptions_scale_with_the_subscribers(subscribers: int) -> None:
    frontend, backend = counts(held_after(make_trace(Plan(subscribers=subscribers)).opening))
    assert abs(frontend - 8.75 * subscribers) <= 0.875 * subscribers
    assert abs(backend - 2 * subscribers) <= 0.2 * subscribers


def test_all_seven_channels_are_subscribed_to_with_all_their_parameters(hour: Trace) -> None:
    asked = {e.channel: tuple(e.arguments) for e in hour.opening if isinstance(e, Subscribe)}
    assert asked == {channel.name: channel.names for channel in city.CHANNELS}


def test_interest_is_uneven(hour: Trace) -> None:
    popular = Counter(key(e) for e in hour.opening if isinstance(e, Subscribe)).most_common()
    tenth = sum(count for _, count in popular[: len(popular) // 10])
    assert tenth > 3500 / 2


def test_the_same_plan_gives_the_same_trace_and_another_seed_another() -> None:
    small = Plan(subscribers=20, duration_s=600)
    assert make_trace(small) == make_trace(small)
    assert make_trace(small) != make_trace(Plan(subscribers=20, duration_s=600, seed=2))


def test_each_reporter_publishes_about_every_ten_seconds(hour: Trace) -> None:
    at_s = [
        e.at_s
        for e in hour.course
        if isinstance(e, Publish) and str(e.record.get("report_id")).startswith("report-1-")
    ]
    gaps = [after - before for before, after in itertools.pairwise(at_s)]
    assert all(5 <= gap <= 15 for gap in gaps)
    assert 9.5 < sum(gaps) / len(gaps) < 10.5


def test_more_reporters_publish_more() -> None:
    def emergencies(reporters: int) -> int:
        plan = Plan(subscribers=5, emergency_reporters=reporters)
        return sum(
            isinstance(e, Publish) and e.dataset == "emergencies" for e in make_trace(plan).events
        )

    assert 2.8 < emergencies(3) / emergencies(1) < 3.2


def test_publications_of_reporters_have_200_to_1000_bytes(hour: Trace) -> None:
    sizes = [
        reports.size_bytes(reports.stamped(e.record, 1_700_000_000.25))
        for e in hour.events
        if isinstance(e, Publish) and e.dataset != "locations"
    ]
    assert min(sizes) >= 200
    assert max(sizes) <= 1000
    assert max(sizes) - min(sizes) > 600


def test_records_have_exactly_the_columns_of_their_dataset(hour: Trace) -> None:
    for event in hour.events:
        if isinstance(event, Publish):
            columns = city.DATASETS[event.dataset].split("(", 1)[1].split(")")[0]
            declared = {column.split()[0] for column in columns.split(",")}
            declared -= {"photo"}  # drawn and uploaded when it is published
            assert set(reports.stamped(event.record, 0.0)) == declared


def test_report_ids_are_unique(hour: Trace) -> None:
    ids = [
        e.record["report_id"]
        for e in hour.events
        if isinstance(e, Publish) and e.dataset == "emergencies"
    ]
    assert len(ids) == len(set(ids))


def test_the_opening_makes_every_shelter_and_every_users_position_known(hour: Trace) -> None:
    known = Counter(e.dataset for e in hour.opening if isinstance(e, Publish))
    assert known == {"shelters": 48, "locations": 400}


def test_people_move_and_stay_in_town(hour: Trace) -> None:
    places: defaultdict[str, set[tuple[float, float]]] = defaultdict(set)
    for event in hour.events:
        if isinstance(event, Publish) and event.dataset == "locations":
            places[event.record["user_id"]].add((event.record["lat"], event.record["lon"]))
    assert sum(len(seen) > 3 for seen in places.values()) > 200
    lats, lons = zip(*set().union(*places.values()), strict=True)
    assert max(lats) - min(lats) < 0.2
    assert max(lons) - min(lons) < 0.2


def test_a_part_of_the_town_is_online_at_any_time_and_most_come_and_go(hour: Trace) -> None:
    online: set[str] = set()
    shares = []
    minute = 2
    for event in hour.events:
        while event.at_s > 60 * minute:
            shares.append(len(online) / 400)
            minute += 1
        if isinstance(event, Login):
            online.add(event.subscriber)
        elif isinstance(event, Logout):
            online.remove(event.subscriber)
    assert min(shares) > 0.2
    assert max(shares) < 0.7
    logins = Counter(e.subscriber for e in hour.events if isinstance(e, Login))
    assert sum(count > 1 for count in logins.values()) > 300


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    subscribers=st.integers(1, 40),
    duration_s=st.floats(1, 4000),
    speed=st.floats(0.5, 200),
)
def test_a_trace_can_be_played(
    seed: int, subscribers: int, duration_s: float, speed: float
) -> None:
    """In order of time, within its duration; online before acting; no wish held twice."""
    plan = Plan(seed=seed, subscribers=subscribers, duration_s=duration_s)
    trace = make_trace(plan).compress(speed)
    times = [event.at_s for event in trace.events]
    assert times == sorted(times)
    assert times[-1] <= trace.duration_s
    assert trace.duration_s == pytest.approx(duration_s / speed)
    online: set[str] = set()
    held: defaultdict[str, set[Key]] = defaultdict(set)
    for event in trace.events:
        match event:
            case Login():
                assert event.subscriber not in online
                online.add(event.subscriber)
            case Logout():
                online.remove(event.subscriber)
            case Subscribe():
                assert event.subscriber in online
                assert key(event) not in held[event.subscriber]
                held[event.subscriber].add(key(event))
            case Unsubscribe():
                assert event.subscriber in online
                held[event.subscriber].remove(key(event))


def test_compressing_changes_times_only(hour: Trace) -> None:
    minute = hour.compress(60)
    assert minute.speed == 60
    assert minute.duration_s == 60
    assert [type(event) for event in minute.events] == [type(event) for event in hour.events]
    assert minute.events[-1].at_s == pytest.approx(hour.events[-1].at_s / 60)
    assert len(minute.opening) == len(hour.opening)
