"""A recording while it grows: its label, then blocks of records, each with its checksums.

Parquet cannot be read before its end is written; this can be read at any time. A kill leaves whole
blocks, and at most one that is cut short: that one is left out. Whatever else is wrong is damage,
and refused with its place.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tocsin.errors import InvalidInput
from tocsin.lab.trace.events import RECORD
from tocsin.protocol.trace import BLOCK_CHECK, BLOCK_HEAD, JOURNAL_MARK, Label

_HEAD_BYTES = BLOCK_HEAD.size + BLOCK_CHECK.size
_CODEC = pa.Codec("zstd")


class Block(NamedTuple):
    content: bytes
    records: int
    duration_s: float  # how long was recorded when it was written


def begin(sink: BinaryIO, label: Label) -> None:
    _write(sink, Block(msgspec.json.encode(label), 0, 0.0))


def append(sink: BinaryIO, records: NDArray[Any], duration_s: float) -> None:
    packed = _CODEC.compress(records.tobytes(), asbytes=True)
    _write(sink, Block(packed, len(records), duration_s))


def _write(sink: BinaryIO, block: Block) -> None:
    content = block.content
    head = BLOCK_HEAD.pack(
        JOURNAL_MARK, len(content), block.records, block.duration_s, zlib.crc32(content)
    )
    sink.write(head + BLOCK_CHECK.pack(zlib.crc32(head)) + content)
    sink.flush()


def blocks(file: BinaryIO, path: Path) -> Iterator[Block]:
    """The whole ones; the first holds the label."""
    place = 0
    while len(head := file.read(_HEAD_BYTES)) == _HEAD_BYTES:
        mark, size, records, duration_s, checksum = BLOCK_HEAD.unpack_from(head)
        if (
            mark != JOURNAL_MARK
            or BLOCK_CHECK.pack(zlib.crc32(head[: BLOCK_HEAD.size])) != head[BLOCK_HEAD.size :]
        ):
            raise _damaged(path, place)
        content = file.read(size)
        if len(content) < size:
            return
        if zlib.crc32(content) != checksum:
            raise _damaged(path, place)
        yield Block(content, records, duration_s)
        place += _HEAD_BYTES + size


def records_of(block: Block) -> NDArray[Any]:
    whole_bytes = block.records * RECORD.itemsize
    return np.frombuffer(_CODEC.decompress(block.content, whole_bytes, asbytes=True), RECORD)


def _damaged(path: Path, place: int) -> InvalidInput:
    return InvalidInput(f"{path} is damaged: its block from byte {place}", field="trace")
