"""Records of a Parquet body, read by a process of their own.

A megabyte of Parquet can say of itself that it is small, and unfold to many gigabytes inside one
call of Arrow; a damaged one can end the process that reads it. So another process reads it, whose
memory and processor time are limited by the system, and passes records on in pieces. The module is
both ends: `parquet_records` here, `main` there.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import os
import struct
import subprocess
import sys
from collections.abc import Iterator
from typing import IO, Any

import msgspec

from tocsin.errors import InvalidInput, TocsinError, TooLarge
from tocsin.intake.body_limits import Limits

_HEAD = struct.Struct(">cI")
_RECORDS, _INVALID, _TOO_LARGE, _END = b"R", b"I", b"L", b"E"
_BATCH_ROWS = 256
_PROCESSOR_S = 120
_UNFOLDED = 4  # what is held while a batch is read, in bodies of the largest size


def parquet_records(body: bytes, limits: Limits) -> Iterator[dict[str, Any]]:
    """The records in order. The reader ends with this iterator, wherever that is left."""
    given = str(limits.body_bytes), str(-1 if limits.records is None else limits.records)
    child = subprocess.Popen(
        [sys.executable, "-m", __name__, *given],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1"},
    )
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        with contextlib.suppress(BrokenPipeError):  # its answer says why
            child.stdin.write(body)
            child.stdin.close()
        while (frame := _frame(child.stdout)) is not None:
            kind, content = frame
            if kind == _END:
                return
            if kind != _RECORDS:
                raise _refusal(kind, content, limits)
            yield from msgspec.msgpack.decode(content)
        raise InvalidInput(
            f"the body cannot be read as Parquet: its reader ended with {child.wait()}",
            field="body",
            hint="the file is damaged, or its pages are too large: write it again, with smaller"
            " row groups",
        )
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()


def _refusal(kind: bytes, reason: bytes, limits: Limits) -> TocsinError:
    if kind == _INVALID:
        return InvalidInput(f"the body is not Parquet: {reason.decode()}", field="body")
    return TooLarge(
        f"{reason.decode()}, where a body has at most {limits.body_bytes} bytes unfolded",
        field="body",
        hint="send it in several parts, or raise body_limit_bytes",
    )


def _frame(stream: IO[bytes]) -> tuple[bytes, bytes] | None:
    head = stream.read(_HEAD.size)
    if len(head) < _HEAD.size:
        return None
    kind, size = _HEAD.unpack(head)
    content = stream.read(size)
    return (kind, content) if len(content) == size else None


# From here on: the reader's process.


class _TooLargeError(Exception):
    pass


def main(arguments: list[str]) -> None:
    most_bytes, most_records = map(int, arguments)
    body = sys.stdin.buffer.read()
    out = sys.stdout.buffer
    try:
        for records in _batches(body, most_bytes, most_records):
            _write(out, _RECORDS, records)
        _write(out, _END, b"")
    except _TooLargeError as error:
        _write(out, _TOO_LARGE, str(error).encode())
    except MemoryError:
        _write(out, _TOO_LARGE, b"the Parquet body needs too much memory")
    except Exception as error:  # whatever Arrow says of a file that is none
        _write(out, _INVALID, str(error).encode()[:1000])


def _write(out: IO[bytes], kind: bytes, content: bytes) -> None:
    out.write(_HEAD.pack(kind, len(content)))
    out.write(content)
    out.flush()


def _batches(body: bytes, most_bytes: int, most_records: int) -> Iterator[bytes]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    _limit_self(_UNFOLDED * most_bytes)
    file = pq.ParquetFile(pa.BufferReader(body))
    about = file.metadata
    if 0 <= most_records < about.num_rows:
        raise _TooLargeError(f"the Parquet body has {about.num_rows} records")
    said = sum(about.row_group(number).total_byte_size for number in range(about.num_row_groups))
    if said > most_bytes:
        raise _TooLargeError(f"the Parquet body has {said} bytes unfolded")
    total = 0
    for batch in file.iter_batches(_BATCH_ROWS, use_threads=False):
        records = [
            {name: _plain(value) for name, value in fields.items()} for fields in batch.to_pylist()
        ]
        content = msgspec.msgpack.encode(records)
        total += len(content)
        if total > most_bytes:
            raise _TooLargeError(f"the Parquet body has more than {most_bytes} bytes unfolded")
        yield content


def _limit_self(more_bytes: int) -> None:
    """What is there now, and so much more. Where the system does not know such limits, sizes are
    still counted."""
    import resource

    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CPU, (_PROCESSOR_S, _PROCESSOR_S))
        with open("/proc/self/statm") as counted:
            now = int(counted.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + more_bytes, now + more_bytes))


def _plain(value: Any) -> Any:
    """A Parquet value as JSON would carry it; types are checked later like everyone else's."""
    if isinstance(value, dt.datetime):
        return (value if value.tzinfo else value.replace(tzinfo=dt.UTC)).isoformat()
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list):
        # Arrow hands maps out as pairs
        if value and all(isinstance(item, tuple) and len(item) == 2 for item in value):
            return {str(name): _plain(item) for name, item in value}
        return [_plain(item) for item in value]
    return value


if __name__ == "__main__":
    main(sys.argv[1:])
