"""What was promised to be durable survives a power cut: bytes and names."""

from __future__ import annotations

import ast
import errno
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tocsin import durable
from tocsin.cluster.inbox import Inbox
from tocsin.cluster.intake import Intake
from tocsin.errors import SettingError
from tocsin.intake.dead_letters import DEAD_LETTERS
from tocsin.model import Column, Dataset
from tocsin.protocol.keys import Revoked
from tocsin.service.keys.jwk import SigningKey
from tocsin.service.keys.revocations import write_revoked
from tocsin.service.secret import kept_secret
from tocsin.spark.tables.parquet_files import write_file
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


def keep_secret(directory: Path) -> None:
    kept_secret(directory / "data" / "secret")


def make_key(directory: Path) -> None:
    SigningKey.new("EdDSA").write(directory / "keys", "broker_1")


def revoke(directory: Path) -> None:
    write_revoked(directory / "data" / "revoked.json", Revoked(subjects=["ann"]))


PROMISES = [mark, lose, attach, publish, store, keep_secret, make_key, revoke]


@pytest.mark.parametrize("promise", PROMISES)
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


def full_disk(*_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("write", [durable.write, durable.create])
def test_a_full_disk_leaves_what_was_there_and_nothing_else(
    tmp_path: Path, write: Callable[[Path, bytes], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    durable.write(tmp_path / "old", b"old")
    monkeypatch.setattr("os.fsync", full_disk)
    for name in ("old", "new"):
        with pytest.raises(OSError, match="No space left"):
            write(tmp_path / name, b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert (tmp_path / "old").read_bytes() == b"old"


def test_who_creates_a_file_second_leaves_the_first(tmp_path: Path) -> None:
    durable.create(tmp_path / "secret", b"first", mode=durable.OWNER)
    with pytest.raises(FileExistsError):
        durable.create(tmp_path / "secret", b"second")
    assert [path.name for path in tmp_path.iterdir()] == ["secret"]
    assert (tmp_path / "secret").read_bytes() == b"first"
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600


def test_no_secret_is_taken_from_a_file_that_lost_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_bytes(b"")
    with pytest.raises(SettingError, match="holds no secret"):
        kept_secret(tmp_path / "secret")
    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(SettingError, match="No space left"):
        kept_secret(tmp_path / "new" / "secret")


SOURCE = Path(durable.__file__).parent
OTHERWISE = {
    "durable": "the one place",
    "broker/server/pages/shelf": "a cache: what a crash leaves of it is checked, or thrown away",
    "cli/demo": "a picture, which can be drawn again",
    "protocol/listing": "a page of the documentation",
    "spark/class_archive": "a cache of Java's",
    "spark/jars": "files that can be fetched again, synced one by one",
    "storage/content/store": "synced, and moved by the medium",
    "storage/data_directory": "an empty file that is locked",
    "storage/log/segments/disk": "the log's own operations, which tests break",
    "storage/log/segments/medium": "an empty file that is locked",
    "storage/store/dialect/sqlite": "an empty file that is locked",
    "system/launching": "what a process says, for people",
}
"""Modules that write files by themselves, and why they may."""


def test_files_are_written_in_one_place() -> None:
    for_tests_and_experiments = ("demo/", "dev/", "lab/", "testing/")
    writing = set()
    for path in SOURCE.rglob("*.py"):
        name, text = str(path.relative_to(SOURCE).with_suffix("")), path.read_text()
        knows_files = "pathlib" in text or "import os" in text
        if not knows_files or name.startswith(for_tests_and_experiments):
            continue
        if any(writes(node) for node in ast.walk(ast.parse(text))):
            writing.add(name)
    assert writing == set(OTHERWISE)


def writes(node: ast.AST) -> bool:
    """Whether it is a call that makes, fills or moves a file."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
        return False
    name = ast.unparse(node.func).rpartition(".")[2]
    given = [ast.unparse(argument) for argument in node.args]
    if name == "open":
        return any("O_CREAT" in text or re.fullmatch(r"'[wxa][bt+]*'", text) for text in given)
    if name in ("replace", "rename", "link"):  # of a path; of a text, it takes two
        return ast.unparse(node.func).startswith("os.") or (len(given) == 1 and not node.keywords)
    return name in ("write_text", "write_bytes", "NamedTemporaryFile")
