"""A crash in the middle of a dropped file neither loses nor doubles its records."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tocsin.cluster import inbox as module
from tocsin.cluster.inbox import Claim, Inbox
from tocsin.cluster.intake import DEAD_LETTERS, Intake
from tocsin.model import Column, Dataset
from tocsin.storage.log import PublicationLog, read_lines

DATASET = Dataset(name="drops", columns=(Column("n", "INT"),))
DATASETS = {one.name: one for one in (DATASET, DEAD_LETTERS)}


def numbers(log: PublicationLog) -> list[int]:
    lines = read_lines(log.directory, "drops", 0, log.ends()["drops"])
    return [msgspec.json.decode(body)["r"]["n"] for _, body in lines]


@pytest.mark.parametrize("appended", [0, 1, 3, 4])
@pytest.mark.parametrize("others", [0, 2])
async def test_file_half_taken_before_a_crash_is_finished_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, appended: int, others: int
) -> None:
    monkeypatch.setattr(module, "CHUNK_RECORDS", 4)
    folder = tmp_path / "inbox" / "drops"
    folder.mkdir(parents=True)
    (folder / "file.jsonl").write_text("".join(f'{{"n": {n}}}\n' for n in range(10)))
    with PublicationLog(tmp_path / "log", segment_bytes=1 << 20) as log:
        for name in DATASETS:
            log.open_dataset(name)
        log.append("drops", [b'{"n":0}', b'{"n":1}', b'{"n":2}', b'{"n":3}']).result()
        start = log.ends()["drops"]
        if others:  # another publisher came first
            log.append("drops", [b'{"n":99}'] * others).result()
        if appended:
            log.append("drops", [b'{"n":%d}' % n for n in range(4, 4 + appended)]).result()
        claim = Claim(chunks=1, start=start)
        (folder / ".file.jsonl.claim").write_bytes(msgspec.json.encode(claim))

        intake = Intake(log, DATASETS.__getitem__, 1000)
        await Inbox(tmp_path / "inbox", log, intake, DATASETS.__getitem__).recover()

        assert sorted(n for n in numbers(log) if n != 99) == list(range(10))
        assert (folder / "taken" / "file.jsonl").exists()
        assert not (folder / ".file.jsonl.claim").exists()
