"""Repetitive channels tick on their period; an overrun is told, never stacked."""

from hypothesis import given
from hypothesis import strategies as st

from tocsin.spark.repetition import Schedule


def test_channel_is_due_on_each_tick_of_its_period() -> None:
    schedule = Schedule()
    schedule.add("c", period_s=10, anchor_at=100, now=100)
    assert schedule.next_at() == 110
    assert schedule.due(109.9) == []
    assert schedule.due(110) == ["c"]
    assert schedule.finished("c") == 0
    assert schedule.due(110.1) == []
    assert schedule.due(120.2) == ["c"]


def test_run_longer_than_its_period_is_not_stacked_and_the_overrun_is_told() -> None:
    schedule = Schedule()
    schedule.add("c", period_s=10, anchor_at=0, now=0)
    assert schedule.due(10) == ["c"]
    assert schedule.due(20) == []
    assert schedule.due(30) == []
    assert schedule.finished("c") == 2
    assert schedule.due(33) == []
    assert schedule.due(40) == ["c"]
    assert schedule.finished("c") == 0


def test_ticks_that_passed_while_nobody_looked_count_as_overruns() -> None:
    schedule = Schedule()
    schedule.add("c", period_s=1, anchor_at=0, now=0)
    assert schedule.due(4.5) == ["c"]
    assert schedule.finished("c") == 3


def test_restart_keeps_the_ticks_of_the_channel_and_not_of_the_process() -> None:
    schedule = Schedule()
    schedule.add("c", period_s=60, anchor_at=1000, now=1000 + 3 * 60 + 17)
    assert schedule.next_at() == 1000 + 4 * 60


def test_a_clock_that_is_set_back_stops_no_channel() -> None:
    schedule = Schedule()
    schedule.add("c", period_s=10, anchor_at=10_000, now=10_000)
    assert schedule.due(10_010) == ["c"]
    schedule.finished("c")
    ran = [now for now in range(6_411, 6_432) if schedule.due(now) and schedule.finished("c") == 0]
    assert ran == [6_420, 6_430]


def test_removed_channel_is_never_due_and_may_finish_late() -> None:
    schedule = Schedule()
    schedule.add("c", period_s=1, anchor_at=0, now=0)
    assert schedule.due(1) == ["c"]
    schedule.remove("c")
    assert schedule.finished("c") == 0
    assert schedule.due(5) == []
    assert schedule.next_at() is None


@given(
    period=st.floats(0.5, 100),
    steps=st.lists(st.tuples(st.floats(0, 300), st.booleans()), max_size=30),
)
def test_every_tick_is_a_run_or_a_told_overrun(
    period: float, steps: list[tuple[float, bool]]
) -> None:
    schedule = Schedule()
    schedule.add("c", period, anchor_at=0, now=0)
    now, accounted, running = 0.0, 0, False
    for wait, finish in steps:
        now += wait
        if schedule.due(now):
            assert not running
            running = True
            accounted += 1
        if finish and running:
            accounted += schedule.finished("c")
            running = False
    if running:
        accounted += schedule.finished("c")
    assert abs(accounted - int(now / period)) <= 1


def test_a_clock_that_was_set_back_keeps_no_channel_waiting_for_the_time_it_was_made_at() -> None:
    schedule = Schedule()
    schedule.add("c", period_s=60, anchor_at=1000, now=1000 - 3600 + 17)
    assert schedule.next_at() == 1000 - 3600 + 60
