"""The file `heads`: the durable end of every dataset, in one small read for other processes.

It is rewritten in place by one write call after each commit, framed by length and crc32:

    CCCCCCCC LLLLLLLL {"ends":{"reports":120},"last_us":1763258400000000}

Replacing it by rename would be atomic too, but costs a file creation and a journal entry per
commit; in place is one write of the page cache. A reader that meets a half-written file sees a
wrong crc and reads again. It is not fsynced: recovery rebuilds it from the segments. After a power
cut it may be old, then; but what it says was durable once, and a log that ends before has lost
records that were acknowledged. So the ends of datasets that nobody has opened since (they may be
damaged, and the start refused) are kept, apart: readers see open datasets alone.

`last_us` is the newest time handed out. Segments have it as well, except for times that only a cut
has seen and for records whose segments are gone.
"""

from __future__ import annotations

import os
from pathlib import Path
from time import sleep
from zlib import crc32

import msgspec

from tocsin.errors import Unavailable
from tocsin.storage.log.segments.disk import Disk

NAME = "heads"
_FRAME_BYTES = 18
_READ_BYTES = 64 * 1024
_TRIES = 50


class Heads(msgspec.Struct, frozen=True):
    ends: dict[str, int]
    last_us: int = 0
    unopened: dict[str, int] = {}


class HeadsFile:
    """The writer's side; one per log directory."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        self._disk = disk
        self._handle = disk.open(directory / NAME, append=False)

    def write(self, heads: Heads, *, sync: bool = False) -> None:
        # What an older, longer text left behind lies beyond the frame's length: readers ignore it.
        body = msgspec.json.encode(heads)
        self._disk.overwrite(self._handle, b"%08x %08d %b" % (crc32(body), len(body), body))
        if sync:
            self._disk.sync(self._handle)

    def close(self) -> None:
        self._disk.close(self._handle)


def read(directory: Path) -> Heads:
    """The newest heads; none at all if no log was ever opened here."""
    for _ in range(_TRIES):
        heads = read_once(directory)
        if heads is not None:
            return heads
        sleep(0.001)  # the writer is inside its one write call
    raise Unavailable(
        f"the log's heads file in {directory} cannot be read",
        hint="start the cluster: it rebuilds the file",
    )


def read_once(directory: Path) -> Heads | None:
    """The heads, or None if what was read is not whole."""
    try:
        handle = os.open(directory / NAME, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return Heads({})
    try:
        raw = os.read(handle, _READ_BYTES)
        try:
            length = int(raw[9:17])
            if len(raw) < _FRAME_BYTES + length:
                raw += os.pread(handle, _FRAME_BYTES + length - len(raw), len(raw))
            body = raw[_FRAME_BYTES : _FRAME_BYTES + length]
            if int(raw[:8], 16) != crc32(body) or len(body) != length:
                return None
            return msgspec.json.decode(body, type=Heads)
        except (ValueError, msgspec.DecodeError):
            return None
    finally:
        os.close(handle)
