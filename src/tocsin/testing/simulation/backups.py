"""Copies of the store's file, and whether one still fits what lies beside it.

A store is restored alone only while its records lie in the files that it knows: the real cluster
refuses any other, and its operator restores everything, the log too. That is no world's business.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tocsin.storage.store.incarnation import Seen, read_note
from tocsin.testing.simulation.cluster_memory import Life


@dataclass(frozen=True)
class Backup:
    data: bytes
    seen: Seen
    files: frozenset[str]  # that were live
    repairs: int  # until then, of the log: what they lost is told by the store alone

    def fits(self, directory: Path, life: Life, repairs: int) -> bool:
        """Whether it may replace the store as it is now, and the cluster would notice."""
        note = read_note(directory)
        if note is None or not note.is_ahead_of(self.seen):
            return False
        return (self.files, self.repairs) == (_live(life), repairs)

    def restore(self, file: Path) -> None:
        file.with_name(f"{file.name}-wal").unlink(missing_ok=True)
        file.write_bytes(self.data)


def back_up(file: Path, life: Life, repairs: int) -> Backup:
    with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(":memory:")) as copy:
        source.backup(copy)
        data = copy.serialize()
    return Backup(data, life.store.incarnation.seen(), _live(life), repairs)


def _live(life: Life) -> frozenset[str]:
    return frozenset(path for path, is_live in life.store.files.paths() if is_live)
