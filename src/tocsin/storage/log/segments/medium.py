"""A directory of segments, taken by one writer at a time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog

from tocsin import durable
from tocsin.errors import Conflict
from tocsin.storage.log.segments import heads
from tocsin.storage.log.segments.dataset import SegmentedDataset
from tocsin.storage.log.segments.disk import Disk

_logger = structlog.get_logger(__name__)


class Segments:
    def __init__(self, directory: Path, *, segment_bytes: int, disk: Disk | None = None) -> None:
        self.batch_bytes = segment_bytes  # what is committed together is in one segment
        self._directory = directory
        self._disk = disk or Disk()
        durable.make_directory(directory)
        self._lock = lock(directory)
        try:
            known = heads.read_once(directory)
            self._heads = heads.HeadsFile(directory, self._disk)
        except BaseException:  # whoever tries again must not find it taken
            os.close(self._lock)
            raise
        self._known_us = known.last_us if known is not None else 0
        self._unopened = known.ends | known.unopened if known is not None else {}

    @property
    def address(self) -> str:
        return str(self._directory)

    @property
    def warnings(self) -> Sequence[str]:
        return ()

    def known_us(self) -> int:
        return self._known_us

    def open(self, dataset: str, primary_key: Sequence[str]) -> SegmentedDataset:
        opened = SegmentedDataset(
            self._directory,
            dataset,
            segment_bytes=self.batch_bytes,
            disk=self._disk,
            known_end=self._unopened.get(dataset, 0),
        )
        self._unopened.pop(dataset, None)
        return opened

    def show(self, ends: Mapping[str, int], last_us: int, *, sync: bool) -> None:
        try:
            self._heads.write(heads.Heads(dict(ends), last_us, self._unopened), sync=sync)
        except OSError as error:  # the records are safe; streams see them at the next commit
            _logger.warning("log.heads_not_written", error=str(error))

    def close(self) -> None:
        self._heads.close()
        os.close(self._lock)


def lock(directory: Path) -> int:
    """Two writers would interleave lines; the system frees the lock when a process dies."""
    handle = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise Conflict(
            f"another process uses the publication log in {directory}",
            hint="stop it, or choose another data directory",
        ) from None
    return handle
