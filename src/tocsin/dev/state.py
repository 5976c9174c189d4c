"""What is known of a directory's servers from one command to the next: ports, passwords, processes.

The file is replaced whole and readable by its owner alone.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from tocsin import durable
from tocsin.errors import Conflict, InvalidInput
from tocsin.system.processes import Process

FILE, LOCK = "state.json", "lock"
OUR_FILES = (FILE, LOCK)


class Record(msgspec.Struct, omit_defaults=True):
    """One server. Port and password stay when it is stopped."""

    port: int = 0
    password: str = ""
    processes: dict[str, Process] = {}


class State:
    def __init__(self, directory: Path) -> None:
        self._file = directory / FILE
        self.records: dict[str, Record] = {}
        try:
            self.records = msgspec.json.decode(self._file.read_bytes(), type=dict[str, Record])
        except FileNotFoundError:
            pass
        except OSError as error:
            raise InvalidInput(
                f"cannot read {self._file}: {error.strerror}", field="data"
            ) from None
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise InvalidInput(
                f"{self._file} is damaged: {error}",
                field="data",
                hint=f"stop its servers by hand, if any run, and delete {directory}",
            ) from None

    def save(self) -> None:
        text = msgspec.json.format(msgspec.json.encode(self.records))
        durable.write(self._file, text, mode=durable.OWNER)


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """One command at a time."""
    try:
        handle = (directory / LOCK).open("a")
    except OSError as error:
        raise InvalidInput(f"cannot use {directory}: {error.strerror}", field="data") from None
    with handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(f"another tocsin dev is at work in {directory}") from None
        yield
