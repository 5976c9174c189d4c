"""Consumer logs: values shared by reference, against a copy of the value in every log.

The results of one run are delivered to many consumers that share few subscriptions, in both layouts
on the same Kafka: results a second through delivery, bytes stored and read, and the time from a
commit to a consumer. Spark is not part of it: runs are committed to a store on SQLite.
"""

from __future__ import annotations

import statistics
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import msgspec

from bench.findings import Finding
from tocsin.client import consumer_log
from tocsin.cluster.deliveries import Deliveries
from tocsin.dev.kafka import Kafka
from tocsin.dev.throwaway import Throwaway
from tocsin.model import Channel, Dataset, Delivery, Parameter, Subscription
from tocsin.settings import Settings
from tocsin.storage.store.runs import Run
from tocsin.storage.store.store import Store

CONSUMERS = 20
VALUE_BYTES = 1000


class Measured(msgspec.Struct, frozen=True):
    results_a_second: float
    stored_bytes: int
    read_bytes: int
    latency_ms: float


def run(quick: bool, say: Callable[[str], None]) -> list[Finding]:
    records, rounds = (200, 20) if quick else (2000, 100)
    with Throwaway() as servers, tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder:
        kafka = servers.start(Kafka)
        found = {}
        for shared in (True, False):
            say("shared" if shared else "copied")
            found[shared] = _measure(kafka, Path(folder) / str(shared), shared, records, rounds)
    ours, theirs = found[True], found[False]
    details = {"consumers": CONSUMERS, "value_bytes": VALUE_BYTES, "records": records}
    copies = "the value in every consumer's log"

    def finding(claim: str, unit: str, field: str, *, less: bool = True) -> Finding:
        return Finding(
            claim=f"shared log, {CONSUMERS} consumers: {claim}",
            unit=unit,
            ours=getattr(ours, field),
            baseline=getattr(theirs, field),
            baseline_is=copies,
            lower_is_better=less,
            details=details,
        )

    return [
        finding("records delivered", "/s", "results_a_second", less=False),
        finding("stored in Kafka", "bytes", "stored_bytes"),
        finding("read by one consumer", "bytes", "read_bytes"),
        finding("commit to consumer, p50", "ms", "latency_ms"),
    ]


def _measure(kafka: Kafka, place: Path, shared: bool, records: int, rounds: int) -> Measured:
    place.mkdir()
    before_bytes = _size_bytes(kafka)
    settings = Settings(log=f"{kafka.url}/{uuid.uuid4().hex}", store=f"sqlite:///{place}/store.db")
    with Store.open(settings.store) as store:
        deliveries = Deliveries(settings, store)
        subscriptions = _furnish(store, shared)
        deliveries.start(store.catalog.channels())
        for one in subscriptions:
            deliveries.subscribed(one)
        (backend,) = {one.backend.id for one in subscriptions}
        try:
            with consumer_log(settings.log, subscriptions[-1].id, 0) as log:
                _commit(store, deliveries, backend, 1)
                assert log.take(60)  # all is up
                began = time.perf_counter()
                _commit(store, deliveries, backend, records)
                assert all(log.take(60) for _ in range(records))
                took_s = time.perf_counter() - began
                read_bytes = log.bytes_read
                stored_bytes = _size_bytes(kafka) - before_bytes
                waits = []
                for _ in range(rounds):
                    began = time.perf_counter()
                    _commit(store, deliveries, backend, 1)
                    assert log.take(60)
                    waits.append(1000 * (time.perf_counter() - began))
        finally:
            deliveries.stop()
    rate = records * CONSUMERS / took_s
    return Measured(rate, stored_bytes, read_bytes, statistics.median(waits))


def _furnish(store: Store, shared: bool) -> list[Subscription]:
    store.catalog.create_dataset(Dataset("reports", ()))
    store.catalog.create_channel(
        Channel(
            name="alerts",
            kind="continuous",
            parameters=(Parameter("kind", "STRING"),),
            query="SELECT * FROM NEW reports WHERE kind = :kind",
            reads=("reports",),
            new=("reports",),
            delivery=Delivery(shared=shared),
        )
    )
    return [
        store.subscriptions.subscribe(f"consumer-{one}", "alerts", {"kind": "flood"}, None)[0]
        for one in range(CONSUMERS)
    ]


def _commit(store: Store, deliveries: Deliveries, backend: int, count: int) -> None:
    """Values that do not compress to nothing."""
    now = time.time()
    texts = ["".join(uuid.uuid4().hex for _ in range(VALUE_BYTES // 32)) for _ in range(count)]
    rows = [(backend, msgspec.json.encode({"text": text})) for text in texts]
    run_ = Run("alerts", f"batch-{time.monotonic_ns()}", now, now)
    store.runs.commit_run(run_, rows, list(range(count)))
    deliveries.committed("alerts")


def _size_bytes(kafka: Kafka) -> int:
    """Of the consumer logs and the shared one, as Kafka keeps them."""
    logs = [*kafka.data.glob("*.consumer.*/*.log"), *kafka.data.glob("*.shared.*/*.log")]
    return sum(one.stat().st_size for one in logs)
