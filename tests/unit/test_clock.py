"""Whatever happens to the wall clock, times that are written down go forward, and nothing is
deleted that is younger than it must become."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from tocsin.clock import DOUBT_S, TOLERANCE_S, Clock, ClockMark

HOUR = 3600.0


class Machine:
    """Its steady clock goes on; somebody sets its wall clock."""

    def __init__(self, wall: float = 1_700_000_000.0, boot: str = "one") -> None:
        self.wall, self.steady, self.boot = wall, 1000.0, boot

    def clock(self, left: ClockMark | None = None, doubt_s: float = DOUBT_S) -> Clock:
        return Clock(
            lambda: self.wall, lambda: self.steady, boot=self.boot, left=left, doubt_s=doubt_s
        )

    def passes(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds

    def is_set(self, by: float) -> None:
        self.wall += by


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_a_clock_that_nobody_sets_is_the_wall_clock(machine: Machine) -> None:
    clock = machine.clock()
    machine.passes(5 * HOUR)
    assert clock.now() == clock.trusted() == machine.wall
    assert clock.ahead_s == 0


def test_after_a_step_back_time_goes_on_until_the_wall_clock_has_caught_up(
    machine: Machine,
) -> None:
    clock = machine.clock()
    before = clock.now()
    machine.is_set(-HOUR)
    machine.passes(60)
    assert before + 50 < clock.now() < before + 60
    machine.passes(11 * HOUR)
    assert clock.now() == machine.wall


def test_a_step_forward_makes_nothing_old(machine: Machine) -> None:
    clock = machine.clock()
    began = clock.trusted()
    machine.is_set(100 * 24 * HOUR)
    machine.passes(60)
    with capture_logs() as lines:
        assert clock.trusted() == began + 60
        assert clock.trusted() == began + 60
    assert [line["log_level"] for line in lines] == ["warning"]
    assert lines[0]["ahead_s"] == 100 * 24 * HOUR
    assert clock.ahead_s == 100 * 24 * HOUR
    machine.is_set(-100 * 24 * HOUR)
    machine.passes(60)
    assert clock.trusted() == machine.wall == began + 120
    assert clock.ahead_s == 0


def test_a_clock_that_keeps_to_its_opinion_for_long_enough_is_believed(machine: Machine) -> None:
    clock = machine.clock()
    machine.is_set(100 * HOUR)
    clock.trusted()
    machine.passes(DOUBT_S - 1)
    clock.trusted()
    machine.is_set(2 * TOLERANCE_S)  # another opinion
    machine.passes(1)
    assert clock.trusted() < machine.wall
    machine.passes(DOUBT_S)
    assert clock.trusted() == machine.wall


def test_the_time_that_passed_while_nobody_ran_is_known_on_the_same_boot(machine: Machine) -> None:
    mark = machine.clock().mark()
    machine.passes(50 * HOUR)
    assert machine.clock(mark).trusted() == machine.wall
    machine.is_set(50 * HOUR)
    assert machine.clock(mark).trusted() == machine.wall - 50 * HOUR


def test_after_another_boot_a_clock_is_doubted_for_a_while(machine: Machine) -> None:
    mark = machine.clock().mark()
    other = Machine(machine.wall + 50 * HOUR, boot="two")
    clock = other.clock(mark)
    assert clock.trusted() == mark.trusted
    other.passes(DOUBT_S)
    assert clock.trusted() == other.wall
    assert other.clock(mark, doubt_s=0).trusted() == other.wall  # somebody has confirmed it


def test_times_that_were_written_down_are_not_given_again(machine: Machine) -> None:
    clock = machine.clock()
    ahead = machine.wall + HOUR
    clock.reach(ahead)
    machine.passes(10)
    assert clock.now() > ahead
    clock.reach(0)
    assert clock.now() > ahead


@pytest.mark.parametrize("boot", ["", "b00t"])
def test_a_mark_is_read_as_it_was_written(boot: str) -> None:
    mark = ClockMark(1_700_000_000.25, 12.5, boot)
    assert ClockMark.decode(mark.encode()) == mark


EVENTS = st.lists(
    st.tuples(
        st.floats(0.001, 2000),  # so much time passes
        st.one_of(st.just(0.0), st.floats(-1e6, 1e6)),  # then somebody sets the wall clock
        st.sampled_from(["", "looks", "restarts"]),
    ),
    max_size=40,
)


@given(EVENTS, st.floats(10, 1e5))
def test_nothing_is_deleted_that_is_younger_than_its_retention_by_steady_time(
    events: list[tuple[float, float, str]], retention_s: float
) -> None:
    """As long as no clock is believed in the end, which the time of doubt forbids here."""
    machine = Machine()
    clock = machine.clock(doubt_s=float("inf"))
    stamped: list[tuple[float, float]] = []
    for passing_s, step_s, what in events:
        machine.passes(passing_s)
        machine.is_set(step_s)
        stamped.append((clock.now(), machine.steady))
        if what == "restarts":
            mark = ClockMark.decode(clock.mark().encode())
            clock = machine.clock(mark, doubt_s=float("inf"))
        if what:
            before = clock.trusted() - retention_s
            deleted = [steady for at, steady in stamped if at < before]
            assert all(machine.steady - steady > retention_s - 1e-3 for steady in deleted)


@given(EVENTS)
def test_windows_follow_each_other_without_overlap_or_hole_and_go_on(
    events: list[tuple[float, float, str]],
) -> None:
    machine = Machine()
    clock = machine.clock()
    ends = [clock.now()]
    for passing_s, step_s, what in events:
        machine.passes(passing_s)
        machine.is_set(step_s)
        if what == "restarts":
            clock = machine.clock(clock.mark())
            clock.reach(ends[-1])
            machine.passes(0.001)
            passing_s = 0.001
        ends.append(clock.now())
        assert ends[-1] >= ends[-2] + 0.5 * passing_s
