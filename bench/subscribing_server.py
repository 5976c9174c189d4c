"""A cluster's process for the bench of subscribing: all of it but Spark.

Spark's part of a parameter set in this process, its columns, is loaded when it is asked for.
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import uvloop

from bench.control import answer, orders
from tocsin.cluster.cluster import Cluster
from tocsin.cluster.service import app
from tocsin.model import Channel, Parameter
from tocsin.service.hosting import hosting
from tocsin.service.logs import configure_logs
from tocsin.service.serving import listen, port_of
from tocsin.settings import Settings
from tocsin.spark.channels.argument_columns import ArgumentColumns
from tocsin.storage.store.store import Store

CHANNEL = Channel(
    "wanted",
    "continuous",
    (Parameter("kind", "STRING"), Parameter("level", "INT")),
    "SELECT r.kind FROM NEW reports AS r WHERE r.kind = :kind AND r.level > :level",
    reads=("reports",),
    new=("reports",),
    created_at=1.0,
)


class _NoEngine:
    """Takes every argument: what Spark would say to it is not measured."""

    absence: str | None = None
    trouble: str | None = None

    def vouches(self, *_: Any) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: None


class _WithoutSpark(Cluster):
    async def _keep_engine(self) -> None:
        self._engine: Any = _NoEngine()
        await asyncio.Event().wait()


def rss_bytes() -> int:
    gc.collect()
    fields = Path("/proc/self/statm").read_text().split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")


def _columns(store: Store) -> ArgumentColumns:
    columns = ArgumentColumns(CHANNEL.parameters)
    for backend, arguments in store.subscriptions.parameter_sets(CHANNEL.name):
        columns.add(backend, arguments)
    columns.settle()
    return columns


async def main(directory: str, secret: str) -> None:
    sys.setswitchinterval(0.0002)  # as the service does
    settings = Settings(data=Path(directory), secret=secret, cluster_port=0)
    listener = listen("127.0.0.1", 0)
    kept = []
    with Store.open(f"sqlite:///{directory}/store.db") as store:
        async with (
            _WithoutSpark(settings, store) as cluster,
            hosting(settings, partial(app, cluster), listener, None),
        ):
            answer(port=port_of(listener))
            async for order in orders():
                began = time.perf_counter()
                if order["op"] == "channel":
                    store.catalog.create_channel(CHANNEL)
                elif order["op"] == "columns":
                    kept.append(await asyncio.to_thread(_columns, store))
                answer(
                    cpu_s=time.process_time(),
                    rss_bytes=rss_bytes(),
                    took_s=time.perf_counter() - began,
                )
            cluster.routed.close()


if __name__ == "__main__":
    configure_logs("error", "json")  # standard output is the benchmark's
    uvloop.run(main(*sys.argv[1:]))
