"""Which files of a dataset are merged or dropped. Knows sizes, positions and times; no medium."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from tocsin.model import Dataset
from tocsin.storage.store.data_file import DataFile

TINY_BYTES = 256 * 1024  # merged again and again without a second thought
FULL_BYTES = 128 * 1024 * 1024  # large enough never to be merged again


class Compaction(Struct, frozen=True):
    """What is to be done; each part may be empty."""

    expired: Sequence[DataFile]  # wholly outside RETAIN
    run: Sequence[DataFile]  # neighbours to be merged
    oldest_us: int | None  # what was received up to here is outside RETAIN

    def __bool__(self) -> bool:
        return bool(self.expired or self.run)


def merges_keys(dataset: Dataset) -> bool:
    """Whether merging keeps the newest record of each key alone. A subscriber of a routed dataset
    who was away gets every record."""
    return bool(dataset.primary_key) and not dataset.routed


def plan(
    dataset: Dataset,
    files: Sequence[DataFile],
    horizon: int | None,
    oldest_us: int | None,
    count: int,
) -> Compaction:
    """`horizon`: from below it nobody looks any more. None: nobody looks from anywhere."""
    reached = [file for file in files if horizon is None or file.end_position <= horizon]
    # The last file stays, however old: its end says where the log's part begins.
    expired = [
        file
        for file in reached
        if file != files[-1] and oldest_us and file.max_received_us <= oldest_us
    ]
    reached = [file for file in reached if file not in expired]
    full_bytes = None if merges_keys(dataset) else FULL_BYTES
    return Compaction(expired, choose_run(reached, count, full_bytes=full_bytes), oldest_us)


def choose_run(
    files: Sequence[DataFile], count: int, *, full_bytes: int | None = FULL_BYTES
) -> Sequence[DataFile]:
    """The newest neighbours worth merging; none unless there are `count` of them.

    From the newest back, a file joins if it is tiny or not larger than all newer ones together. So
    a record is rewritten about once per doubling, and the files left alone grow geometrically.
    """
    begin, sum_bytes = len(files), 0
    while begin > 0:
        size_bytes = files[begin - 1].size_bytes
        if full_bytes is not None and size_bytes >= full_bytes:
            break
        if size_bytes > max(sum_bytes, TINY_BYTES):
            break
        sum_bytes += size_bytes
        begin -= 1
    return files[begin:] if len(files) - begin >= count else ()
