"""`tocsin writer`: it takes matches from Kafka into the store, and tells the cluster that leads.

It holds no claim and knows no leader: each commit finds out by the row of its partition whether it
is still to be made (`storage.store.match_progress`). So it goes on while nobody leads, and may be
killed or frozen at any moment.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial

import structlog
from starlette.applications import Starlette

from tocsin.clock import Clock, boot_of_machine
from tocsin.cluster.matches import MatchConsumer
from tocsin.cluster.writing.telling import Telling
from tocsin.errors import SettingError, Unavailable
from tocsin.service.connections import ConnectionLimits, Connections
from tocsin.service.exposure import exposure_of
from tocsin.service.hosting import hosting, scheme
from tocsin.service.keys.credentials import writer_credential
from tocsin.service.keys.verifier import TokenVerifier
from tocsin.service.listener import Listener
from tocsin.service.serving import listen, port_of, until_stopped
from tocsin.service.tls import Certificate, certificate_of
from tocsin.service.web import application
from tocsin.settings import Settings
from tocsin.storage.log.kafka import KafkaAddress
from tocsin.storage.log.kafka.address import is_kafka
from tocsin.storage.store.joined import JoinedStore
from tocsin.storage.store.runs import Committed

log = structlog.get_logger()

AGAIN_S = 1.0


class WriterState:
    """What /healthz says."""

    def __init__(self) -> None:
        self.waits_for: str | None = "the store"
        self.consumer: MatchConsumer | None = None

    @property
    def trouble(self) -> str | None:
        if self.consumer is None:
            return self.waits_for
        return "; ".join(self.consumer.troubles.lasting()) or None


def require_servers(settings: Settings) -> None:
    on_files = not settings.store or settings.store.startswith("sqlite")
    if not is_kafka(settings.log) or on_files:
        raise SettingError(
            "a writer of matches needs a log on Kafka and a store on a database server",
            field="store" if on_files else "log",
            hint="name those that the cluster runs with: --log kafka://… --store postgresql://…",
        )


def app(settings: Settings, state: WriterState, inner: bool = False) -> Starlette:
    return application(
        "Tocsin writer of matches",
        [],
        verifier=TokenVerifier.of(settings),
        limit_bytes=settings.body_limit_bytes,
        trouble=lambda: state.trouble,
        exposure=exposure_of(settings),
        inner=inner,
    )


async def run(settings: Settings) -> None:
    """Until a signal asks to stop."""
    require_servers(settings)
    credential = writer_credential(settings)
    certificate = certificate_of(settings)
    connections = Connections(ConnectionLimits.of(settings))
    listener = listen(settings.host, settings.writer_port, "writer_port", connections)
    telling = Telling(settings.cluster_url, credential, settings.authority)
    state, loop = WriterState(), asyncio.get_running_loop()

    def tell(committed: Committed) -> None:
        loop.call_soon_threadsafe(telling.committed, committed)

    async with _served(settings, state, listener, certificate):
        log.info("the writer listens", url=_url(settings, listener))
        stopped = asyncio.create_task(until_stopped())
        store = await _joined(settings, state, stopped)
        if store is None:
            return
        teller = asyncio.create_task(telling.run())
        consumer = state.consumer = MatchConsumer(
            KafkaAddress.parse(settings.log),
            store.matches,
            tell,
            result_limit_bytes=settings.result_limit_bytes,
            leads=False,
        )
        consumer.start()
        try:
            await asyncio.wait({stopped, teller}, return_when=asyncio.FIRST_COMPLETED)
            if teller.done():
                teller.result()
        finally:
            await asyncio.to_thread(consumer.stop)
            teller.cancel()
            await asyncio.gather(teller, return_exceptions=True)
            await asyncio.to_thread(store.close)


def _url(settings: Settings, listener: Listener) -> str:
    return f"{scheme(settings)}://{settings.host}:{port_of(listener)}"


def _served(
    settings: Settings, state: WriterState, listener: Listener, certificate: Certificate | None
) -> contextlib.AbstractAsyncContextManager[None]:
    return hosting(settings, partial(app, settings, state), listener, certificate)


async def _joined(
    settings: Settings, state: WriterState, stopped: asyncio.Task[None]
) -> JoinedStore | None:
    """The store, once a cluster has made it; None: the writer is stopped."""
    while not stopped.done():
        try:
            store = await asyncio.to_thread(
                JoinedStore.open, settings.store, lease_s=settings.store_lease_s
            )
        except Unavailable as error:
            state.waits_for = error.message
            await asyncio.wait({stopped}, timeout=AGAIN_S)
        else:
            left = store.clock_mark()
            clock = Clock(boot=boot_of_machine(), left=left, doubt_s=settings.clock_doubt_s)
            store.use_clock(clock.now)
            state.waits_for = None
            return store
    return None
