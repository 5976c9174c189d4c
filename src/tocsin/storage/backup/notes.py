"""Notes in a data directory that keep a cluster from starting on it: it is being filled by a
restore, or its system has moved elsewhere."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct

from tocsin import durable
from tocsin.errors import Conflict
from tocsin.protocol.backup import Source

RESTORING = "restoring"
MOVED = "moved"


class Restoring(Struct, frozen=True):
    """Which backup is being restored here, and by which name the store knows that it is us."""

    source: Source
    ended_at: float
    token: str


class Moved(Struct, frozen=True):
    """Where a system has gone, or is just going; addresses as people may read them."""

    store: str
    log: str


def require_startable(data: Path) -> None:
    """Conflict if a note says that no cluster may start on the data directory."""
    restoring, moved = read_restoring(data), read_moved(data)
    if restoring is not None:
        raise Conflict(
            f"the restore of {restoring.source.store} into {data} is unfinished",
            field="data",
            hint="repeat the command: it goes on; or begin with an empty directory",
        )
    if moved is not None:
        raise Conflict(
            f"the system in {data} has moved, or is moving, to the store {moved.store} and the log"
            f" {moved.log}",
            field="data",
            hint=f"start it there; to go on here, give that up and delete {data / MOVED}",
        )


def read_restoring(data: Path) -> Restoring | None:
    try:
        return msgspec.json.decode((data / RESTORING).read_bytes(), type=Restoring)
    except FileNotFoundError:
        return None


def read_moved(data: Path) -> Moved | None:
    try:
        return msgspec.json.decode((data / MOVED).read_bytes(), type=Moved)
    except FileNotFoundError:
        return None


def write(data: Path, note: Restoring | Moved) -> None:
    durable.make_directory(data)
    name = RESTORING if isinstance(note, Restoring) else MOVED
    durable.write(data / name, msgspec.json.encode(note))
