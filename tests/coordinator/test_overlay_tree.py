"""The tree that brokers are told: who lives is in it, in its old place, and nobody else."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from tocsin.coordinator import Registry
from tocsin.coordinator.overlay import MOST_ABSENT
from tocsin.coordinator.registry import MISSED_INTERVALS
from tocsin.overlay.topology import balanced, read_tree, without

GIVEN = read_tree('links = [["r", "a"], ["a", "b"], ["r", "c"]]')


def beat(registry: Registry, name: str, now: float, place: int | None = None) -> int:
    return registry.heartbeat(name, f"http://{name}", f"ws://{name}", 0, 0, now, place)


def told(registry: Registry, name: str, now: float) -> list[str] | None:
    beside = registry.assignment(name, now)
    return None if beside is None else sorted(beside.neighbours)


def test_brokers_form_a_balanced_tree_in_the_order_they_came() -> None:
    registry = Registry(1.0)
    for name in ("d", "a", "c", "b"):
        beat(registry, name, 0.0)
    assert told(registry, "d", 0.0) == ["a", "c"]
    assert told(registry, "a", 0.0) == ["b", "d"]
    beside = registry.assignment("b", 0.0)
    assert beside is not None
    assert (beside.entry, beside.neighbours) == ("d", {"a": "ws://a"})


def test_one_that_died_is_cut_out_and_has_its_place_when_it_returns() -> None:
    registry = Registry(1.0)
    for name in ("a", "b", "c"):
        beat(registry, name, 0.0)
    for name in ("b", "c"):
        beat(registry, name, 3.5)
    beside = registry.assignment("b", 3.5)
    assert beside is not None
    assert (beside.entry, list(beside.neighbours)) == ("b", ["c"])
    beat(registry, "a", 4.0)
    beside = registry.assignment("b", 4.0)
    assert beside is not None
    assert (beside.entry, list(beside.neighbours)) == ("a", ["a"])


def test_one_that_left_is_cut_out_at_once_and_has_its_place_when_it_returns() -> None:
    registry = Registry(1.0)
    for name in ("a", "b", "c"):
        beat(registry, name, 0.0)
    registry.leave("a")
    assert told(registry, "b", 0.0) == ["c"]
    assert beat(registry, "a", 0.1) == 0
    assert told(registry, "a", 0.1) == ["b", "c"]


def test_brokers_beside_the_file_are_leaves_at_its_root() -> None:
    registry = Registry(1.0, GIVEN)
    for name in ("x", "b", "r", "a", "c"):
        beat(registry, name, 0.0)
    assert told(registry, "x", 0.0) == ["r"]
    assert told(registry, "r", 0.0) == ["a", "c", "x"]
    assert registry.overlay(0.0).entry == "r"


def test_of_a_file_those_who_have_not_come_are_cut_out() -> None:
    registry = Registry(1.0, GIVEN)
    for name in ("x", "b"):
        beat(registry, name, 0.0)
    assert registry.overlay(0.0).links == (("b", "x"),)
    assert registry.overlay(0.0).entry == "b"


@given(seed=st.integers(0, 2**32), given_tree=st.booleans())
def test_the_tree_depends_on_who_came_and_who_lives_alone(seed: int, given_tree: bool) -> None:
    chance = random.Random(seed)
    registry, now = Registry(1.0, GIVEN if given_tree else None), 0.0
    seen: dict[str, float] = {}
    order: list[str] = []
    for _ in range(40):
        now += chance.choice([0.0, 0.3, 1.0])
        name = chance.choice("rabcxyz")
        if chance.random() < 0.2:
            registry.leave(name)
            seen.pop(name, None)
        else:
            beat(registry, name, now)
            seen[name] = now
            if name not in order:
                order.append(name)
    alive = {name for name, at in seen.items() if now - at <= MISSED_INTERVALS}
    shown = registry.overlay(now)
    assert set(shown.brokers) == alive
    if alive and not given_tree:
        # A coordinator that starts anew knows of those who are away the places below the living.
        standing = [name if name in alive else f" {place}" for place, name in enumerate(order)]
        while standing[-1] not in alive:
            standing.pop()
        tree = without(balanced(standing), set(standing) - alive)
        assert (shown.entry, shown.links) == (tree.brokers[0], tree.links)
        for name in alive:
            assert told(registry, name, now) == tree.neighbours(name)


def test_a_coordinator_that_starts_anew_changes_nothing_of_a_tree_that_lives() -> None:
    first, now = Registry(1.0), 0.0
    places = {name: beat(first, name, now) for name in ("d", "b", "a", "c", "e")}
    before = first.overlay(now)
    again = Registry(1.0)
    for name in ("a", "e", "c", "b", "d"):  # in another order, and one by one
        now += 0.2
        assert beat(again, name, now, places[name]) == places[name]
        assert told(again, name, now) is None
    for name in places:
        beat(again, name, now + 2.9, places[name])
    assert again.overlay(now + 2.9) == before
    assert told(again, "d", now + 2.9) == ["a", "b"]


def test_a_coordinator_that_was_away_waits_for_all_before_it_tells() -> None:
    registry = Registry(1.0)
    places = {name: beat(registry, name, 0.0) for name in ("a", "b")}
    assert told(registry, "a", 0.0) == ["b"]
    beat(registry, "a", 60.0, places["a"])
    assert told(registry, "a", 60.0) is None
    beat(registry, "b", 60.9, places["b"])
    beat(registry, "a", 63.0, places["a"])
    assert told(registry, "a", 63.0) == ["b"]


def test_in_a_new_system_brokers_are_told_at_once() -> None:
    registry = Registry(1.0)
    beat(registry, "a", 0.0)
    assert told(registry, "a", 0.0) == []
    beat(registry, "b", 0.0)
    assert told(registry, "b", 0.0) == ["a"]


@given(seed=st.integers(0, 2**32), given_tree=st.booleans())
def test_coordinators_that_know_the_same_brokers_say_the_same_tree(
    seed: int, given_tree: bool
) -> None:
    """Whatever each of them heard before, of whom, and in which order."""
    chance = random.Random(seed)
    tree = GIVEN if given_tree else None
    both = [Registry(1.0, tree), Registry(1.0, tree)]
    places: dict[str, int] = {}

    def report(name: str, registry: Registry, now: float) -> None:
        places.setdefault(name, beat(registry, name, now, places.get(name)))
        if now < 1.0 and chance.random() < 0.5:  # it had not heard of its place, and asked again
            beat(chance.choice(both), name, now)

    for step in range(30):  # each hears of some, and some of them are gone later
        report(chance.choice("rabcdefxyz"), chance.choice(both), 0.1 * step)
    living = sorted(chance.sample(sorted(places), chance.randint(1, len(places))))
    for registry in both:
        for now in (100.0, 102.0, 104.0):
            for name in chance.sample(living, len(living)):
                report(name, registry, now)
    trees = [registry.overlay(104.0) for registry in both]
    assert trees[0] == trees[1]
    assert set(trees[0].brokers) == set(living)
    assert len(trees[0].links) == len(living) - 1
    for name in living:
        assert told(both[0], name, 104.0) == told(both[1], name, 104.0)


def test_a_place_far_away_costs_nothing() -> None:
    registry = Registry(1.0)
    beat(registry, "a", 0.0)
    assert beat(registry, "b", 0.0, 10**15) == 10**15
    assert told(registry, "b", 0.0) == ["a"]


def test_brokers_with_ever_new_names_do_not_add_up() -> None:
    registry = Registry(1.0)
    beat(registry, "first", 0.0)
    for number in range(3 * MOST_ABSENT):
        beat(registry, f"one-{number}", float(number))
        beat(registry, "first", float(number))
        registry.leave(f"one-{number}")
        assert told(registry, "first", float(number)) == []
    assert len(registry._overlay._places) <= MOST_ABSENT + 1
    assert beat(registry, "first", 3.0 * MOST_ABSENT) == 0
