"""A cluster without Spark, whose runs find what they are told to, or a broker of it: each in a
process of its own, so that its CPU time is its own."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any, cast

from bench.control import answer, orders
from tocsin.broker.machine.core import BrokerCore
from tocsin.broker.server.server import Broker
from tocsin.cluster.cluster import Cluster
from tocsin.cluster.service import app
from tocsin.model import Channel, Dataset
from tocsin.service.hosting import hosting
from tocsin.service.logs import configure_logs
from tocsin.service.serving import listen, port_of
from tocsin.settings import Settings
from tocsin.storage.store.runs import Run
from tocsin.storage.store.store import Store
from tocsin.storage.store.subscribing import Wish

SECRET = "a secret that only this benchmark knows"
CHANNEL = Channel("found", "continuous", (), "", reads=("reports",), new=("reports",))
PAYLOAD = b'{"type":"flood","severity":3,"message":"' + b"x" * 100 + b'"}'
BROKER = "bench"


class SparklessCluster(Cluster):
    async def _keep_engine(self) -> None:
        await asyncio.Event().wait()


async def cluster() -> None:
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder:
        settings = Settings(data=Path(folder), secret=SECRET)
        listener = listen("127.0.0.1", 0)
        with Store.open(f"sqlite:///{folder}/store.db") as store:
            made = SparklessCluster(settings, store)
            async with made, hosting(settings, partial(app, made), listener, None):
                answer(url=f"http://127.0.0.1:{port_of(listener)}")
                await _obey(made)
                made.routed.close()


async def _obey(made: Cluster) -> None:
    store = made.store
    backends: list[int] = []
    runs = itertools.count()
    async for order in orders():
        if "sets" in order:
            store.catalog.create_dataset(Dataset("reports", ()))
            store.catalog.create_channel(CHANNEL)
            for name in order.get("brokers", [BROKER]):  # each has somebody for every set
                store.catalog.put_broker(name, "http://127.0.0.1:1")
                wishes = [Wish(name, CHANNEL.name, {"n": n}, name) for n in range(order["sets"])]
                subscribed = await asyncio.to_thread(store.subscriptions.subscribe_all, wishes)
                backends = [one.backend.id for one, _ in subscribed]
            await made.notifier.start()  # it knows the broker from now on
        elif "rows" in order:
            run, size = next(runs), order["rows"]
            rows = [
                (backends[n % len(backends)], PAYLOAD) for n in range(run * size, (run + 1) * size)
            ]
            await asyncio.to_thread(_commit, made, f"run-{run}", sorted(rows))
        answer(cpu_s=time.process_time())


def _commit(made: Cluster, name: str, rows: list[tuple[int, bytes]]) -> None:
    now = time.time()
    run = Run(CHANNEL.name, name, now, now)
    committed = made.store.runs.commit_run(run, rows, list(range(len(rows))))
    assert committed is not None
    made._committed(CHANNEL, committed)


async def broker(cluster_url: str, folder: str, name: str = BROKER) -> None:
    os.chdir(folder)
    settings = Settings(
        secret=SECRET,
        broker_name=name,
        cluster_url=cluster_url,
        coordinator_url="http://127.0.0.1:1",
        broker_port=0,
        broker_ws_port=0,
        cache_bytes=1 << 30,
        log_level="critical",
    )
    made = Broker(settings)
    await made.start()
    answer(url=made.url)
    async for order in orders():
        if "keeps" in order:
            cast(Any, BrokerCore).keeps_results = bool(order["keeps"])
        cache: Any = made.driver.core.cache
        answer(
            cpu_s=time.process_time(),
            inserted=cache.counters.inserted,
            fetched_bytes=made.driver.link.fetched_bytes,
        )
    await made.stop()


if __name__ == "__main__":
    configure_logs("critical", "console")  # standard output is for answers
    part, *given = sys.argv[1:]
    asyncio.run(cluster() if part == "cluster" else broker(*given))
