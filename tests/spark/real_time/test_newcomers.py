"""A new subscription is served by ordinary runs until Spark's real-time query looks at it."""

from __future__ import annotations

import time

from tocsin.model import ANY, Channel, Parameter
from tocsin.spark.real_time.newcomers import Batch, Newcomers

CHANNEL = Channel("c", "continuous", (Parameter("t", "STRING"),), "", ("r",), ("r",))
FLOOD = {"t": "flood"}
CLOSED: frozenset[str] = frozenset()


def newcomers() -> Newcomers:
    made = Newcomers()
    made.watch(CHANNEL, 0)
    made.arrived("c", [])
    return made


def test_newcomer_is_served_from_where_it_counts() -> None:
    here = newcomers()
    here.expect("c")
    assert here.need_run("c", 50)
    here.arrived("c", [(3, FLOOD, 40)])
    assert here.begin("c") == (40, {3: FLOOD})
    here.ran("c", {3: FLOOD}, 50)
    assert not here.need_run("c", 50)
    assert here.need_run("c", 51)


def test_batch_that_began_before_it_was_stored_does_not_take_it_over() -> None:
    here = newcomers()
    here.arrived("c", [(3, FLOOD, 40)])
    here.ran("c", {3: FLOOD}, 60)
    assert here.hand_over("c", {CLOSED: Batch(time.time() - 5, 50)}) == 0
    assert here.hand_over("c", {CLOSED: Batch(time.time(), 50)}) == 3
    assert not here.need_run("c", 99)


def test_batch_that_began_behind_what_runs_reached_does_not_take_it_over() -> None:
    here = newcomers()
    here.arrived("c", [(3, FLOOD, 40)])
    here.ran("c", {3: FLOOD}, 60)
    assert here.hand_over("c", {CLOSED: Batch(time.time(), 61)}) == 0
    here.ran("c", {3: FLOOD}, 61)
    assert here.hand_over("c", {CLOSED: Batch(time.time(), 61)}) == 3


def test_older_newcomer_with_open_parameters_holds_back_what_is_settled() -> None:
    here = newcomers()
    here.arrived("c", [(3, {"t": dict(ANY)}, 40), (4, FLOOD, 40)])
    here.ran("c", {3: {}, 4: {}}, 60)
    later = Batch(time.time(), 50)
    assert here.hand_over("c", {CLOSED: later}) == 0
    assert here.hand_over("c", {CLOSED: later, frozenset({"t"}): later}) == 4


def test_one_that_left_is_served_no_more() -> None:
    here = newcomers()
    here.arrived("c", [(3, FLOOD, 40), (4, FLOOD, 45)])
    here.arrived("c", [(4, FLOOD, 45)])
    assert here.begin("c") == (45, {4: FLOOD})


def test_clock_that_is_set_back_neither_hands_over_too_early_nor_waits_until_it_is_later() -> None:
    now = 1000.0
    here = Newcomers(lambda: now)
    here.watch(CHANNEL, 0)
    now = 10.0
    here.arrived("c", [(3, FLOOD, 40)])
    here.ran("c", {3: FLOOD}, 60)
    before_it_came = Batch(999.0, 50)  # by the clock as it was then
    assert here.hand_over("c", {CLOSED: before_it_came}) == 0
    now = 20.0
    assert here.hand_over("c", {CLOSED: Batch(15.0, 50)}) == 3
    here.arrived("c", [(4, FLOOD, 40)])
    here.ran("c", {4: FLOOD}, 60)
    now = 5.0
    assert here.hand_over("c", {CLOSED: Batch(4.0, 50)}) == 3
    now = 7.0
    assert here.hand_over("c", {CLOSED: Batch(6.0, 50)}) == 4
