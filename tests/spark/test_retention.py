"""What is kept for a time is kept for that time, whatever somebody sets the clock to."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tocsin.clock import DOUBT_S, Clock
from tocsin.model import Channel, Dataset, Parameter
from tocsin.settings import Settings
from tocsin.spark.housekeeping import Housekeeping
from tocsin.storage.log import open_log
from tocsin.storage.store.runs import Run
from tocsin.storage.store.store import Store

DAY = 24 * 3600.0
KEPT_S = 7 * DAY
CHANNEL = Channel("c", "continuous", (Parameter("t", "STRING"),), "", ("r",), ("r",))


class Place:
    """A cluster's store and clock, without Spark; its machine's clocks are the test's."""

    def __init__(self, directory: Path) -> None:
        self.wall, self.steady = time.time(), 5000.0
        self.store = Store.open(f"sqlite:///{directory}/store.db")
        self.swept = 0
        if not self.store.catalog.channels():
            self.store.catalog.create_dataset(Dataset("r", ()))
            self.store.catalog.create_channel(CHANNEL)
        self.begin()

    def begin(self) -> None:
        """As a cluster does that starts."""
        self.clock = Clock(
            lambda: self.wall, lambda: self.steady, boot="b", left=self.store.clock_mark()
        )
        self.store.use_clock(self.clock.now)

    def passes(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds

    def finds(self) -> int:
        """A result; of which backend subscription."""
        made, _ = self.store.subscriptions.subscribe("ann", "c", {"t": "flood"}, None)
        now = self.store.now()
        run = Run("c", f"run-{now!r}", now, now)
        assert self.store.runs.commit_run(run, [(made.backend.id, b"{}")])
        return made.backend.id

    def expires(self) -> None:
        unused: Any = None
        Housekeeping(
            Settings(result_retention_s=KEPT_S),
            self.store,
            unused,
            self,  # type: ignore[arg-type]
            unused,
            dict,
            bool,
            self.clock,
        )._expire()

    def kept(self, backend: int) -> int:
        return len(self.store.results.read(backend, 0, 99, 99).results)

    @property
    def tables(self) -> Place:
        return self

    def oldest_us(self) -> None:
        return None

    def sweep(self, *, pinned_us: int | None = None) -> None:
        self.swept += 1


@pytest.fixture
def place(tmp_path: Path) -> Any:
    made = Place(tmp_path)
    yield made
    made.store.close()


def test_results_expire_when_their_time_has_passed(place: Place) -> None:
    backend = place.finds()
    place.passes(KEPT_S - 1)
    place.expires()
    assert place.kept(backend) == 1
    place.passes(2)
    place.expires()
    assert place.kept(backend) == 0
    assert place.swept == 2


@pytest.mark.parametrize("restarts", [False, True])
def test_a_clock_that_jumps_ahead_deletes_nothing_until_it_was_long_believed(
    place: Place, restarts: bool
) -> None:
    backend = place.finds()
    place.expires()
    place.wall += 100 * DAY
    if restarts:
        place.begin()
    place.expires()
    assert place.kept(backend) == 1
    place.passes(DOUBT_S / 2)
    place.expires()
    assert place.kept(backend) == 1
    place.passes(DOUBT_S)
    place.expires()
    assert place.kept(backend) == 0


@pytest.mark.parametrize("step_s", [-3600.0, -100 * DAY])
def test_cuts_and_records_get_later_times_after_the_clock_was_set_back(
    tmp_path: Path, place: Place, step_s: float
) -> None:
    """Else the windows of a channel would be empty, and its runs taken for repeats."""
    with open_log(tmp_path / "log", segment_bytes=10_000, clock=place.clock.now) as log:
        log.open_dataset("reports")
        first = log.cut()
        place.wall += step_s
        times = [first.at_us]
        for number in range(3):
            place.passes(10)
            log.append("reports", [b"{}"], f"{number}").result()
            times.append(log.cut().at_us)
        assert all(later - earlier >= 8_000_000 for earlier, later in pairwise(times))
