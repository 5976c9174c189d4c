"""Records by their places: the same from log and files, however these lie and whatever is asked."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cluster.sparkless import store_away
from log.media import over_every_log
from tocsin.cluster.log_records import LogRecords, Placed
from tocsin.model import Column, Dataset
from tocsin.storage.log import PublicationLog, open_log, open_reader
from tocsin.storage.store.store import Store
from tocsin.storage.tables.parquet import ParquetFiles

DATASET = Dataset("reports", (Column("n", "BIGINT"), Column("pad", "STRING")), routed=True)


class World:
    def __init__(self, address: str, directory: Path, log: PublicationLog, store: Store) -> None:
        self.log, self.store = log, store
        self._directory = directory / "datasets"
        self.reader = open_reader(address)
        self.records = LogRecords(self.reader, ParquetFiles(store.files, self._directory))
        self.count = 0

    def publish(self, *sizes: int) -> None:
        lines: list[tuple[bytes, None]] = []
        for size in sizes:
            self.count += 1
            lines.append((msgspec.json.encode({"n": self.count, "pad": "x" * size}), None))
        self.log.append("reports", lines).result(30)

    def store_away(self, keep: int) -> None:
        store_away(self.store, self.log, self._directory, DATASET, keep)

    @property
    def end(self) -> int:
        return self.log.ends()["reports"]

    def all_(self, after: int = 0, upto: int | None = None, most_bytes: int = 500) -> list[Placed]:
        """By pieces, as callers read."""
        upto = self.end if upto is None else upto
        found: list[Placed] = []
        while after < upto:
            piece = self.records.read(DATASET, after, upto, most_bytes)
            assert piece.upto > after
            assert all(after < one.position <= piece.upto for one in piece.records)
            found += piece.records
            after = piece.upto
        return found


@contextmanager
def world(address: str, directory: Path) -> Iterator[World]:
    with (
        Store.open(f"sqlite:///{directory}/store.db") as store,
        open_log(address, segment_bytes=300) as log,
    ):
        log.open_dataset("reports")
        made = World(address, directory, log, store)
        yield made
        made.reader.close()


def numbers(found: list[Placed]) -> list[int]:
    return [msgspec.json.decode(one.record)["n"] for one in found]


@over_every_log
def test_records_are_where_they_were_though_they_become_files(
    log_address: str, tmp_path: Path
) -> None:
    with world(log_address, tmp_path) as made:
        made.publish(5, 100, 1)
        made.publish(0, 70)
        before = made.all_()
        assert numbers(before) == [1, 2, 3, 4, 5]
        assert [one.after for one in before[1:]] == [one.position for one in before[:-1]]
        assert before[-1].position == made.end
        for keep in (3, 1, 0):
            made.store_away(keep)
            made.publish(0)
            after = made.all_()
            assert after[:5] == before
        assert made.records.floor(DATASET) == 0


STRANGE = (b'{"n":1e999}', b'{"n":"\xff"}', b"[1]", b'{"n":%b}' % (b"[" * 100_000 + b"]" * 100_000))


def test_what_no_broker_could_read_is_no_record(tmp_path: Path) -> None:
    """Anybody may write to a topic: what is not a record hides none behind it."""
    with world(f"{tmp_path}/log", tmp_path) as made:
        made.publish(1)
        made.log.append("reports", [(strange, None) for strange in STRANGE]).result(30)
        made.publish(1)
        assert numbers(made.all_()) == [1, 2]


@settings(max_examples=25)
@given(
    steps=st.lists(
        st.one_of(
            st.lists(st.integers(0, 120), min_size=1, max_size=5),
            st.integers(0, 3).map(lambda keep: ("store", keep)),
        ),
        min_size=1,
        max_size=8,
    ),
    asked=st.lists(
        st.tuples(st.floats(0, 1), st.floats(0, 1), st.integers(1, 400)), min_size=1, max_size=6
    ),
)
def test_any_range_gives_exactly_the_records_that_end_in_it(
    steps: list[Any], asked: list[tuple[float, float, int]]
) -> None:
    with tempfile.TemporaryDirectory() as name, world(f"{name}/log", Path(name)) as made:
        ends: dict[int, None] = {}
        for step in steps:
            if isinstance(step, tuple):
                if made.count:
                    made.store_away(step[1])
                continue
            made.publish(*step)
            ends |= dict.fromkeys(one.position for one in made.all_())
        whole = made.all_(most_bytes=1 << 20)
        assert numbers(whole) == list(range(1, made.count + 1))
        assert [one.position for one in whole] == sorted(ends)
        for first, second, most_bytes in asked:
            after, upto = sorted((int(first * made.end), int(second * made.end)))
            expected = [one for one in whole if after < one.position <= upto]
            assert made.all_(after, upto, most_bytes) == expected


@over_every_log
def test_the_past_is_found_by_time_and_by_number(log_address: str, tmp_path: Path) -> None:
    with world(log_address, tmp_path) as made:
        for keep in (2, 1, 0):
            made.publish(50, 80, 3)
            made.store_away(keep + 1)
        whole = made.all_(most_bytes=1 << 20)
        assert len(whole) == 9
        for at, one in enumerate(whole):
            us = round(one.at * 1e6)
            assert made.records.since(DATASET, us, made.end) == one.after
            assert made.records.since(DATASET, us + 1, made.end) == one.position
            last = made.records.last(DATASET, lambda _: True, 9 - at, made.end)
            assert last == one.after
        assert made.records.since(DATASET, 0, made.end) == 0
        even = [one for one in whole if msgspec.json.decode(one.record)["n"] % 2 == 0]
        found = made.records.last(DATASET, lambda record: record["n"] % 2 == 0, 3, made.end)
        assert found == even[-3].after
        assert made.records.last(DATASET, lambda _: False, 1, made.end) == made.end


def test_one_looks_back_only_so_far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tocsin.cluster.log_records.MOST_LOOKED_AT", 2)
    monkeypatch.setattr("tocsin.cluster.log_records.PIECE_BYTES", 100)
    with world(str(tmp_path / "log"), tmp_path) as made:
        made.publish(250)
        made.publish(250)
        made.publish(250, 0)
        whole = made.all_()
        wanted = {1, 4}
        found = made.records.last(DATASET, lambda record: record["n"] in wanted, 2, made.end)
        assert found == whole[3].after


def test_a_log_that_begins_later_has_a_floor(tmp_path: Path) -> None:
    """As after a dataset of the same name was dropped."""
    with world(str(tmp_path / "log"), tmp_path) as made:
        made.publish(10, 20)
        made.log.create_dataset("reports")
        floor = made.end
        assert floor > 0
        assert made.records.floor(DATASET) == floor
        made.publish(30)
        assert numbers(made.all_()) == [3]
        assert made.records.since(DATASET, 0, made.end) == floor


def test_retention_leaves_a_floor_inside_a_file(tmp_path: Path) -> None:
    kept = msgspec.structs.replace(DATASET, retain_s=60.0)
    with world(str(tmp_path / "log"), tmp_path) as made:
        made.publish(1, 2, 3)
        second = made.all_()[1]
        made.store_away(0)
        (file,) = made.store.files.files("reports")
        path = tmp_path / "datasets" / file.path
        table = pq.read_table(path)
        table = table.filter(pc.greater_equal(table.column("_position"), second.after))
        merged = msgspec.structs.replace(file, path="reports/merged.parquet", rows=2)
        pq.write_table(table, tmp_path / "datasets" / merged.path)
        made.store.files.replace("reports", [file.path], [merged])
        assert made.records.floor(kept) == second.after
        assert numbers(made.records.read(kept, 0, made.end).records) == [2, 3]


def test_what_becomes_a_file_while_it_is_read_is_read_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world(str(tmp_path / "log"), tmp_path) as made:
        made.publish(300)
        made.publish(300)
        whole = made.all_()
        record_at = made.reader.record_at

        def late(dataset: str, position: int) -> int:
            monkeypatch.setattr(made.reader, "record_at", record_at)
            made.store_away(0)
            return record_at(dataset, position)

        monkeypatch.setattr(made.reader, "record_at", late)
        assert made.all_() == whole
