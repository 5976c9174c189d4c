"""A trace that cannot be true is refused, with the record's number and the reason."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from lab.trace.made import SMALL, event, get, publish, subscribe, trace_of
from tocsin.errors import InvalidInput


def test_a_true_trace_is_accepted_and_counted() -> None:
    trace = trace_of(*SMALL, duration_s=9.0)
    trace.check()
    assert trace.duration_s == 9.0
    assert trace.counts()["publish"] == 4
    live = trace.live()
    assert (live.gets, live.gets_with_miss, live.hits, live.misses) == (3, 1, 4, 1)
    assert (live.hit_bytes, live.miss_bytes) == (650, 100)
    assert live.hit_ratio == 4 / 5


def test_what_was_sent_at_its_arrival_counts_as_served() -> None:
    live = trace_of(
        subscribe(0, 0, 0, 0),
        publish(1, 0, 1, 10, hits=3, hit_bytes=30),
        get(2, 0, 0, 0, 1, misses=1, miss_bytes=10),
    ).live()
    assert (live.sent, live.sent_bytes, live.hit_ratio) == (3, 30, 3 / 4)


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (event(6.5, "arrive", subscriber=5), "record 15 .*before the previous"),
        (event(float("nan"), "arrive", subscriber=5), "record 15 .*not a number of seconds"),
        (event(8, "dance", subscriber=5), "record 15 .*no event is of that kind"),
        (publish(8, 0, 4, -1), "record 15 .*size_bytes is negative"),
        (publish(8, 0, 4, 1, after=4), "record 15 .*positions are none"),
        (publish(8, 0, 3, 1), "record 15 .*a later position"),
        (event(8, "arrive"), "record 15 .*names no subscriber"),
        (event(8, "arrive", subscriber=1), "subscriber 1 is online already"),
        (event(8, "leave", subscriber=0), "subscriber 0 is not online"),
        (event(8, "unsubscribe", subscription=2), "subscription 2 is not subscribed"),
        (event(8, "unsubscribe", subscription=77), "subscription 77 is not subscribed"),
        (subscribe(8, 0, 0, 0), "subscription 0 is subscribed already"),
        (get(8, 1, 2, 1, 1, hits=1), "subscription 2 is not subscribed"),
        (get(8, 1, 1, 0, 1, hits=-1), "hits is negative"),
        (
            event(8, "ack", subscriber=1, subscription=9, backend=0),
            "subscription 9 is not subscribed",
        ),
    ],
)
def test_a_false_record_is_named(wrong: Any, told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        trace_of(*SMALL, wrong).check()


def test_an_empty_trace_is_refused() -> None:
    with pytest.raises(InvalidInput, match="empty"):
        trace_of().check()


def test_the_first_false_record_is_named_when_there_are_several() -> None:
    trace = trace_of(*SMALL, subscribe(8, 0, 0, 0), subscribe(8, 0, 0, 0))
    assert np.all(np.diff(trace.records["at_s"]) >= 0)
    with pytest.raises(InvalidInput, match="record 15"):
        trace.check()
