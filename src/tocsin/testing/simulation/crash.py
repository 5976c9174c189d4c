"""What a crash leaves of the store's file, and what an operator does about a damaged log."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tocsin.storage.log.segments.repair import Repair
from tocsin.storage.store.database import Database
from tocsin.storage.store.store import Store

FULL = 2  # SQLite's synchronous=FULL: a commit is on the disk when it returns


def abandon(database: Database, file: Path, random: Random, *, power: bool) -> None:
    """SQLite tidies up when it is closed in order: so its files are put back as they were. With the
    power goes what it did not wait for."""
    wal = file.with_name(file.name + "-wal")
    kept = {path: path.read_bytes() for path in (file, wal) if path.exists()}
    with database.engine.connect() as connection:
        synchronous = connection.exec_driver_sql("PRAGMA synchronous").scalar()
    if power and synchronous != FULL and wal in kept:
        kept[wal] = kept[wal][: random.randint(0, len(kept[wal]))]
    database.close()
    for path, data in kept.items():
        path.write_bytes(data)


def repair(log: Path, store: Store) -> None:
    """As `tocsin repair --cut` does, while the cluster is down."""
    with Repair(log) as repairing:
        for dataset in repairing.datasets:
            damage = [hole for holes in repairing.look(dataset) for hole in holes]
            if damage:
                repairing.mend(dataset, damage, copy=False)
            repairing.report(dataset, store.gaps.records_lost)
