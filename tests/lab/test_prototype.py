"""The prototype experiment: what is played, and what is predicted from a recording of it."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from lab.trace.made import SMALL, trace_of
from tocsin.demo.driver import Course
from tocsin.demo.show import Show
from tocsin.errors import InvalidInput, SettingError
from tocsin.lab.prototype.comparison import Measured, Point, points_of, predict, run_prototype
from tocsin.lab.prototype.report import PICTURE, TABLE, write_prototype
from tocsin.settings import Settings


def measured(policy: str, size_bytes: int, latency_mean_ms: float) -> Measured:
    return Measured(
        policy=policy,
        size_bytes=size_bytes,
        delivered=10,
        promises_held=True,
        hit_ratio=0.5,
        fetched_bytes=100,
        latency_mean_ms=latency_mean_ms,
        latency_p99_ms=100.0,
        fetch_ms=20.0,
    )


def test_the_run_without_a_cache_comes_first_and_once() -> None:
    points = points_of(["none", "lsc", "lru"], [100, 200])
    assert points[0] == Point("none", 0)
    assert points[1:] == [Point(p, size) for size in (100, 200) for p in ("lsc", "lru")]


def test_policies_are_read_before_anything_is_played() -> None:
    with pytest.raises(SettingError, match="'nonsense'"):
        points_of(["lsc", "nonsense"], [100])
    with pytest.raises(InvalidInput, match="no policy with a cache"):
        points_of(["none"], [100])


def test_a_recording_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "broker_1.trace.parquet").touch()
    with pytest.raises(InvalidInput, match="holds a recording already"):
        run_prototype(Course(), Settings(), [Point("lsc", 1)], tmp_path, Show(Console(quiet=True)))


def test_all_runs_are_predicted_from_the_recordings_of_all_brokers() -> None:
    # With room for all, whatever was published while its reader was attached is a hit; without a
    # cache everything is missed and waits for a fetch of 20 ms. What is left of the measured
    # latency, (45 − 20 + 15 − 0) / 2 = 20 ms, is the way from broker to screen.
    runs = [measured("none", 0, 45.0), measured("lsc", 10**6, 15.0)]
    nothing, everything = predict(runs, [trace_of(*SMALL), trace_of(*SMALL)])
    assert (nothing.predicted.hit_ratio, everything.predicted.hit_ratio) == (0.0, 1.0)
    assert nothing.predicted.latency_mean_ms == pytest.approx(40.0, abs=0.01)
    assert everything.predicted.latency_mean_ms == pytest.approx(20.0, abs=0.01)
    published_bytes = 100 + 200 + 50 + 300
    assert everything.predicted.fetched_bytes == 2 * published_bytes
    assert everything.measured == runs[1]


def test_gets_are_predicted_when_they_came_and_at_once() -> None:
    # 650 bytes do not fit into 600: the first result has gone when subscriber 1 comes. Subscriber 0
    # never asked for the second, which the simulator has it take at once.
    (row,) = predict([measured("lsc", 600, 15.0)], [trace_of(*SMALL)])
    assert row.predicted.hit_ratio == 4 / 5
    assert row.predicted.at_once_hit_ratio == 5 / 6


def test_the_table_and_the_picture_are_left(tmp_path: Path) -> None:
    runs = [measured("none", 0, 45.0), measured("lsc", 1000, 15.0), measured("lru", 1000, 15.0)]
    rows = predict(runs, [trace_of(*SMALL)])
    write_prototype(rows, tmp_path)
    table = pq.read_table(tmp_path / TABLE).to_pylist()
    assert [row["policy"] for row in table] == ["none", "lsc", "lru"]
    assert table[1]["predicted_hit_ratio"] == rows[1].predicted.hit_ratio
    assert (tmp_path / PICTURE).stat().st_size > 10_000
