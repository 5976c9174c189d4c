"""Where live points are played: Kafka, MariaDB and a whole system, up for as long as they last."""

from __future__ import annotations

import contextlib
import secrets
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tocsin.dev.kafka import Kafka
from tocsin.dev.mariadb import MariaDB
from tocsin.dev.throwaway import Throwaway
from tocsin.errors import TocsinError
from tocsin.lab.live.consumer_logs.player import OfferPlayer
from tocsin.lab.live.system import running
from tocsin.lab.spec.progress import Progress
from tocsin.settings import SHORT_LIVED_JAVA, Settings
from tocsin.storage.log.kafka import KafkaAddress
from tocsin.storage.store.dialect import dialect_of


@contextlib.contextmanager
def staged(progress: Progress, *, log: str, database: str, mark_s: float) -> Iterator[OfferPlayer]:
    """On the servers that are named, else on some of its own that end with it."""
    if log:
        KafkaAddress.parse(log)
    if database:
        dialect_of(database)
    with contextlib.ExitStack() as until:
        servers = until.enter_context(Throwaway())
        for kind in (Kafka,) * (not log) + (MariaDB,) * (not database):
            kind.install(progress)
        progress.begin("starting Kafka, MariaDB, Spark", 0)
        data = until.enter_context(tempfile.TemporaryDirectory(prefix="tocsin-live-"))
        settings = Settings(
            data=Path(data),
            java_options=SHORT_LIVED_JAVA,
            warm_up=False,
            log=log or servers.start(Kafka).url,
            # What a database costs is measured: let it be as durable as it is elsewhere.
            store=database or servers.start(MariaDB, short_lived=False).fresh(),
            real_time_slots=0,  # all policies alike: those that count run in micro-batches
            consumer_log_mark_s=mark_s,
            flush_interval_s=3600.0,  # nothing else works meanwhile
        )
        runner, system = until.enter_context(running(settings, brokers=0))
        player = OfferPlayer(runner, system, f"offers_{secrets.token_hex(4)}")
        try:
            yield player
        finally:
            with contextlib.suppress(TocsinError):  # what ended it is told
                player.close()
