"""Frontend subscriptions: merged, idempotent, movable, and gone without a trace when left."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine, event

from tocsin.errors import InvalidInput, NotFound
from tocsin.model import Beginning, Dataset
from tocsin.storage.store.runs import Run
from tocsin.storage.store.store import Store
from tocsin.storage.store.subscribing import Wish

from .conftest import Clock

FLOOD = {"type": "flood"}
FIRE = {"type": "fire"}


def results(store: Store, backend: int, count: int, run: str = "batch-1") -> None:
    rows = [(backend, b"{}")] * count
    assert store.runs.commit_run(Run("by_type", run, 1.0, 2.0), rows) is not None


def test_equal_arguments_share_one_backend_subscription(city: Store) -> None:
    first, made = city.subscriptions.subscribe("alice", "by_type", {"a": 1, "b": [2]}, "north")
    second, again = city.subscriptions.subscribe("bob", "by_type", {"b": [2], "a": 1}, "south")
    assert (made, again) == (True, False)
    assert first.backend == second.backend
    assert first.id != second.id


def test_other_arguments_or_channels_have_their_own_backend_subscription(city: Store) -> None:
    wanted = [("by_type", FLOOD), ("by_type", FIRE), ("alerts", FLOOD), ("by_type", {})]
    made = [city.subscriptions.subscribe("alice", *one, "north")[0] for one in wanted]
    assert len({one.backend.id for one in made}) == 4
    assert len({one.backend.epoch for one in made}) == 4


def test_open_parameters_are_arguments_like_others(city: Store) -> None:
    opened = {"type": {"any": True}, "least": 3}
    first, _ = city.subscriptions.subscribe("alice", "by_type", opened, "north")
    second, new = city.subscriptions.subscribe("bob", "by_type", dict(opened), "north")
    assert (second.backend, new) == (first.backend, False)
    city.subscriptions.subscribe("bob", "by_type", opened | {"type": "any"}, "north")
    version = city.subscriptions.parameter_version("by_type")
    sets = dict(city.subscriptions.parameter_sets("by_type"))
    assert len(sets) == 2
    assert sets[first.backend.id] == opened
    city.subscriptions.unsubscribe(first.id)
    assert city.subscriptions.parameter_version("by_type") == version
    city.subscriptions.unsubscribe(second.id)
    changes = city.subscriptions.parameter_changes("by_type", version)
    assert changes is not None
    assert changes[1:] == ([], [first.backend.id])


def test_arguments_longer_than_any_index_are_told_apart(city: Store) -> None:
    long = "x" * 100_000
    one, _ = city.subscriptions.subscribe("alice", "by_type", {"type": long + "1"}, None)
    two, _ = city.subscriptions.subscribe("alice", "by_type", {"type": long + "2"}, None)
    same, _ = city.subscriptions.subscribe("alice", "by_type", {"type": long + "2"}, None)
    assert one.backend.id != two.backend.id
    assert same == two


def test_a_repeat_gives_the_same_subscription_and_moves_nothing(city: Store) -> None:
    subscribe = city.subscriptions.subscribe
    first, _ = subscribe("alice", "by_type", FLOOD, "north")
    assert subscribe("alice", "by_type", FLOOD, "north") == (first, False)
    assert subscribe("alice", "by_type", FLOOD, None) == (first, False)
    sequence, _ = city.subscriptions.of_broker("north")
    assert subscribe("alice", "by_type", FLOOD, "south") == (first, False)
    assert city.subscriptions.all_() == [first]
    assert city.subscriptions.news("north", sequence) == (sequence, [], [])


def test_a_subscription_on_no_broker_is_put_on_the_first_that_repeats_it(city: Store) -> None:
    subscribe = city.subscriptions.subscribe
    first, _ = subscribe("alice", "by_type", FLOOD, None)
    put, _ = subscribe("alice", "by_type", FLOOD, "south")
    assert (first.broker, put.id, put.broker) == (None, first.id, "south")
    assert city.subscriptions.all_() == [put]


def test_a_newcomer_starts_at_the_head(city: Store) -> None:
    first, _ = city.subscriptions.subscribe("alice", "by_type", FLOOD, "north")
    results(city, first.backend.id, 3)
    late, _ = city.subscriptions.subscribe("bob", "by_type", FLOOD, "north")
    assert (late.marker, late.backend.head) == (3, 3)
    assert city.subscriptions.get(first.id).marker == 0


def test_a_newcomer_starts_behind_its_marker_and_only_a_newcomer(city: Store) -> None:
    first, _ = city.subscriptions.subscribe("alice", "by_type", FLOOD, "north", 7)
    assert first.marker == 0  # nobody begins in the future
    results(city, first.backend.id, 10)
    for name, marker, expected in [("bob", 4, 4), ("carol", 99, 10), ("dave", None, 10)]:
        made, _ = city.subscriptions.subscribe(name, "by_type", FLOOD, "north", marker)
        assert made.marker == expected
        assert city.subscriptions.get(made.id) == made
    repeat, _ = city.subscriptions.subscribe("bob", "by_type", FLOOD, "north", 1)
    assert repeat.marker == 4


def test_the_past_of_a_channel_is_found_by_number_and_by_time(city: Store, clock: Clock) -> None:
    made, _ = city.subscriptions.subscribe("alice", "by_type", FLOOD, "north")
    marker_of = city.subscriptions.marker_of

    def since(seconds: float) -> int | None:
        return marker_of("by_type", FLOOD, Beginning(seconds=seconds), clock.now)

    assert since(1e6) == 0
    started = clock.now
    for minute in range(3):
        clock.now = started + 60 * minute
        run = Run("by_type", f"batch-{minute}", clock.now, clock.now)
        assert city.runs.commit_run(run, [(made.backend.id, b"{}")] * 2) is not None
    assert (since(1), since(60), since(90), since(1e5)) == (4, 2, 2, 0)
    clock.now += 1000
    assert since(10) == 6
    for last, expected in [(1, 5), (6, 0), (100, 0)]:
        assert marker_of("by_type", FLOOD, Beginning(last=last), clock.now) == expected
    city.results.expire(started + 30)
    assert marker_of("by_type", FLOOD, Beginning(last=100), clock.now) == 2
    assert since(1e5) == 2
    assert marker_of("by_type", FIRE, Beginning(last=1), clock.now) is None


def test_a_filters_marker_is_bound_by_its_datasets_log(city: Store) -> None:
    city.catalog.create_dataset(Dataset("routed", (), routed=True))
    subscribe = city.subscriptions.subscribe
    made, _ = subscribe("alice", "dataset/routed", {"where": ""}, "north", 500)
    assert (made.marker, city.subscriptions.get(made.id).marker) == (500, 500)
    other, _ = subscribe("alice", "by_type", FLOOD, "north")
    results(city, other.backend.id, 3)
    for position, end, expected in [(700, 900, 700), (600, 900, 700), (2000, 900, 900)]:
        wanted = [
            (made.id, made.backend.epoch, position),
            (other.id, other.backend.epoch, position),
        ]
        assert city.subscriptions.put_markers(wanted, {"routed": end}) == []
        assert city.subscriptions.get(made.id).marker == expected
    assert city.subscriptions.get(other.id).marker == 3
    assert city.subscriptions.put_markers([(made.id, made.backend.epoch, 5000)]) == []
    assert city.subscriptions.get(made.id).marker == 900


def test_a_range_of_a_filter_says_whose_it_is(city: Store) -> None:
    city.catalog.create_dataset(Dataset("routed", (), routed=True))
    made, _ = city.subscriptions.subscribe("alice", "dataset/routed", {"where": "n > 1"}, None, 5)
    found = city.results.read(made.backend.id, 0, 10, 10)
    assert (found.dataset, found.arguments) == ("routed", {"where": "n > 1"})
    assert (found.epoch, found.results) == (made.backend.epoch, [])
    other, _ = city.subscriptions.subscribe("alice", "by_type", FLOOD, None)
    assert city.results.read(other.backend.id, 0, 10, 10).dataset is None


def test_unknown_channel_and_broker_are_not_found_and_nothing_is_made(city: Store) -> None:
    with pytest.raises(NotFound, match="no channel ghost"):
        city.subscriptions.subscribe("alice", "ghost", FLOOD, "north")
    with pytest.raises(NotFound, match="no broker ghost"):
        city.subscriptions.subscribe("alice", "by_type", FLOOD, "ghost")
    with pytest.raises(InvalidInput, match="subscriber"):
        city.subscriptions.subscribe("", "by_type", FLOOD, "north")
    assert city.subscriptions.all_() == []
    assert list(city.subscriptions.parameter_sets("by_type")) == []


def test_many_are_subscribed_together_or_not_at_all(city: Store) -> None:
    good = Wish("alice", "by_type", FLOOD, "north")
    with pytest.raises(NotFound):
        city.subscriptions.subscribe_all([good, Wish("bob", "by_type", FLOOD, "ghost")])
    assert city.subscriptions.all_() == []
    made = city.subscriptions.subscribe_all([good, Wish("bob", "by_type", FLOOD, "north"), good])
    assert [created for _, created in made] == [True, False, False]
    assert made[0][0] == made[2][0]


def test_a_subscription_of_somebody_else_is_not_found(city: Store) -> None:
    made, _ = city.subscriptions.subscribe("alice", "by_type", FLOOD, "north")
    with pytest.raises(NotFound, match=f"no subscription {made.id} of bob"):
        city.subscriptions.unsubscribe(made.id, "bob")
    assert city.subscriptions.unsubscribe(made.id, "alice") == made
    with pytest.raises(NotFound):
        city.subscriptions.unsubscribe(made.id, "alice")
    with pytest.raises(NotFound):
        city.subscriptions.get(made.id)


def test_the_last_to_leave_takes_the_backend_subscription_and_its_results(city: Store) -> None:
    first, _ = city.subscriptions.subscribe("alice", "by_type", FLOOD, "north")
    second, _ = city.subscriptions.subscribe("bob", "by_type", FLOOD, "north")
    backend = first.backend.id
    results(city, backend, 2)
    city.subscriptions.unsubscribe(first.id)
    assert len(city.results.read(backend, 0, 9, 9).results) == 2
    city.subscriptions.unsubscribe(second.id)
    with pytest.raises(NotFound):
        city.results.read(backend, 0, 9, 9)
    again, created = city.subscriptions.subscribe("alice", "by_type", FLOOD, "north")
    assert created
    assert again.id > second.id
    assert again.backend.id > backend
    assert again.backend.epoch != first.backend.epoch
    assert (again.marker, again.backend.head) == (0, 0)


def test_attach_moves_everything_of_one_subscriber_and_keeps_markers(city: Store) -> None:
    flood, _ = city.subscriptions.subscribe("alice", "by_type", FLOOD, "north")
    fire, _ = city.subscriptions.subscribe("alice", "by_type", FIRE, "south")
    bob, _ = city.subscriptions.subscribe("bob", "by_type", FLOOD, "north")
    results(city, flood.backend.id, 5)
    city.subscriptions.put_markers([(flood.id, flood.backend.epoch, 4)])
    moved = city.subscriptions.attach("alice", "south")
    assert [(one.id, one.broker, one.marker) for one in moved] == [
        (flood.id, "south", 4),
        (fire.id, "south", 0),
    ]
    assert moved[0].backend.epoch == flood.backend.epoch
    assert city.subscriptions.of_subscriber("alice") == moved
    assert city.subscriptions.get(bob.id).broker == "north"
    assert city.subscriptions.attach("nobody", "south") == []
    with pytest.raises(NotFound, match="no broker ghost"):
        city.subscriptions.attach("alice", "ghost")


def test_move_changes_the_broker_only(city: Store) -> None:
    made, _ = city.subscriptions.subscribe("alice", "by_type", FLOOD, None)
    moved = city.subscriptions.move(made.id, "south")
    assert moved.broker == "south"
    assert city.subscriptions.get(made.id) == moved
    with pytest.raises(NotFound, match="no broker ghost"):
        city.subscriptions.move(made.id, "ghost")
    with pytest.raises(NotFound, match="no subscription 99"):
        city.subscriptions.move(99, "south")


def test_a_marker_goes_forward_only_and_never_past_the_head(city: Store) -> None:
    made, _ = city.subscriptions.subscribe("alice", "by_type", FLOOD, "north")
    results(city, made.backend.id, 10)
    epoch = made.backend.epoch
    for position, expected in [(4, 4), (2, 4), (-1, 4), (7, 7), (99, 10), (3, 10)]:
        assert city.subscriptions.put_markers([(made.id, epoch, position)]) == []
        assert city.subscriptions.get(made.id).marker == expected


def test_the_highest_of_several_markers_in_one_call_wins(city: Store) -> None:
    made, _ = city.subscriptions.subscribe("alice", "by_type", FLOOD, "north")
    results(city, made.backend.id, 10)
    epoch = made.backend.epoch
    city.subscriptions.put_markers([(made.id, epoch, at) for at in (3, 8, 5)])
    assert city.subscriptions.get(made.id).marker == 8


def test_markers_of_another_epoch_or_of_nobody_are_reported_once_and_ignored(city: Store) -> None:
    made, _ = city.subscriptions.subscribe("alice", "by_type", FLOOD, "north")
    other, _ = city.subscriptions.subscribe("bob", "by_type", FLOOD, "north")
    results(city, made.backend.id, 10)
    wanted = [(77, "x", 1), (made.id, "x", 9), (other.id, other.backend.epoch, 6), (77, "x", 2)]
    assert city.subscriptions.put_markers(wanted) == [77, made.id]
    assert city.subscriptions.get(made.id).marker == 0
    assert city.subscriptions.get(other.id).marker == 6


def test_markers_that_move_equally_far_are_one_statement_wherever_they_stand(city: Store) -> None:
    made = [
        city.subscriptions.subscribe("alice", "by_type", {"n": n}, "north")[0] for n in range(6)
    ]
    for n, one in enumerate(made):
        results(city, one.backend.id, n + 1, run=f"run-{n}")
        city.subscriptions.put_markers([(one.id, one.backend.epoch, n)])
    updates = []

    def count(_: object, __: object, statement: str, *___: object) -> None:
        if statement.startswith("UPDATE frontend_subscriptions"):
            updates.append(statement)

    event.listen(Engine, "before_cursor_execute", count)
    try:
        wanted = [(one.id, one.backend.epoch, n + 1) for n, one in enumerate(made)]
        assert city.subscriptions.put_markers(wanted) == []
    finally:
        event.remove(Engine, "before_cursor_execute", count)
    assert len(updates) == 1
    markers = [city.subscriptions.get(one.id).marker for one in made]
    assert markers == [n + 1 for n in range(6)]


def test_more_markers_than_one_statement_may_carry(city: Store) -> None:
    wanted = [Wish(f"user-{n}", "by_type", FLOOD, "north") for n in range(2500)]
    made = [one for one, _ in city.subscriptions.subscribe_all(wanted)]
    results(city, made[0].backend.id, 3)
    epoch = made[0].backend.epoch
    assert city.subscriptions.put_markers([(one.id, epoch, 2) for one in made]) == []
    assert {one.marker for one in city.subscriptions.all_()} == {2}


def test_parameter_sets_are_right_after_reopening(url: str, city: Store) -> None:
    flood, _ = city.subscriptions.subscribe("alice", "by_type", FLOOD, "north")
    fire, _ = city.subscriptions.subscribe("alice", "by_type", FIRE, "north")
    city.subscriptions.subscribe("bob", "by_type", FIRE, "north")
    city.subscriptions.subscribe("bob", "alerts", FIRE, "north")
    version = city.subscriptions.parameter_version("by_type")
    expected = [(flood.backend.id, FLOOD), (fire.backend.id, FIRE)]
    assert list(city.subscriptions.parameter_sets("by_type")) == expected
    city.close()
    with Store.open(url) as again:
        assert list(again.subscriptions.parameter_sets("by_type")) == expected
        assert again.subscriptions.parameter_version("by_type") >= version
        assert again.subscriptions.parameter_changes("by_type", 0) is None


def test_parameter_changes_tell_what_came_and_went(city: Store) -> None:
    subscriptions = city.subscriptions
    flood, _ = subscriptions.subscribe("alice", "by_type", FLOOD, "north")
    start = subscriptions.parameter_version("by_type")
    assert subscriptions.parameter_changes("by_type", start) == (start, [], [])
    subscriptions.subscribe("bob", "by_type", FLOOD, "north")  # no new backend subscription
    assert subscriptions.parameter_version("by_type") == start
    fire, _ = subscriptions.subscribe("alice", "by_type", FIRE, "north")
    subscriptions.unsubscribe(flood.id)
    (bobs,) = subscriptions.of_subscriber("bob")
    subscriptions.unsubscribe(bobs.id)
    now = subscriptions.parameter_version("by_type")
    assert now > start
    changes = subscriptions.parameter_changes("by_type", start)
    assert changes == (now, [(fire.backend.id, FIRE)], [flood.backend.id])
    assert subscriptions.parameter_changes("alerts", now) is None  # a version never given out


def test_a_refused_subscription_leaves_no_parameter_change(city: Store) -> None:
    start = city.subscriptions.parameter_version("by_type")
    with pytest.raises(NotFound):
        city.subscriptions.subscribe_all(
            [Wish("alice", "by_type", FLOOD, "north"), Wish("alice", "ghost", FLOOD, "north")]
        )
    assert city.subscriptions.parameter_changes("by_type", start) == (start, [], [])
