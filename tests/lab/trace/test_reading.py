"""Files of traces: what is written is read; what is broken is refused with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab.trace.made import SMALL, event, publish, subscribe, trace_of
from tocsin.errors import Conflict, InvalidInput, TocsinError
from tocsin.lab.trace import EventTrace, RequestTrace, read_trace
from tocsin.lab.trace.writing import EventWriter, write_requests
from tocsin.protocol.trace import PARQUET_KEY, About

ABOUT = About(recorded_at=5.0, policy="lsc", budget_bytes=1000)


def write(path: Path, trace: EventTrace, parts: int = 1) -> Path:
    rows = max(1, len(trace) // parts)  # each part becomes a row group
    with EventWriter(path, ABOUT, rows=rows) as writer:
        for part in np.array_split(trace.records, parts):
            writer.write(part)
    return path


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return write(tmp_path / "small.parquet", trace_of(*SMALL), parts=3)


def test_what_was_written_is_read(small: Path) -> None:
    trace = read_trace(small)
    assert isinstance(trace, EventTrace)
    np.testing.assert_array_equal(trace.records, trace_of(*SMALL).records)
    assert trace.about == About(recorded_at=5.0, policy="lsc", budget_bytes=1000, duration_s=7.0)
    file = pq.ParquetFile(small)
    assert file.metadata.num_row_groups == 3
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    assert file.read().to_pylist()[4]["event"] == "publish"
    assert file.read().to_pylist()[4]["subscriber"] is None


def test_quiet_time_counts_but_takes_no_rows(tmp_path: Path) -> None:
    quiet = trace_of(subscribe(0, 0, 0, 0), event(8.5, "quiet"))
    found = read_trace(write(tmp_path / "quiet.parquet", quiet))
    assert isinstance(found, EventTrace)
    assert (len(found), found.duration_s) == (1, 8.5)


def test_requests_are_read_as_written(tmp_path: Path) -> None:
    given = RequestTrace(
        np.array([0.0, 0.5]), np.array([2**63 + 1, 7], np.uint64), np.array([10, 2**40])
    )
    write_requests(given, tmp_path / "r.parquet")
    found = read_trace(tmp_path / "r.parquet")
    assert isinstance(found, RequestTrace)
    for name in ("at_s", "object", "size_bytes"):
        np.testing.assert_array_equal(getattr(found, name), getattr(given, name))


def test_nothing_is_overwritten(small: Path) -> None:
    with pytest.raises(Conflict, match="exists already"):
        EventWriter(small, ABOUT)


def test_a_full_disk_is_told_as_such() -> None:
    with pytest.raises(InvalidInput, match="cannot write"):
        EventWriter(Path("/proc/no/trace.parquet"), ABOUT)


@pytest.mark.parametrize("kept", [4, 5, 100, 0.5, 0.9, -1])
def test_a_file_that_was_cut_off_is_refused_with_its_length(small: Path, kept: float) -> None:
    whole = small.read_bytes()
    left = int(kept if abs(kept) >= 1 else kept * len(whole)) % len(whole)
    small.write_bytes(whole[:left])
    with pytest.raises(InvalidInput, match=f"cut off: at byte {left} its footer is missing"):
        read_trace(small)


def test_a_damaged_page_is_named_by_its_row_group_and_byte(small: Path) -> None:
    group = pq.ParquetFile(small).metadata.row_group(1)
    begin = group.column(0).dictionary_page_offset or group.column(0).data_page_offset
    content = bytearray(small.read_bytes())
    content[begin + group.column(0).total_compressed_size - 3] ^= 0xFF
    small.write_bytes(content)
    with pytest.raises(InvalidInput, match=rf"row group 1 \(records 5 to 9, from byte {begin}\)"):
        read_trace(small)


def _table(path: Path, **columns: Any) -> Path:
    """The file with other columns, by Parquet's own means."""
    file = pq.ParquetFile(path)
    table = file.read()
    for name, values in columns.items():
        place = table.column_names.index(name)
        table = (
            table.remove_column(place)
            if values is None
            else table.set_column(place, name, pa.array(values))
        )
    label = {PARQUET_KEY: file.metadata.metadata[PARQUET_KEY]}
    pq.write_table(table.replace_schema_metadata(label), path)
    return path


def test_wrong_columns_are_named(small: Path) -> None:
    with pytest.raises(InvalidInput, match="has no column misses"):
        read_trace(_table(small, misses=None))


def test_wrong_types_are_named(small: Path) -> None:
    with pytest.raises(InvalidInput, match="column hits is of string, not int64"):
        read_trace(_table(small, hits=["many"] * len(SMALL)))


def test_missing_numbers_are_named(small: Path) -> None:
    holes: list[int | None] = [0] * len(SMALL)
    holes[7] = None
    with pytest.raises(InvalidInput, match="record 7 has no hits"):
        read_trace(_table(small, hits=holes))


def test_an_unknown_event_is_named(small: Path) -> None:
    words = ["subscribe"] * 3 + ["dance"] + ["ack"] * (len(SMALL) - 4)
    with pytest.raises(InvalidInput, match=r"record 3 .*no event is of that kind"):
        read_trace(_table(small, event=words))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "empty: it has 0 bytes"),
        (b"hello, this is no Parquet file", "no Parquet file"),
        (b"PAR1" + b"x" * 30 + b"PAR1", "footer"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes, told: str) -> None:
    file = tmp_path / "other.parquet"
    file.write_bytes(content)
    with pytest.raises(InvalidInput, match=told):
        read_trace(file)


def test_other_parquet_files_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    with pytest.raises(InvalidInput, match="not a trace of ours"):
        read_trace(tmp_path / "a.parquet")
    with pytest.raises(InvalidInput, match="there is no file"):
        read_trace(tmp_path / "b.parquet")


def test_a_trace_without_events_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="the trace is empty"):
        read_trace(write(tmp_path / "none.parquet", trace_of()))


def test_the_false_record_of_a_file_is_named_with_the_file(tmp_path: Path) -> None:
    file = write(tmp_path / "false.parquet", trace_of(subscribe(0, 0, 0, 0), publish(1, 0, 1, -4)))
    with pytest.raises(InvalidInput, match=r"false.parquet: record 1 .*negative"):
        read_trace(file)


@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.integers(0, 10**6), st.integers(1, 255), st.integers(1, 40))
def test_no_damage_ends_in_anything_but_a_clear_error(
    small: Path, place: int, change: int, length: int
) -> None:
    """Either the damage is noticed, or it was where it does no harm."""
    whole = small.read_bytes()
    damaged = bytearray(whole)
    place %= len(whole)
    for at in range(place, min(place + length, len(whole))):
        damaged[at] ^= change
    copy = small.with_name("damaged.parquet")
    copy.write_bytes(damaged)
    try:
        found = read_trace(copy)
    except TocsinError as error:
        told = error.message
    else:
        assert isinstance(found, EventTrace)
        np.testing.assert_array_equal(found.records, trace_of(*SMALL).records)
        told = "damaged.parquet"
    assert "damaged.parquet" in told
