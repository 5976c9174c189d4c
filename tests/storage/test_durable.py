"""What was promised to be durable survives a power cut: bytes and names."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tocsin.cluster.dead_letters import DEAD_LETTERS
from tocsin.cluster.inbox import Inbox
from tocsin.cluster.intake import Intake
from tocsin.model import Column, Dataset
from tocsin.spark.table_files import write_file
from tocsin.storage import durable
from tocsin.storage.content import open_content
from tocsin.storage.identity import Mark, write_mark
from tocsin.storage.log import open_log
from tocsin.storage.log.segments.lost import Lost, write_lost

from .power_cut import watched

DROPS = Dataset("drops", (Column("n", "INT"),))
DATASETS = {dataset.name: dataset for dataset in (DROPS, DEAD_LETTERS)}


def careless(directory: Path) -> None:
    (directory / "a").mkdir()
    (directory / "a" / "file.part").write_bytes(b"x")
    os.replace(directory / "a" / "file.part", directory / "a" / "file")


def test_the_watch_sees_what_is_not_synced(tmp_path: Path) -> None:
    with watched() as disk:
        careless(tmp_path)
    assert disk.lost == {"a", "file"}


def mark(directory: Path) -> None:
    write_mark(directory, Mark("0" * 32))


def lose(directory: Path) -> None:
    durable.make_directory(directory / "reports")
    write_lost(directory, "reports", [Lost(0, 9, 1, 0.0)])


def attach(directory: Path) -> None:
    open_content("", directory / "data").put(b"bytes")


def publish(directory: Path) -> None:
    with open_log(directory / "data" / "log", segment_bytes=100) as log:
        log.open_dataset("reports")
        for number in range(9):
            log.append("reports", [b'{"n": %d}' % number], f"{number}").result()
        log.roll("reports")
        log.retire("reports", log.ends()["reports"])


class Frame:
    """Of Spark, as far as a file is written from one."""

    write: Any

    def coalesce(self, _: int) -> Frame:
        self.write = self
        return self

    def parquet(self, path: str) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        os.mkdir(path)
        pq.write_table(pa.table({"n": [1]}), f"{path}/part-0.parquet")


def store(directory: Path) -> None:
    frame: Any = Frame()
    write_file(frame, directory / "datasets", "reports", 0, 9, owner="0" * 32)


@pytest.mark.parametrize("promise", [mark, lose, attach, publish, store])
def test_what_was_written_survives_a_power_cut(
    tmp_path: Path, promise: Callable[[Path], None]
) -> None:
    with watched() as disk:
        promise(tmp_path)
    assert disk.lost - {"incoming"} == set()  # where nothing is promised yet


async def test_a_dropped_file_is_known_to_be_taken_after_a_power_cut(tmp_path: Path) -> None:
    """Else its records would be taken again."""
    with open_log(tmp_path / "log", segment_bytes=1 << 20) as log:
        for name in DATASETS:
            log.open_dataset(name)
        claims: list[set[str]] = []
        with watched() as disk:
            inbox = Inbox(
                tmp_path / "inbox", Intake(log, DATASETS.__getitem__, 1000), DATASETS.__getitem__
            )
            inbox.open_dataset("drops")
            append = inbox._intake.append

            async def looked(*given: Any) -> Any:
                claims.append(set(disk.lost))
                return await append(*given)

            inbox._intake.append = looked  # type: ignore[method-assign, assignment]
            (tmp_path / "inbox" / "drops" / "file.jsonl").write_text('{"n": 1}\n')
            for _ in range(2):  # seen, and seen not to grow
                await inbox.look()
            assert disk.lost - disk_torn_by_others(disk.torn) == set()
    assert claims == [set()]
    assert (tmp_path / "inbox" / "drops" / "taken" / "file.jsonl").exists()


def disk_torn_by_others(torn: set[Path]) -> set[str]:
    """The bytes of a dropped file are its dropper's to sync."""
    return {path.name for path in torn if path.parent.name == "taken"}
