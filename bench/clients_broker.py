"""A broker in a process of its own, that tells how much CPU time it took."""

from __future__ import annotations

import logging
import sys
import time

import psutil
import structlog
import uvloop

from bench.control import answer, orders
from tocsin.broker.server import Broker
from tocsin.settings import Settings


async def main(secret: str, cluster_url: str) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    broker = Broker(
        Settings(
            secret=secret,
            cluster_url=cluster_url,
            coordinator_url="",
            broker_port=0,
            broker_ws_port=0,
            news_poll_s=60.0,
        )
    )
    await broker.start()
    answer(url=broker.ws_url)
    async for _ in orders():
        answer(cpu_s=time.process_time(), rss_bytes=psutil.Process().memory_info().rss)
    await broker.stop()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:3]))
