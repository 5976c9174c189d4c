"""Bytes that change on the disk: told, never skipped; a repair gives up the damaged records alone.

A torn tail, which a crash leaves, is something else: it is cut, and nobody had been told of it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from log.segments.test_disk_failures import FaultyDisk
from log.segments.test_segments import contents, log_at
from tocsin.errors import Conflict, Damaged, NotFound
from tocsin.protocol.log_line import LARGEST_FILLER_BYTES, decode, encode_fillers, is_filler
from tocsin.storage.log import open_reader
from tocsin.storage.log.segments import SegmentReader, read_heads, read_lines
from tocsin.storage.log.segments.repair import Repair

LAST, OLDER = 1 << 20, 400
PLACES = {"first": 0, "middle": 10, "last": 19}


def filled(directory: Path, count: int = 20, segment_bytes: int = LAST) -> list[tuple[int, int]]:
    """A log of records {"n":0}, {"n":1}, …; where each of them begins and ends."""
    with log_at(directory, segment_bytes=segment_bytes) as log:
        log.open_dataset("reports")
        done = [log.append("reports", [b'{"n":%d}' % n]).result() for n in range(count)]
    return [(one.first, one.end) for one in done]


def spoil(directory: Path, position: int, data: bytes | None = None) -> Path:
    """Change bytes of the log at a position: those given, or one bit."""
    segments = sorted((directory / "reports").glob("*.log"))
    path = max(segment for segment in segments if int(segment.stem) <= position)
    at = position - int(path.stem)
    whole = bytearray(path.read_bytes())
    changed = data if data is not None else bytes([whole[at] ^ 1])
    whole[at : at + len(changed)] = changed
    path.write_bytes(whole)
    return path


def repaired(directory: Path, **options: Any) -> list[tuple[int, int]]:
    """What was given up, as subscribers hear of it."""
    told: list[tuple[int, int]] = []
    with Repair(directory) as repair:
        assert repair.datasets == ["reports"]
        found = list(itertools.chain.from_iterable(repair.look("reports")))
        repair.mend("reports", found, **options)
        repair.report("reports", lambda dataset, first, end, cause: told.append((first, end)))
        assert repair.unreported("reports") == []
        assert [hole for some in repair.look("reports") for hole in some] == []
    return told


def opened_and_read(directory: Path, segment_bytes: int) -> None:
    with log_at(directory, segment_bytes=segment_bytes) as log:
        log.open_dataset("reports")
        contents(directory)


def numbers(directory: Path, start: int = 0) -> list[int]:
    end = read_heads(directory)["reports"]
    return [json.loads(body)["r"]["n"] for _, body in read_lines(directory, "reports", start, end)]


@pytest.mark.parametrize("segment_bytes", [LAST, OLDER])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("inside", [0, 8, 12, 20, -3, -1])
def test_a_flipped_bit_is_told_and_costs_one_record(
    tmp_path: Path, segment_bytes: int, place: str, inside: int
) -> None:
    places = filled(tmp_path, segment_bytes=segment_bytes)
    first, end = places[PLACES[place]]
    in_last = segment_bytes == LAST or place == "last"
    path = spoil(tmp_path, (first if inside >= 0 else end) + inside)
    whole = path.read_bytes()
    for _ in range(2):  # a refused start must not make the next one forget
        with log_at(tmp_path, segment_bytes=segment_bytes) as log:
            if in_last:
                with pytest.raises(Damaged) as told:
                    log.open_dataset("reports")
            else:  # closed segments are looked at when they are read
                log.open_dataset("reports")
                with pytest.raises(Damaged) as told:
                    contents(tmp_path)
        assert f"dataset reports is damaged: about 1 record in [{first}, {end})" in str(told.value)
        assert str(path) in told.value.message
        assert "tocsin repair" in str(told.value)
        assert path.read_bytes() == whole
    assert repaired(tmp_path) == [(first, end)]
    assert path.with_name(path.name + ".damaged").read_bytes() == whole
    with log_at(tmp_path, segment_bytes=segment_bytes) as log:
        assert log.open_dataset("reports") == places[-1][1]
        kept = [n for n in range(20) if n != PLACES[place]]
        assert numbers(tmp_path) == kept
        assert log.append("reports", [b'{"n":20}']).result().first == places[-1][1]
        assert numbers(tmp_path) == [*kept, 20]


def test_a_zeroed_page_costs_the_records_in_it(tmp_path: Path) -> None:
    places = filled(tmp_path, 300)
    spoil(tmp_path, 4096, bytes(4096))
    hit = [n for n, (first, end) in enumerate(places) if end > 4096 and first < 8192]
    with log_at(tmp_path, segment_bytes=LAST) as log, pytest.raises(Damaged) as told:
        log.open_dataset("reports")
    assert f"about {len(hit)} records" in told.value.message
    assert repaired(tmp_path) == [(places[hit[0]][0], places[hit[-1]][1])]
    with log_at(tmp_path, segment_bytes=LAST) as log:
        log.open_dataset("reports")
        assert numbers(tmp_path) == [n for n in range(300) if n not in hit]


def test_an_acknowledged_end_that_is_gone_is_told_and_its_positions_are_not_used_again(
    tmp_path: Path,
) -> None:
    places = filled(tmp_path)
    path = tmp_path / "reports" / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[: places[15][0] + 7])
    with log_at(tmp_path, segment_bytes=LAST) as log, pytest.raises(Damaged):
        log.open_dataset("reports")
    assert repaired(tmp_path) == [(places[15][0], places[19][1])]
    with log_at(tmp_path, segment_bytes=LAST) as log:
        assert log.open_dataset("reports") == places[19][1]
        assert numbers(tmp_path) == list(range(15))


@pytest.mark.parametrize("change", [-5, 5])
def test_an_older_segment_of_another_length_is_told_and_mended(tmp_path: Path, change: int) -> None:
    filled(tmp_path, segment_bytes=OLDER)
    path = sorted((tmp_path / "reports").glob("*.log"))[1]
    whole = path.read_bytes()
    path.write_bytes(whole[:change] if change < 0 else whole + bytes(change))
    with log_at(tmp_path) as log, pytest.raises(Damaged):
        log.open_dataset("reports")
    assert len(repaired(tmp_path)) == (change < 0)
    with log_at(tmp_path) as log:
        log.open_dataset("reports")
        assert len(numbers(tmp_path)) == 20 - (change < 0)


def test_a_missing_segment_is_filled(tmp_path: Path) -> None:
    filled(tmp_path, segment_bytes=OLDER)
    path = sorted((tmp_path / "reports").glob("*.log"))[1]
    lost = path.read_bytes().count(b"\n")
    path.unlink()
    with log_at(tmp_path) as log, pytest.raises(Damaged):
        log.open_dataset("reports")
    assert len(repaired(tmp_path)) == 1
    with log_at(tmp_path) as log:
        log.open_dataset("reports")
        assert len(numbers(tmp_path)) == 20 - lost


def test_what_others_of_a_request_are_left_stays_and_a_repeat_is_taken(tmp_path: Path) -> None:
    """All or nothing is for what nobody was told of; these were acknowledged."""
    for segment_bytes in (LAST, 10):
        directory = tmp_path / str(segment_bytes)
        records = [b'{"n":%d}' % n for n in range(3)]
        with log_at(directory, segment_bytes=segment_bytes) as log:
            log.open_dataset("reports")
            asked = log.append("reports", records, "5e1f").result()
            log.append("reports", [b'{"n":3}'], "other").result()
        middle = [at for at, _ in read_lines(directory, "reports", 0, asked.end)][1]
        spoil(directory, middle + 30)
        assert len(repaired(directory)) == 1
        with log_at(directory, segment_bytes=segment_bytes) as log:
            log.open_dataset("reports")
            assert numbers(directory) == [0, 2, 3]
            assert not log.append("reports", records, "5e1f").result().again
            assert log.append("reports", [b'{"n":3}'], "other").result().again


def test_readers_pass_over_what_was_given_up(tmp_path: Path) -> None:
    places = filled(tmp_path)
    for n in (0, 4, 5, 19):
        spoil(tmp_path, places[n][0] + 30)
    assert repaired(tmp_path) == [places[0], (places[4][0], places[5][1]), places[19]]
    with log_at(tmp_path, segment_bytes=LAST) as log:
        end = log.open_dataset("reports")
        reader = open_reader(str(tmp_path))
        assert isinstance(reader, SegmentReader)
        kept = [first for n, (first, _) in enumerate(places) if n not in (0, 4, 5, 19)]
        assert [at for at, _ in reader.lines("reports", 0, end)] == kept
        assert [at for at, _ in reader.lines("reports", 0, end, 1)] == kept[:1]
        assert [at for at, _ in reader.lines("reports", places[4][0], end, 1)] == [places[6][0]]
        assert list(reader.lines("reports", places[19][0], end)) == []
        assert reader.record_at("reports", places[5][0] + 3) == places[4][0]
        own = [last for n, (_, last) in enumerate(places) if n not in (0, 4, 5, 19)]
        assert reader.ends("reports", kept, end) == own
        seen, start = [], 0
        while start < end:
            for new in reader.news({"reports": start}, 100).values():
                seen += [at for at, _ in new.lines]
                start = new.end
        assert seen == kept


def test_a_repair_needs_the_log_for_itself(tmp_path: Path) -> None:
    with log_at(tmp_path), pytest.raises(Conflict, match="another process"):
        Repair(tmp_path)
    with pytest.raises(NotFound, match="no publication log"):
        Repair(tmp_path / "elsewhere")


def test_a_repair_that_was_cut_short_is_repeated(tmp_path: Path) -> None:
    places = filled(tmp_path)
    spoil(tmp_path, places[4][0] + 30)
    disk = FaultyDisk()
    disk.budget_bytes = 20
    with Repair(tmp_path, disk=disk) as repair, pytest.raises(OSError, match="space"):
        repair.mend("reports", list(itertools.chain.from_iterable(repair.look("reports"))))
    with log_at(tmp_path, segment_bytes=LAST) as log, pytest.raises(Damaged):
        log.open_dataset("reports")
    assert repaired(tmp_path) == [places[4]]
    assert len(list((tmp_path / "reports").glob("*.damaged*"))) == 2


def test_a_repair_keeps_no_copy_if_told_so(tmp_path: Path) -> None:
    places = filled(tmp_path)
    spoil(tmp_path, places[4][0] + 30)
    repaired(tmp_path, copy=False)
    assert list((tmp_path / "reports").glob("*.damaged*")) == []


@given(st.integers(0, 10**19), st.integers(0, 3 * LARGEST_FILLER_BYTES), st.integers(1, 10**6))
def test_a_place_is_filled_to_the_byte(position: int, size_bytes: int, records: int) -> None:
    made = encode_fillers(position, size_bytes, records)
    if made is None:
        assert size_bytes < 80
        return
    assert len(made) == size_bytes
    for raw in made.splitlines(keepends=True):
        body = decode(raw, position)
        assert body is not None
        assert is_filler(body)
        json.loads(body)
        position += len(raw)


Damage = Sequence[tuple[float, int]]


@settings(max_examples=150, deadline=None)
@given(
    calls=st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=2, max_size=12),
    segment_bytes=st.sampled_from([1, 150, 10_000]),
    damage=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), min_size=1),
)
def test_whatever_is_damaged_is_told_and_all_other_records_stay(
    tmp_path_factory: pytest.TempPathFactory,
    calls: list[tuple[int, bool]],
    segment_bytes: int,
    damage: Damage,
) -> None:
    directory = tmp_path_factory.mktemp("log")
    count = itertools.count()
    places: list[int] = []
    with log_at(directory, segment_bytes=segment_bytes) as log:
        log.open_dataset("reports")
        for number, (size, keyed) in enumerate(calls):
            records = [b'{"n":%d,"s":"%b"}' % (next(count), b"x" * n) for n in range(size)]
            log.append("reports", records, f"key-{number}" if keyed else None).result()
        end = log.ends()["reports"]
        places = [at for at, _ in read_lines(directory, "reports", 0, end)]
    changed: dict[int, int] = {}
    for where, change in damage:
        changed[int(where * end)] = change
    for position, change in changed.items():
        path = max(
            one for one in (directory / "reports").glob("*.log") if int(one.stem) <= position
        )
        before = path.read_bytes()[position - int(path.stem)]
        spoil(directory, position, bytes([before ^ change]))
    bounds = [*places, end]
    hit = {
        n
        for n in range(len(places))
        if any(bounds[n] <= position < bounds[n + 1] for position in changed)
    }
    with pytest.raises(Damaged):
        opened_and_read(directory, segment_bytes)
    repaired(directory)
    with log_at(directory, segment_bytes=segment_bytes) as log:
        assert log.open_dataset("reports") == end
        assert numbers(directory) == [n for n in range(len(places)) if n not in hit]
        log.append("reports", [b'{"n":-1}']).result()
        assert numbers(directory, end) == [-1]


@settings(max_examples=100, deadline=None)
@given(
    acknowledged=st.integers(0, 5),
    unacknowledged=st.integers(0, 4),
    torn=st.integers(0, 300),
    garbage=st.binary(max_size=80),
)
def test_a_tail_that_nobody_was_told_of_is_cut_in_silence(
    tmp_path_factory: pytest.TempPathFactory,
    acknowledged: int,
    unacknowledged: int,
    torn: int,
    garbage: bytes,
) -> None:
    directory = tmp_path_factory.mktemp("log")
    with log_at(directory, segment_bytes=LAST) as log:
        log.open_dataset("reports")
        for n in range(acknowledged):
            log.append("reports", [b'{"n":%d}' % n]).result()
        heads, durable = (directory / "heads").read_bytes(), log.ends()["reports"]
        if unacknowledged:
            records = [b'{"n":%d}' % (acknowledged + n) for n in range(unacknowledged)]
            log.append("reports", records).result()
    (directory / "heads").write_bytes(heads)
    (path,) = (directory / "reports").glob("*.log")
    whole = path.read_bytes()
    kept = max(durable, len(whole) - torn)
    path.write_bytes(whole[:kept] + garbage)
    with log_at(directory, segment_bytes=LAST) as log:
        log.open_dataset("reports")
        survived = acknowledged + (unacknowledged if kept == len(whole) else 0)
        assert numbers(directory) == list(range(survived))
