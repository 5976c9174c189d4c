"""Open the store of a cluster that starts: a database or Kafka that is not there yet is waited for,
and so is, by a standby, another cluster that leads.

Meanwhile every call is told what the cluster waits for (`standing_by`). What no waiting mends (a
wrong password, another cluster on the store of one that is no standby) is raised at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import structlog

from tocsin import durable
from tocsin.backoff import Backoff
from tocsin.cluster.standing_by import WithoutStore, keep_awake, require_servers
from tocsin.errors import Unavailable
from tocsin.service.hosting import hosting
from tocsin.service.listener import Listener
from tocsin.service.tls import Certificate
from tocsin.settings import Settings
from tocsin.spark.warm_session import WarmSession
from tocsin.storage import tables
from tocsin.storage.backup.notes import require_startable
from tocsin.storage.log import check_reachable
from tocsin.storage.store.standby import Standby
from tocsin.storage.store.store import Store

log = structlog.get_logger()


async def opened_store(
    settings: Settings,
    listener: Listener,
    certificate: Certificate | None = None,
    *,
    address: str = "",
    warm: WarmSession | None = None,
) -> Store:
    """`address`: where this cluster is called. `warm`: a standby's Spark, to be kept awake."""
    standby = Standby() if settings.standby else None
    open_it = partial(open_store, settings, address=address, standby=standby)
    waiting = WithoutStore(settings, warm, standby)
    if standby is not None:
        require_servers(settings)
    else:
        try:
            return await asyncio.to_thread(open_it)
        except Unavailable as error:
            waiting.waits(error)
    # Serving closes what it is given.
    async with hosting(settings, lambda _: waiting.app(), listener.dup(), certificate):
        opening = asyncio.create_task(_opened(open_it, waiting))
        awake = None if warm is None else asyncio.create_task(keep_awake(warm))
        try:
            await asyncio.wait(
                [task for task in (opening, awake) if task is not None],
                return_when=asyncio.FIRST_COMPLETED,
            )
            if not opening.done() and awake is not None:
                awake.result()  # it only ends by failing: no Java, say
            return await opening
        finally:
            if standby is not None:
                standby.stop()
            for task in (opening, awake):
                if task is not None:
                    task.cancel()


async def _opened(open_it: Callable[[], Store], waiting: WithoutStore) -> Store:
    backoff = Backoff(Random(), first_s=0.2, most_s=2.0)
    while True:
        try:
            store = await asyncio.to_thread(open_it)
        except Unavailable as error:
            waiting.waits(error)
            await asyncio.sleep(backoff.next_s())
        else:
            log.info("the cluster has its store", lease=store.lease.number)
            return store


def open_store(settings: Settings, *, address: str = "", standby: Standby | None = None) -> Store:
    data = Path(settings.data).absolute()
    require_startable(data)
    durable.make_directory(data)
    check_reachable(settings.log)
    tables.check_reachable(settings.tables)
    store_address = settings.store or f"sqlite:///{data / 'store.db'}"
    lease_s = settings.store_lease_s
    store = Store.open(
        store_address,
        busy_timeout_s=max(10.0, 2 * lease_s),
        lease_s=lease_s,
        address=address,
        standby=standby,
    )
    if store.risk is not None:
        log.warning("the store may lose commits at a power cut", reason=store.risk)
    return store
