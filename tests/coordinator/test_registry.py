from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.coordinator import Registry
from tocsin.errors import InvalidInput, Unavailable


def beat(registry: Registry, name: str, now: float, connections: int = 0) -> None:
    registry.heartbeat(name, f"http://{name}", f"ws://{name}", connections, 0, now)


def test_the_least_loaded_live_broker_is_chosen() -> None:
    registry = Registry(1.0)
    beat(registry, "a", 0.0, connections=5)
    beat(registry, "b", 0.0, connections=2)
    beat(registry, "c", 0.0, connections=9)
    assert registry.choose(0.5).name == "b"


def test_equal_brokers_are_chosen_by_name_whatever_the_order_of_arrival() -> None:
    registry = Registry(1.0)
    for name in ("c", "a", "b"):
        beat(registry, name, 0.0)
    assert [registry.choose(0.1).name for _ in range(4)] == ["a", "b", "c", "a"]


def test_a_broker_is_dead_after_three_missed_heartbeats_and_not_before() -> None:
    registry = Registry(1.0)
    beat(registry, "a", 10.0)
    assert registry.choose(13.0).name == "a"
    with pytest.raises(Unavailable):
        registry.choose(13.01)
    (seen,) = registry.brokers(13.01)
    assert not seen.alive
    beat(registry, "a", 14.0)
    assert registry.choose(14.0).name == "a"


def test_a_broker_that_left_is_not_chosen() -> None:
    registry = Registry(1.0)
    beat(registry, "a", 0.0)
    registry.leave("a")
    registry.leave("a")
    with pytest.raises(Unavailable):
        registry.choose(0.0)
    assert registry.brokers(0.0) == []


def test_an_excluded_broker_is_avoided_while_another_lives() -> None:
    registry = Registry(1.0)
    beat(registry, "a", 0.0)
    beat(registry, "b", 0.0, connections=50)
    assert registry.choose(0.0, exclude=["a"]).name == "b"


def test_the_only_live_broker_is_chosen_even_if_excluded() -> None:
    registry = Registry(1.0)
    beat(registry, "a", 0.0)
    assert registry.choose(0.0, exclude=["a"]).name == "a"


def test_clients_sent_just_before_a_heartbeat_still_count_after_it() -> None:
    registry = Registry(1.0)
    beat(registry, "a", 0.0)
    beat(registry, "b", 0.0)
    for _ in range(2):
        registry.choose(0.9)  # one to each; neither has connected yet
    registry.choose(0.95)  # a
    beat(registry, "a", 1.0)
    beat(registry, "b", 1.0)
    assert registry.choose(1.0).name == "b"


def test_assignments_are_forgotten_once_connections_count_them() -> None:
    registry = Registry(1.0)
    beat(registry, "a", 0.0)
    beat(registry, "b", 0.0, connections=3)
    for _ in range(3):
        assert registry.choose(0.0).name == "a"
    beat(registry, "a", 1.5, connections=1)  # two of the three are gone again
    beat(registry, "b", 1.5, connections=3)
    assert registry.choose(1.5).name == "a"


def test_a_nameless_broker_is_refused() -> None:
    with pytest.raises(InvalidInput):
        beat(Registry(1.0), "", 0.0)


@given(
    loads=st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 40), min_size=1),
    burst=st.integers(1, 200),
)
def test_a_burst_between_two_heartbeats_levels_the_load(loads: dict[str, int], burst: int) -> None:
    registry = Registry(1.0)
    for name, load in loads.items():
        beat(registry, name, 0.0, load)
    got = Counter(registry.choose(0.5).name for _ in range(burst))
    after = {name: load + got[name] for name, load in loads.items()}
    for name in got:  # nobody was given a client that a much less loaded broker should have had
        assert after[name] - 1 <= min(after.values())
