"""Files dropped into `inbox/<dataset>/` are taken like every other publication, once each.

A file is read in chunks, each of which goes into the log under a key of its own. A small claim
beside the file notes the chunk that is about to go in; what a crash left in doubt goes in again
under the same key, and the log takes it once. A file that was taken moves to `taken/`, one that
cannot be read at all to `refused/` with the reason beside it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import msgspec
import structlog
from msgspec import Struct

from tocsin import durable
from tocsin.cluster.intake import Intake
from tocsin.errors import InvalidInput, TocsinError
from tocsin.intake.dead_letters import DEAD_LETTERS, OWNED
from tocsin.intake.formats import RawRecord, Unreadable, format_of_file, read
from tocsin.model import Dataset
from tocsin.protocol.publishing import Rejection
from tocsin.service.trouble import Troubles

log = structlog.get_logger()

LOOK_INTERVAL_S = 0.5
CHUNK_RECORDS = 5000
UNFINISHED = (".tmp", ".part", ".writing")


class Claim(Struct):
    """How far a file was taken: `chunks` are done, the next was about to go in."""

    chunks: int
    key: str  # of this file, dropped this time


def waiting_files(directory: Path) -> list[Path]:
    """Whole files in the drop directories that nobody has taken."""
    return [
        file
        for file in sorted(directory.glob("*/*"))
        if file.is_file() and not file.name.startswith(".") and file.suffix not in UNFINISHED
    ]


class Inbox:
    """Watches the drop directories of all datasets."""

    def __init__(
        self,
        directory: Path,
        intake: Intake,
        dataset: Callable[[str], Dataset],
    ) -> None:
        self._directory = directory
        self._intake = intake
        self._dataset = dataset
        self._seen: dict[Path, tuple[int, int]] = {}
        self.troubles = Troubles()  # of files that wait, by dataset and name

    def open_dataset(self, name: str) -> None:
        durable.make_directory(self._directory / name)

    async def recover(self) -> None:
        """Finish the files that a crash left half taken, before anyone else appends."""
        for claim in sorted(self._directory.glob("*/.*.claim")):
            file = claim.with_name(claim.name.removeprefix(".").removesuffix(".claim"))
            if file.exists():
                await self._take_or_refuse(file)
            else:
                claim.unlink()

    async def watch(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(LOOK_INTERVAL_S)

    async def look(self) -> None:
        """Take every file that has stopped growing since the last look."""
        for file in await asyncio.to_thread(self._ready):
            await self._take_or_refuse(file)

    async def _take_or_refuse(self, file: Path) -> None:
        name = f"{file.parent.name}/{file.name}"
        try:
            try:
                await self._take(file)
            except InvalidInput as error:
                self._refuse(file, error)
        except (TocsinError, OSError) as error:
            if self.troubles.put(name, str(error)):
                log.warning("a dropped file waits", file=name, reason=str(error))
        else:
            self.troubles.clear(name)

    def _ready(self) -> list[Path]:
        ready = []
        seen: dict[Path, tuple[int, int]] = {}
        for file in waiting_files(self._directory):
            about = file.stat()
            seen[file] = (about.st_size, about.st_mtime_ns)
            if self._seen.get(file) == seen[file]:
                ready.append(file)
        self._seen = seen
        return ready

    async def _take(self, file: Path) -> None:
        name = file.parent.name
        if name == DEAD_LETTERS.name:
            raise InvalidInput(OWNED, field="dataset")
        dataset = await asyncio.to_thread(self._dataset, name)
        body = await asyncio.to_thread(file.read_bytes)
        raw = read(body, format_of_file(file.name))
        claim_file = file.parent / f".{file.name}.claim"
        claim = _read_claim(claim_file) or Claim(0, secrets.token_hex(16))
        number = accepted = rejected = 0
        while chunk := await asyncio.to_thread(_chunk, raw):
            number += 1
            if number <= claim.chunks:
                continue
            records = await asyncio.to_thread(self._intake.sort, dataset, chunk, "inbox", file.name)
            _write_claim(claim_file, Claim(number - 1, claim.key))
            await self._intake.append(name, records, f"{claim.key}-{number}")
            accepted += len(records.good)
            rejected += records.refused
            self._tell(file, records.rejections)
        taken = file.parent / "taken"
        durable.make_directory(taken)
        durable.move(file, _free(taken / file.name))  # before what says how far it was taken goes
        claim_file.unlink(missing_ok=True)
        log.info("a dropped file was taken", file=file.name, accepted=accepted, rejected=rejected)

    def _refuse(self, file: Path, error: TocsinError) -> None:
        refused = file.parent / "refused"
        durable.make_directory(refused)
        target = _free(refused / file.name)
        durable.move(file, target)
        durable.write(target.with_name(target.name + ".reason"), f"{error}\n".encode())
        log.warning("a dropped file was refused", file=file.name, reason=str(error))

    def _tell(self, file: Path, rejections: list[Rejection]) -> None:
        for rejection in rejections[:3]:
            log.warning(
                "a dropped record was refused",
                file=file.name,
                line=rejection.line,
                field=rejection.field,
                reason=rejection.reason,
            )


def _chunk(raw: Iterator[RawRecord | Unreadable]) -> list[RawRecord | Unreadable]:
    return list(islice(raw, CHUNK_RECORDS))


def _free(path: Path) -> Path:
    """The path, or one beside it that nothing has taken."""
    number, candidate = 1, path
    while candidate.exists():
        number += 1
        candidate = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return candidate


def _read_claim(file: Path) -> Claim | None:
    try:
        return msgspec.json.decode(file.read_bytes(), type=Claim)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def _write_claim(file: Path, claim: Claim) -> None:
    durable.write(file, msgspec.json.encode(claim))
