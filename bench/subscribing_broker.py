"""A broker's process for the bench of subscribing: it loads its subscriptions, and says how long
that took and how much they weigh."""

from __future__ import annotations

import asyncio
import sys
import time

from bench.control import answer
from bench.subscribing_server import rss_bytes
from tocsin.broker.machine.core import BrokerCore
from tocsin.broker.server.cluster_link import ClusterLink
from tocsin.broker.server.encoding import subscription_of
from tocsin.policies import parse_policy
from tocsin.service.keys.credentials import GivenCredential


async def main(url: str, name: str, token: str) -> None:
    core = BrokerCore(parse_policy("lsc"), 64 * 1024 * 1024, 0.0)
    link = ClusterLink(url, GivenCredential(token), name, timeout_s=60.0)
    before, began, cpu_s = rss_bytes(), time.perf_counter(), time.process_time()
    after, asked = 0, core.query_token
    while True:
        page = await link.load(after)
        subscriptions = [subscription_of(info) for info in page.subscriptions]
        now = time.monotonic()
        core.loaded(page.sequence, subscriptions, asked, now, begins=after == 0, upto=page.upto)
        if page.upto is None:
            break
        after = page.upto
    took_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu_s
    del page, subscriptions
    count = len(core.table.frontends)
    answer(count=count, took_s=took_s, cpu_s=cpu_s, rss_bytes=rss_bytes() - before)
    await link.close()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
