"""A recording that was not finished: read as far as it goes, never in half, never when damaged."""

from __future__ import annotations

import resource
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from lab.trace.made import SMALL, event, trace_of
from tocsin.errors import InvalidInput
from tocsin.lab.trace import EventTrace, read_trace
from tocsin.lab.trace.writing import EVERY_S, EventWriter
from tocsin.protocol.trace import About

ABOUT = About(recorded_at=5.0, policy="lsc", budget_bytes=1000)
RECORDS = trace_of(*SMALL).records
BLOCK = 5  # records


def grown(path: Path, blocks: int = 3) -> EventWriter:
    writer = EventWriter(path, ABOUT, rows=BLOCK)
    for number in range(blocks):
        writer.write(RECORDS[number * BLOCK : (number + 1) * BLOCK])
    return writer


def unfinished(path: Path) -> EventTrace:
    trace = read_trace(path)
    assert isinstance(trace, EventTrace)
    return trace


def test_what_reached_the_file_is_read_and_called_unfinished(tmp_path: Path) -> None:
    writer = grown(tmp_path / "t.parquet", blocks=2)
    trace = unfinished(tmp_path / "t.parquet")
    np.testing.assert_array_equal(trace.records, RECORDS[: 2 * BLOCK])
    assert trace.about == About(
        recorded_at=5.0, policy="lsc", budget_bytes=1000, duration_s=4.0, finished=False
    )
    writer.write(RECORDS[2 * BLOCK :])
    writer.close()
    whole = unfinished(tmp_path / "t.parquet")
    np.testing.assert_array_equal(whole.records, RECORDS)
    assert whole.about.finished
    assert pq.ParquetFile(tmp_path / "t.parquet").metadata.num_row_groups == 3
    assert [one.name for one in tmp_path.iterdir()] == ["t.parquet"]


def test_what_came_reaches_the_file_within_seconds_quiet_time_too(tmp_path: Path) -> None:
    now = 0.0
    writer = EventWriter(tmp_path / "t.parquet", ABOUT, clock=lambda: now)
    writer.write(RECORDS[:4])
    with pytest.raises(InvalidInput, match="the trace is empty"):
        read_trace(tmp_path / "t.parquet")
    now += EVERY_S
    writer.write(RECORDS[4:5])
    assert len(unfinished(tmp_path / "t.parquet")) == 5
    now += EVERY_S
    writer.write(trace_of(event(9.0, "quiet")).records)
    found = unfinished(tmp_path / "t.parquet")
    assert (len(found), found.duration_s) == (5, 9.0)
    assert EVERY_S <= 3


def test_a_journal_cut_anywhere_is_read_up_to_its_last_whole_block(tmp_path: Path) -> None:
    grown(tmp_path / "t.parquet")
    whole = (tmp_path / "t.parquet").read_bytes()
    lengths = []
    for kept in range(len(whole) + 1):
        (tmp_path / "cut.parquet").write_bytes(whole[:kept])
        try:
            trace = unfinished(tmp_path / "cut.parquet")
        except InvalidInput:  # nothing was recorded by then
            lengths.append(0)
        else:
            np.testing.assert_array_equal(trace.records, RECORDS[: len(trace)])
            assert not trace.about.finished
            lengths.append(len(trace))
    assert sorted(set(lengths)) == [0, BLOCK, 2 * BLOCK, 3 * BLOCK]
    assert lengths == sorted(lengths)


@pytest.mark.parametrize("change", [0x01, 0x80, 0xFF])
def test_a_journal_damaged_anywhere_is_refused(tmp_path: Path, change: int) -> None:
    grown(tmp_path / "t.parquet")
    whole = (tmp_path / "t.parquet").read_bytes()
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= change
        (tmp_path / "damaged.parquet").write_bytes(damaged)
        told = "its block from byte" if place >= 4 else "no Parquet file"
        with pytest.raises(InvalidInput, match=f"damaged.parquet is .*{told}"):
            read_trace(tmp_path / "damaged.parquet")


def test_a_full_disk_leaves_what_was_recorded(tmp_path: Path) -> None:
    """The limit on a file's size stands in for the disk's."""
    writer = grown(tmp_path / "t.parquet", blocks=2)
    room_bytes = (tmp_path / "t.parquet").stat().st_size + 20
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room_bytes, before[1]))
    try:
        with pytest.raises(InvalidInput, match="cannot write"):
            writer.write(RECORDS[2 * BLOCK :])
        with pytest.raises(InvalidInput, match="cannot write"):
            writer.close()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    np.testing.assert_array_equal(unfinished(tmp_path / "t.parquet").records, RECORDS[: 2 * BLOCK])
    assert [one.name for one in tmp_path.iterdir()] == ["t.parquet"]
