"""What records, results, sets and subscriptions take on disk, in a log and a store of their own."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from bench.forward_server import CHANNEL, PAYLOAD
from tocsin.lab.capacity.costs import StorageCosts
from tocsin.model import Dataset
from tocsin.storage.log import open_log
from tocsin.storage.store.runs import Run
from tocsin.storage.store.store import Store
from tocsin.storage.store.subscribing import Wish

COUNT = 20_000
BROKER = "bench"
STEMS = [f"{first}{second}" for first in "bcdfghklmnprstvw" for second in ("a", "ei", "o", "ur")]
ENDS = ("", "n", "ld", "st", "ring", "ted", "mer", "ly")


def measure() -> StorageCosts:
    """SQLite's and the segments' bytes; a database server's differ by its own."""
    records = [_record(number) for number in range(COUNT)]
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as place:
        folder = Path(place)
        own_bytes = sum(map(len, records))
        log_bytes = _log(folder / "log", records) - own_bytes
        rows = pa.array([record.decode() for record in records])
        pq.write_table(pa.table({"record": rows}), folder / "records.parquet")
        parquet_bytes = (folder / "records.parquet").stat().st_size
        by_set, by_subscription, by_result = _store(folder / "store.db")
    return StorageCosts(
        log_bytes_per_record=max(0.0, log_bytes / COUNT),
        parquet_share=parquet_bytes / own_bytes,
        store_bytes_per_result=max(0.0, by_result - len(PAYLOAD)),
        store_bytes_per_set=max(0.0, by_set - by_subscription),
        store_bytes_per_subscription=by_subscription,
    )


def _record(number: int) -> bytes:
    """As those of `sustain`, but no two say the same: files of repeated text say nothing."""
    chance = random.Random(number)
    words = " ".join(f"{chance.choice(STEMS)}{chance.choice(ENDS)}" for _ in range(20))
    record = {"number": number, "due_us": number, "kind": f"kind-{number}", "message": words}
    return msgspec.json.encode(record)


def _log(folder: Path, records: list[bytes]) -> int:
    with open_log(folder, segment_bytes=1 << 30) as log:
        log.open_dataset("reports")
        for begin in range(0, len(records), 50):
            log.append("reports", records[begin : begin + 50]).result()
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def _store(file: Path) -> tuple[float, float, float]:
    """For each set with its first subscription, each further subscription, each result."""
    with Store.open(f"sqlite:///{file}") as store:
        store.catalog.create_dataset(Dataset("reports", ()))
        store.catalog.create_channel(CHANNEL)
        store.catalog.put_broker(BROKER, "http://127.0.0.1:1")
    empty = file.stat().st_size
    first = _grown(file, lambda store: _subscribe(store, "first"))
    second = _grown(file, lambda store: _subscribe(store, "second"))
    third = _grown(file, _commit)
    return (first - empty) / COUNT, (second - first) / COUNT, (third - second) / COUNT


def _grown(file: Path, doing: Callable[[Store], object]) -> int:
    with Store.open(f"sqlite:///{file}") as store:
        doing(store)
    return file.stat().st_size


def _wishes(subscriber: str) -> Iterable[Wish]:
    return (Wish(subscriber, CHANNEL.name, {"kind": f"kind-{n}"}, BROKER) for n in range(COUNT))


def _subscribe(store: Store, subscriber: str) -> None:
    store.subscriptions.subscribe_all(list(_wishes(subscriber)))


def _commit(store: Store) -> None:
    backends = [
        made.backend.id for made, _ in store.subscriptions.subscribe_all(list(_wishes("second")))
    ]
    run = Run(CHANNEL.name, "run", 1.0, 2.0)
    rows = [(backend, PAYLOAD) for backend in backends]
    assert store.runs.commit_run(run, rows, list(range(COUNT))) is not None
