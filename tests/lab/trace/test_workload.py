"""Traces become workloads: the same events, and what the model needs to know."""

from __future__ import annotations

import pytest

from lab.trace.made import SMALL, event, get, publish, subscribe, trace_of
from tocsin.errors import InvalidInput
from tocsin.lab.simulators.result_cache.simulator import simulate
from tocsin.lab.trace.workload import to_workload
from tocsin.lab.workloads.workload import OFFLINE, ONLINE, PUBLISH, SUBSCRIBE, UNSUBSCRIBE
from tocsin.policies import parse_policy


def test_a_trace_by_hand() -> None:
    workload = to_workload(trace_of(*SMALL, duration_s=10.0))
    rows = list(
        zip(
            workload.at.tolist(),
            workload.kind.tolist(),
            workload.subject.tolist(),
            workload.value.tolist(),
            strict=True,
        )
    )
    assert rows == [
        (0, SUBSCRIBE, 0, 0),
        (0, SUBSCRIBE, 1, 0),
        (0, SUBSCRIBE, 2, 1),
        (0, ONLINE, 0, 0),
        (1, PUBLISH, 0, 100),
        (2, PUBLISH, 0, 200),
        (3, PUBLISH, 1, 50),
        (4, OFFLINE, 0, 0),
        (5, PUBLISH, 0, 300),
        (6, ONLINE, 1, 0),
        (7, UNSUBSCRIBE, 2, 0),
    ]
    assert workload.owners.tolist() == [0, 1, 1]
    assert (workload.backends, workload.subscribers, workload.duration_s) == (2, 2, 10.0)
    # Enough room: subscriber 0 took two at once, subscriber 1 finds its four cached.
    outcome = simulate(workload, parse_policy("lru"), 10_000)
    assert (outcome.hits, outcome.misses) == (6, 0)


def test_a_get_without_a_connection_is_a_short_visit() -> None:
    workload = to_workload(
        trace_of(
            subscribe(0, 0, 0, 0),
            publish(1, 0, 1, 10),
            get(2, 0, 0, 0, 1, hits=1, hit_bytes=10),
            event(3, "arrive", subscriber=0),
            publish(3, 0, 2, 10),
            get(3, 0, 0, 0, 2, hits=1, hit_bytes=10),
            event(4, "leave", subscriber=0),
            publish(5, 0, 3, 10),
            get(6, 0, 0, 0, 3, hits=1, hit_bytes=10),
        )
    )
    presence = [
        (at, kind)
        for at, kind in zip(workload.at.tolist(), workload.kind.tolist(), strict=True)
        if kind in (ONLINE, OFFLINE)
    ]
    assert presence == [
        (2, ONLINE),
        (2, OFFLINE),
        (3, ONLINE),
        (4, OFFLINE),
        (6, ONLINE),
        (6, OFFLINE),
    ]
    assert simulate(workload, parse_policy("lru"), 1000).hits == 3


def test_numbers_of_a_trace_may_be_any() -> None:
    workload = to_workload(
        trace_of(
            subscribe(0, 2_000_000_000, 77, 1_999_999_999),
            event(1, "arrive", subscriber=2_000_000_000),
            publish(2, 1_999_999_999, 5, 10),
        )
    )
    assert workload.subject.tolist() == [0, 0, 0]
    assert (workload.backends, workload.subscribers, workload.owners.tolist()) == (1, 1, [0])


def test_an_object_beyond_the_simulators_numbers_is_named() -> None:
    with pytest.raises(InvalidInput, match=r"record 1 .*above 2147483647"):
        to_workload(trace_of(subscribe(0, 0, 0, 0), publish(1, 0, 1, 2**31)))


def test_a_trace_without_subscriptions_or_sizes_cannot_be_played() -> None:
    with pytest.raises(InvalidInput, match="nobody is subscribed"):
        to_workload(trace_of(publish(1, 0, 1, 10)))
    with pytest.raises(InvalidInput, match="tells no object's size"):
        to_workload(trace_of(subscribe(0, 0, 0, 0), publish(1, 0, 1, 0)))
