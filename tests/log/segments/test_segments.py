"""Segment files: their boundaries, torn tails, the heads file and the lock."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log.media import Gate
from tocsin.errors import Conflict, Gone, Unavailable
from tocsin.protocol.log_line import encode
from tocsin.storage.log import PublicationLog
from tocsin.storage.log.segments import Segments, read_heads, read_lines, segments
from tocsin.storage.log.segments.disk import Disk
from tocsin.storage.log.segments.names import segment_name


def log_at(
    directory: Path, *, segment_bytes: int = 200, disk: Disk | None = None, **options: Any
) -> PublicationLog:
    return PublicationLog(Segments(directory, segment_bytes=segment_bytes, disk=disk), **options)


def contents(directory: Path, dataset: str = "reports") -> list[Any]:
    end = read_heads(directory)[dataset]
    return [json.loads(body)["r"] for _, body in read_lines(directory, dataset, 0, end)]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[PublicationLog]:
    with log_at(tmp_path) as opened:
        opened.open_dataset("reports")
        yield opened


def test_ranges_are_half_open_across_segments(log: PublicationLog, tmp_path: Path) -> None:
    for n in range(30):
        log.append("reports", [b'{"n":%d}' % n]).result()
    end = log.ends()["reports"]
    places = [p for p, _ in read_lines(tmp_path, "reports", 0, end)] + [end]
    assert len(list(tmp_path.glob("reports/*.log"))) > 3
    for a, b in itertools.combinations(range(len(places)), 2):
        got = [p for p, _ in read_lines(tmp_path, "reports", places[a], places[b])]
        assert got == places[a:b]
    assert list(read_lines(tmp_path, "reports", end, end)) == []


def test_segments_are_the_files_that_overlap(log: PublicationLog, tmp_path: Path) -> None:
    ends = [0]
    for n in range(3):
        log.append("reports", [b'{"n":%d}' % n]).result()
        ends.append(log.roll("reports"))
    names = [tmp_path / "reports" / segment_name(e) for e in ends]
    assert segments(tmp_path, "reports", 0, ends[3]) == names[:3]
    assert segments(tmp_path, "reports", ends[1], ends[2]) == names[1:2]
    assert segments(tmp_path, "reports", ends[1] + 1, ends[2] + 1) == names[1:3]
    assert segments(tmp_path, "reports", ends[1], ends[1]) == []


def test_what_many_publishers_send_at_once_fills_several_segments(tmp_path: Path) -> None:
    disk = Gate()
    with log_at(tmp_path, disk=disk) as log:
        log.open_dataset("reports")
        disk.opened.clear()
        waiting = [log.append("reports", [b'{"n":%d}' % n]) for n in range(100)]
        disk.opened.set()
        assert [future.result().first for future in waiting] == [
            p for p, _ in read_lines(tmp_path, "reports", 0, log.ends()["reports"])
        ]
    sizes = [segment.stat().st_size for segment in tmp_path.glob("reports/*.log")]
    assert len(sizes) > 5
    assert max(sizes) < 600


def test_rolling_an_empty_segment_changes_nothing(log: PublicationLog, tmp_path: Path) -> None:
    log.append("reports", [b"{}"]).result()
    assert log.roll("reports") == log.roll("reports")
    assert len(list(tmp_path.glob("reports/*.log"))) == 2


def test_retired_segments_are_gone_and_the_rest_stays(log: PublicationLog, tmp_path: Path) -> None:
    log.append("reports", [b'{"n":0}']).result()
    middle = log.roll("reports")
    log.append("reports", [b'{"n":1}']).result()
    end = log.ends()["reports"]
    log.retire("reports", middle - 1)
    assert len(list(read_lines(tmp_path, "reports", 0, end))) == 2
    log.retire("reports", end)
    with pytest.raises(Gone):
        list(read_lines(tmp_path, "reports", 0, end))
    with pytest.raises(Gone):
        segments(tmp_path, "reports", 0, end)
    assert len(list(read_lines(tmp_path, "reports", middle, end))) == 1


def test_a_second_writer_is_refused(log: PublicationLog, tmp_path: Path) -> None:
    with pytest.raises(Conflict):
        log_at(tmp_path)


def test_times_grow_strictly_though_the_clock_goes_back_and_the_log_restarts(
    tmp_path: Path,
) -> None:
    clock = iter([5.0, 3.0, 3.0, 4.0, 1.0, 0.5])
    for _ in range(2):
        with log_at(tmp_path, clock=lambda: next(clock)) as log:
            for dataset in ("reports", "users", "reports"):
                log.open_dataset(dataset)
                log.append(dataset, [b"{}", b"{}"]).result()
        (tmp_path / "heads").unlink()  # the segments alone must tell
    with log_at(tmp_path) as log:
        ends = {d: log.open_dataset(d) for d in ("reports", "users")}
    stamps = [
        json.loads(body)["t"]
        for dataset, end in ends.items()
        for _, body in read_lines(tmp_path, dataset, 0, end)
    ]
    assert len(set(stamps)) == 12
    assert sorted(stamps) == [5_000_000 + n for n in range(12)]


def test_a_line_that_stands_where_it_was_not_written_is_cut(tmp_path: Path) -> None:
    with log_at(tmp_path) as log:
        log.open_dataset("reports")
        log.append("reports", [b'{"n":1}']).result()
    (segment,) = tmp_path.glob("reports/*.log")
    segment.write_bytes(segment.read_bytes() * 2)
    with log_at(tmp_path) as log:
        log.open_dataset("reports")
        assert contents(tmp_path) == [{"n": 1}]


def test_records_after_a_restart_are_later_than_a_cut_before_it(tmp_path: Path) -> None:
    with log_at(tmp_path, clock=lambda: 50.0) as log:
        cut = log.cut()
    with log_at(tmp_path, clock=lambda: 1.0) as log:
        log.open_dataset("reports")
        end = log.append("reports", [b"{}"]).result().end
    ((_, body),) = read_lines(tmp_path, "reports", 0, end)
    assert json.loads(body)["t"] > cut.at_us


sessions = st.lists(
    st.tuples(
        st.lists(st.integers(0, 4), max_size=6),  # acknowledged calls, by number of records
        st.integers(0, 3),  # whole lines written but never acknowledged
        st.one_of(st.just(b""), st.binary(max_size=60), st.integers(1, 200)),  # what tears
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=80, deadline=None)
@given(sessions, st.sampled_from([1, 90, 400]))
def test_every_acknowledged_record_survives_any_crash_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory,
    plan: list[tuple[list[int], int, bytes | int]],
    segment_bytes: int,
) -> None:
    directory = tmp_path_factory.mktemp("log")
    numbers = itertools.count()
    expected: list[int] = []
    for calls, unacknowledged, tear in plan:
        with log_at(directory, segment_bytes=segment_bytes) as log:
            end = log.open_dataset("reports")
            assert [r["n"] for r in contents(directory)] == expected
            for count in calls:
                new = list(itertools.islice(numbers, count))
                end = log.append("reports", [b'{"n":%d}' % n for n in new]).result().end
                expected += new
        # The crash: bytes that no fsync vouched for follow the durable end.
        last = max((directory / "reports").glob("*.log"))
        with last.open("ab") as handle:
            whole = []
            for n in itertools.islice(numbers, unacknowledged):
                raw = encode(end, 10**15 + n, b'{"n":%d}' % n, None)
                end += len(raw)
                handle.write(raw)
                whole.append((n, len(raw)))
            if isinstance(tear, bytes):
                handle.write(tear)
        if isinstance(tear, int):  # torn in the middle of what was never acknowledged
            kept = sum(size for _, size in whole)
            lost = min(tear, kept)
            with last.open("r+b") as handle:
                handle.truncate(last.stat().st_size - lost)
            kept -= lost
            survivors = []
            for n, size in whole:
                kept -= size
                if kept < 0:
                    break
                survivors.append((n, size))
            whole = survivors
        expected += [n for n, _ in whole]
    with log_at(directory, segment_bytes=segment_bytes) as log:
        log.open_dataset("reports")
        assert [r["n"] for r in contents(directory)] == expected


def test_a_damaged_heads_file_is_rebuilt_from_the_segments(tmp_path: Path) -> None:
    with log_at(tmp_path) as log:
        log.open_dataset("reports")
        end = log.append("reports", [b"{}"]).result().end
    (tmp_path / "heads").write_bytes(b"0badc0de 00000009 {garbage}")
    with pytest.raises(Unavailable):
        read_heads(tmp_path)
    with log_at(tmp_path) as log:
        log.open_dataset("reports")
        assert read_heads(tmp_path) == {"reports": end}


def test_a_reader_of_the_heads_never_sees_a_torn_or_older_state(
    log: PublicationLog, tmp_path: Path
) -> None:
    seen: list[int] = []
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            seen.append(read_heads(tmp_path)["reports"])

    watcher = threading.Thread(target=watch)
    watcher.start()
    for n in range(300):
        log.append("reports", [b'{"n":%d}' % n]).result()
    stop.set()
    watcher.join()
    assert seen == sorted(seen)
    assert len(contents(tmp_path)) == 300
