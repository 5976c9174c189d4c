"""Results and parameter sets a second, stored in bulk on each database, against an INSERT for each.

Both write the same rows by the same durable transactions, in turns; only how the rows go in
differs.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from sqlalchemy import Connection, Table

from bench.findings import Finding
from tocsin.dev.mariadb import MariaDB
from tocsin.dev.postgresql import PostgreSQL
from tocsin.dev.throwaway import Throwaway
from tocsin.model import Channel, Dataset
from tocsin.storage.store.dialect import Dialect, dialect_of
from tocsin.storage.store.runs import Run
from tocsin.storage.store.store import Store
from tocsin.storage.store.subscribing import Wish

PAYLOAD = b'{"type":"flood","severity":3,"message":"' + b"x" * 200 + b'"}'
BACKENDS = 1_000
ROUNDS = 5


def run(quick: bool, say: Callable[[str], None]) -> list[Finding]:
    count = 2_000 if quick else 20_000
    findings: list[Finding] = []
    with Throwaway() as servers, tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder:
        stores: dict[str, Callable[[], str]] = {
            "SQLite": lambda: f"sqlite:///{Path(folder)}/store.db",
            "PostgreSQL": lambda: servers.start(PostgreSQL, short_lived=False).fresh(),
            "MariaDB": lambda: servers.start(MariaDB, short_lived=False).fresh(),
        }
        for name, address in stores.items():
            say(f"starting {name}")
            findings += _findings(name, address(), count, say)
    return findings


def _findings(name: str, address: str, count: int, say: Callable[[str], None]) -> Iterator[Finding]:
    with Store.open(address) as store:
        store.catalog.create_dataset(Dataset("reports", ()))
        for channel in ("results", "parameter sets"):
            store.catalog.create_channel(
                Channel(channel, "continuous", (), "", reads=("reports",), new=("reports",))
            )
        wishes = [Wish("me", "results", {"n": number}) for number in range(BACKENDS)]
        backends = [one.backend.id for one, _ in store.subscriptions.subscribe_all(wishes)]
        rows = [(backends[number % BACKENDS], PAYLOAD) for number in range(count)]

        def results(turn: str) -> None:
            assert store.runs.commit_run(Run("results", turn, 1.0, 2.0), rows) is not None

        def parameter_sets(turn: str) -> None:
            store.subscriptions.subscribe_all(
                [Wish(turn, "parameter sets", {turn: number}) for number in range(count // 4)]
            )

        for what, write, size in (
            ("results", results, count),
            ("parameter sets", parameter_sets, count // 4),
        ):
            say(f"{size:,} {what} at once on {name}")
            bulk, single = [], []
            for number in range(ROUNDS):
                bulk.append(size / _timed(write, f"bulk-{number}"))
                with _one_by_one(address):
                    single.append(size / _timed(write, f"single-{number}"))
            yield Finding(
                claim=f"{what} stored, {name}",
                unit="/s",
                ours=median(bulk),
                baseline=median(single),
                baseline_is="the same transactions, one INSERT per row",
                details={
                    "rounds": {"ours": bulk, "baseline": single},
                    "rows_at_once": size,
                    "payload_bytes": len(PAYLOAD) if what == "results" else None,
                },
            )


def _timed(write: Callable[[str], None], turn: str) -> float:
    started = time.perf_counter()
    write(turn)
    return time.perf_counter() - started


@contextmanager
def _one_by_one(address: str) -> Iterator[None]:
    """Each row goes in by a statement of its own."""
    dialect: Any = type(dialect_of(address))
    own = dialect.__dict__.get("insert_many")

    def insert_many(
        self: Dialect,
        connection: Connection,
        table: Table,
        columns: tuple[str, ...],
        rows: Sequence[tuple[Any, ...]],
    ) -> None:
        for row in rows:
            Dialect.insert_many(self, connection, table, columns, [row])

    dialect.insert_many = insert_many
    try:
        yield
    finally:
        if own is None:
            del dialect.insert_many
        else:
            dialect.insert_many = own
