"""libCacheSim's oracleGeneral format: 24 packed bytes a request, plain or compressed (.zst).

The last field is the number of the request (the first is 1) that next asks for the same object, or
-1; we write it and need it not. Requests of size 0, which libCacheSim passes over, are left out.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tocsin.errors import InvalidInput
from tocsin.lab.trace.requests import RequestTrace

RECORD = np.dtype(
    [("time_s", "<u4"), ("object", "<u8"), ("size_bytes", "<u4"), ("next_access", "<i8")]
)
SUFFIXES = (".oracleGeneral", ".oraclegeneral", ".bin")
LARGEST = 2**32 - 1


def is_oracle_general(path: Path) -> bool:
    """By its name: the format has no mark of its own."""
    name = path.name.removesuffix(".zst")
    return name.endswith(SUFFIXES) or ".oracleGeneral." in name


def read_oracle_general(path: Path) -> RequestTrace:
    records = _records(path, _bytes(path))
    requested = records[records["size_bytes"] > 0]
    trace = RequestTrace(
        at_s=requested["time_s"].astype(np.float64),
        object=requested["object"].astype(np.uint64),
        size_bytes=requested["size_bytes"].astype(np.int64),
    )
    trace.check()
    return trace


def write_oracle_general(trace: RequestTrace, path: Path) -> None:
    for name, values in (("size_bytes", trace.size_bytes), ("time", trace.at_s)):
        too_large = values > LARGEST
        if too_large.any():
            place = int(np.argmax(too_large))
            raise InvalidInput(
                f"record {place} of the trace: its {name} is above {LARGEST}, the most that"
                " oracleGeneral can hold",
                field="trace",
            )
    records = np.empty(len(trace), RECORD)
    records["time_s"] = trace.at_s
    records["object"] = trace.object
    records["size_bytes"] = trace.size_bytes
    records["next_access"] = next_access(trace.object)
    with pa.output_stream(str(path), compression=_compression(path)) as stream:
        stream.write(records.tobytes())


def next_access(objects: NDArray[np.uint64]) -> NDArray[np.int64]:
    """For each request, the number of the next one for the same object; -1 if there is none."""
    order = np.argsort(objects, kind="stable")
    again = objects[order[1:]] == objects[order[:-1]]
    following = np.full(len(objects), -1, np.int64)
    following[order[:-1][again]] = order[1:][again] + 1
    return following


def _bytes(path: Path) -> bytes:
    try:
        with pa.input_stream(str(path), compression=_compression(path)) as stream:
            return bytes(stream.read())
    except FileNotFoundError:
        raise InvalidInput(f"there is no file {path}", field="trace") from None
    except (OSError, pa.ArrowException) as error:
        raise InvalidInput(f"{path} cannot be read: {error}", field="trace") from None


def _records(path: Path, data: bytes) -> NDArray[np.void]:
    whole, rest = divmod(len(data), RECORD.itemsize)
    if rest:
        raise InvalidInput(
            f"{path} is cut off: record {whole} at byte {whole * RECORD.itemsize} has {rest} of"
            f" {RECORD.itemsize} bytes",
            field="trace",
            hint="is it an oracleGeneral trace, and copied whole?",
        )
    return np.frombuffer(data, RECORD)


def _compression(path: Path) -> str | None:
    return "zstd" if path.suffix == ".zst" else None
