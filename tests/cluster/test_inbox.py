"""A crash in the middle of a dropped file neither loses nor doubles its records."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tocsin.cluster import inbox as module
from tocsin.cluster.inbox import Claim, Inbox
from tocsin.cluster.intake import Intake
from tocsin.intake.dead_letters import DEAD_LETTERS
from tocsin.model import Column, Dataset
from tocsin.storage.log import PublicationLog, open_log, open_reader

DATASET = Dataset(name="drops", columns=(Column("n", "INT"),))
DATASETS = {one.name: one for one in (DATASET, DEAD_LETTERS)}


def numbers(log: PublicationLog) -> list[int]:
    lines = open_reader(log.address).lines("drops", 0, log.ends()["drops"])
    return [msgspec.json.decode(body)["r"]["n"] for _, body in lines]


@pytest.mark.parametrize("appended", [False, True])
@pytest.mark.parametrize("others", [0, 2])
async def test_file_half_taken_before_a_crash_is_finished_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, appended: bool, others: int
) -> None:
    monkeypatch.setattr(module, "CHUNK_RECORDS", 4)
    folder = tmp_path / "inbox" / "drops"
    folder.mkdir(parents=True)
    (folder / "file.jsonl").write_text("".join(f'{{"n": {n}}}\n' for n in range(10)))
    with open_log(tmp_path / "log", segment_bytes=1 << 20) as log:
        for name in DATASETS:
            log.open_dataset(name)
        log.append("drops", [b'{"n":%d}' % n for n in range(4)], "5e1f-1").result()
        if others:  # another publisher came in between
            log.append("drops", [b'{"n":99}'] * others).result()
        if appended:
            log.append("drops", [b'{"n":%d}' % n for n in range(4, 8)], "5e1f-2").result()
    claim = Claim(chunks=1, key="5e1f")
    (folder / ".file.jsonl.claim").write_bytes(msgspec.json.encode(claim))
    with open_log(tmp_path / "log", segment_bytes=1 << 20) as log:
        for name in DATASETS:
            log.open_dataset(name)
        intake = Intake(log, DATASETS.__getitem__, 1000)
        await Inbox(tmp_path / "inbox", intake, DATASETS.__getitem__).recover()

        assert sorted(n for n in numbers(log) if n != 99) == list(range(10))
        assert (folder / "taken" / "file.jsonl").exists()
        assert not (folder / ".file.jsonl.claim").exists()


async def test_the_same_file_dropped_again_is_taken_again(tmp_path: Path) -> None:
    folder = tmp_path / "inbox" / "drops"
    folder.mkdir(parents=True)
    with open_log(tmp_path / "log", segment_bytes=1 << 20) as log:
        for name in DATASETS:
            log.open_dataset(name)
        inbox = Inbox(
            tmp_path / "inbox", Intake(log, DATASETS.__getitem__, 1000), DATASETS.__getitem__
        )
        for _ in range(2):
            (folder / "file.jsonl").write_text('{"n": 1}\n')
            for _ in range(2):  # seen, and seen not to grow
                await inbox.look()
        assert numbers(log) == [1, 1]


async def test_a_file_for_the_dead_letters_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "inbox" / "dead_letters"
    folder.mkdir(parents=True)
    (folder / "file.jsonl").write_text('{"reason": "none"}')
    with open_log(tmp_path / "log", segment_bytes=1 << 20) as log:
        log.open_dataset("dead_letters")
        inbox = Inbox(
            tmp_path / "inbox", Intake(log, DATASETS.__getitem__, 1000), DATASETS.__getitem__
        )
        for _ in range(2):  # it has stopped growing
            await inbox.look()
        assert log.ends()["dead_letters"] == 0
    reason = (folder / "refused" / "file.jsonl.reason").read_text()
    assert reason == "dead_letters belongs to the system: nobody else writes to it\n"
