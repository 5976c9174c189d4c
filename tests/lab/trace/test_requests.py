"""Deliveries as requests: one an object and person, with the object's size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lab.trace.made import SMALL, get, publish, subscribe, trace_of
from tocsin.errors import InvalidInput
from tocsin.lab.trace import RequestTrace
from tocsin.lab.trace.requests import deliveries


def asked(trace: RequestTrace) -> list[tuple[float, int, int]]:
    rows = zip(trace.at_s.tolist(), trace.object.tolist(), trace.size_bytes.tolist(), strict=True)
    return list(rows)


def test_deliveries_by_hand() -> None:
    requests = deliveries(trace_of(*SMALL))
    requests.check()
    one, two, three, other = 0, 1, 2, 3  # of backend subscription 0, and of 1
    assert asked(requests) == [
        (1, one, 100),
        (6, one, 100),
        (6, two, 200),
        (6, three, 300),
        (6, other, 50),
    ]


def test_what_is_sent_at_its_arrival_is_a_request_for_each_who_hears() -> None:
    trace = trace_of(subscribe(0, 0, 0, 0), publish(1, 0, 1, 10, hits=3, hit_bytes=30))
    assert asked(deliveries(trace)) == [(1, 0, 10)] * 3


def test_objects_from_before_the_recording_have_their_gets_average_size() -> None:
    trace = trace_of(
        subscribe(0, 0, 0, 0),
        publish(1, 0, 1, 10),
        get(2, 0, 0, 0, 1, hits=1, hit_bytes=10, misses=2, miss_bytes=200),
    )
    assert asked(deliveries(trace)) == [(2, 0, 70), (2, 1, 70), (2, 2, 10)]


def test_without_deliveries_there_are_no_requests() -> None:
    with pytest.raises(InvalidInput, match="nothing was delivered"):
        deliveries(trace_of(subscribe(0, 0, 0, 0), publish(1, 0, 1, 10)))


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([], "empty"),
        ([(1, 1, 10), (0, 1, 10)], "record 1 .*before the previous"),
        ([(0, 1, 10), (0, 1, 0)], "record 1 .*size_bytes is not above 0"),
        ([(-1, 1, 10)], "record 0 .*not a number of seconds"),
    ],
)
def test_false_requests_are_named(rows: list[Any], told: str) -> None:
    columns = np.array(rows, float).reshape(-1, 3).T
    trace = RequestTrace(columns[0], columns[1].astype(np.uint64), columns[2].astype(np.int64))
    with pytest.raises(InvalidInput, match=told):
        trace.check()
