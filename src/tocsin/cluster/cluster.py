"""The data cluster: catalog, log, store, Spark and notices joined into the operations people call.

Statements and REST routes both end here. Everything blocking runs on threads; the event loop only
waits. Nothing durable lives in this object.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from subprocess import Popen
from typing import TYPE_CHECKING, TypeVar

import structlog

from tocsin.backoff import Backoff
from tocsin.clock import Clock, boot_of_machine
from tocsin.cluster.attachments import AttachmentStore, Mentions
from tocsin.cluster.burying import letters_of
from tocsin.cluster.deliveries import Deliveries
from tocsin.cluster.deliveries.ownership import owner_check
from tocsin.cluster.feeds import Feeds
from tocsin.cluster.inbox import Inbox
from tocsin.cluster.intake import Intake
from tocsin.cluster.log_positions import newest_time, open_dataset
from tocsin.cluster.notices import Notifier
from tocsin.cluster.permissions import Permissions
from tocsin.cluster.routed_stream import Routed
from tocsin.cluster.routing import Routing
from tocsin.cluster.subscriptions import Subscriptions
from tocsin.cluster.throttle import Throttle
from tocsin.errors import (
    Conflict,
    InvalidInput,
    NotFound,
    TocsinError,
    Unavailable,
    is_bug,
)
from tocsin.intake.dead_letters import DEAD_LETTERS
from tocsin.intake.formats import RawRecord, Unreadable
from tocsin.intake.large_bodies import LargeBodies
from tocsin.intake.sorting import Elsewhere
from tocsin.model import (
    Broker,
    Channel,
    Dataset,
    attachments_of,
)
from tocsin.protocol.publishing import Published
from tocsin.service.addresses import checked_address
from tocsin.service.disks import full_disks
from tocsin.service.keys.notices import NoticeSecrets
from tocsin.service.keys.verifier import TokenVerifier
from tocsin.service.tokens import Identity
from tocsin.settings import Settings
from tocsin.spark.adhoc import Answer
from tocsin.spark.asking import Record
from tocsin.spark.engine import Engine
from tocsin.spark.java_environment import kill_newer, newest_java
from tocsin.spark.session import runs_in_real_time
from tocsin.spark.warm_session import WarmSession
from tocsin.sql import CreateChannel
from tocsin.sql.tokens import NAME, NAME_RULE
from tocsin.storage.content import open_content
from tocsin.storage.data_directory import DataDirectory
from tocsin.storage.log import open_log, open_reader
from tocsin.storage.log.kafka import KafkaAddress
from tocsin.storage.store.incarnation import Seen, read_note, write_note
from tocsin.storage.store.runs import Committed
from tocsin.storage.store.store import Store
from tocsin.storage.tables import open_tables

if TYPE_CHECKING:
    from tocsin.cluster.match_watch import MatchWatch
    from tocsin.cluster.matches import MatchConsumer

log = structlog.get_logger()

T = TypeVar("T")

COLLECT_EVERY_S = 3600.0
NOTE_EVERY_S = 10.0
IDENTIFIED_S = 30.0
KILL_EVERY_S = 0.1
STEADY_S = 60.0  # Spark that ran so long was a good one: the next failure starts small


class Cluster:
    """One data cluster. Use as an async context manager."""

    def __init__(
        self,
        settings: Settings,
        store: Store,
        warm: WarmSession | None = None,
        at_last: AsyncExitStack | None = None,
    ) -> None:
        """The store stays its opener's to close. `warm` is taken by the first engine. What may end
        after somebody else has the store is left to `at_last`."""
        self._warm = warm
        self._at_last = at_last
        self._halted: Engine | None = None
        self.settings = settings
        self.verifier = TokenVerifier.of(settings)
        self.store = store
        self.clock = Clock(
            boot=boot_of_machine(), left=store.clock_mark(), doubt_s=settings.clock_doubt_s
        )
        self.clock.reach(newest_time(store))
        store.use_clock(self.clock.now)
        data = Path(settings.data).absolute()
        log_address = settings.log or str(data / "log")
        self._held = DataDirectory(data, log_address, store)
        try:
            self.tables = open_tables(settings, store)
        except BaseException:
            self._held.close()
            raise
        self._data = data
        self._follow_note()
        self.log = open_log(
            log_address,
            segment_bytes=settings.segment_bytes,
            record_limit_bytes=settings.record_limit_bytes,
            owner=store.mark,
            leadership=store.lease,
            not_before_us=self.store.progress.latest_us(),
            clock=self.clock.now,
        )
        self.attachments = self._open_attachments(data)
        self._directories = (
            data,
            None if "://" in log_address else Path(log_address),
            store.directory,
            self.attachments.content.incoming,
        )
        self.intake = Intake(
            self.log, self.store.catalog.dataset, settings.record_limit_bytes, self.attachments
        )
        self.large_bodies = LargeBodies(settings.body_limit_bytes)
        self.inbox = Inbox(data / "inbox", self.intake, self.store.catalog.dataset)
        self.feeds = Feeds(settings, self.intake, self.store.feeds)
        self.permissions = Permissions(self.store.grants)
        self.throttle = Throttle(self.store.quotas)
        self.notice_secrets = NoticeSecrets(settings)
        self.notifier = Notifier(self.store, self.notice_secrets.of, settings.authority)
        owners = owner_check(self.permissions, self._identify)
        self.deliveries = Deliveries(settings, self.store, owners)
        self.routing = Routing(self.store, self.log, self.tables)
        self.subscriptions = Subscriptions(
            self.store,
            self.log,
            self.routing,
            self.deliveries,
            self.notifier,
            self.permissions,
            engine=lambda: self._engine,
        )
        self._mentions = Mentions(self.store, self.log, self.tables)
        self._matches = self._match_consumer()
        self._engine: Engine | None = None
        self._engine_starts = 0
        self._changing = asyncio.Lock()  # one statement at a time changes the catalog
        self._tasks: list[asyncio.Task[None]] = []

    def _identify(self, token: str) -> Identity:
        """For other threads than the loop's."""
        asking = self.verifier.identify(token)
        return asyncio.run_coroutine_threadsafe(asking, self._loop).result(IDENTIFIED_S)

    def _open_attachments(self, data: Path) -> AttachmentStore:
        attached = any(attachments_of(dataset) for dataset in self.store.catalog.datasets())
        given, owner = self.settings.attachments, self.store.mark
        content = open_content(
            given, data, owner=owner, expected=attached, require=self.store.lease.require
        )
        return AttachmentStore(content, self.clock.trusted, confirm=self.store.lease.confirm)

    def _follow_note(self) -> None:
        if self.store.follow(read_note(self._data)):
            log.warning(
                "the store was restored from a backup: it begins a new incarnation",
                meaning="what was found since the backup is found again, as far as records are"
                " kept; subscriptions and markers are those of the backup",
            )
        self._noted: Seen | None = None
        self._unnoted: str | None = None  # why it cannot be noted
        self._try_to_note()

    def _note(self) -> None:
        seen = self.store.incarnation.seen()
        if seen != self._noted:
            write_note(self._data, seen)
            self._noted = seen

    def _try_to_note(self) -> None:
        try:
            self._note()
        except Exception as error:  # a full disk, or the store is away: next time
            report = log.exception if is_bug(error) else log.warning
            report("how far the store is was not noted", reason=str(error))
            self._unnoted = (
                f"how far the store is cannot be noted in {self._data}, so that one restored from"
                f" a backup might not be known as such: {error}; let it be written"
            )
        else:
            self._unnoted = None

    async def _keep_note(self) -> None:
        """Of how far the store is, from which a restored one is known."""
        while True:
            await asyncio.sleep(NOTE_EVERY_S)
            await asyncio.to_thread(self._try_to_note)

    def _match_consumer(self) -> MatchConsumer | MatchWatch | None:
        if not runs_in_real_time(self.settings):
            return None
        from tocsin.cluster.match_watch import MatchWatch
        from tocsin.cluster.matches import MatchConsumer

        if self.settings.writers:
            return MatchWatch(KafkaAddress.parse(self.settings.log), self.store.matches)
        return MatchConsumer(
            KafkaAddress.parse(self.settings.log),
            self.store.matches,
            self._matched,
            result_limit_bytes=self.settings.result_limit_bytes,
        )

    def _matched(self, committed: Committed) -> None:
        """Called on the consumer's thread."""
        with contextlib.suppress(NotFound):  # dropped meanwhile
            self._committed(self.store.catalog.channel(committed.channel), committed)

    async def results_stored(self, committed: Committed) -> None:
        """A writer of matches says so."""
        name = committed.channel
        with contextlib.suppress(NotFound):  # dropped meanwhile
            if not self.store.catalog.knows_channel(name):
                await asyncio.to_thread(self.store.catalog.channel, name)
            channel = self.store.catalog.channel(name)
            self.deliveries.committed(name)
            self.notifier.results_committed(channel, committed)

    async def __aenter__(self) -> Cluster:
        self._loop = asyncio.get_running_loop()
        self._store_ended: asyncio.Future[None] = self._loop.create_future()
        self.store.on_end(self._on_store_end)
        self.routed = Routed(self.log, self.verifier.refusal, lambda: self.leads)
        with contextlib.suppress(Conflict):
            self._create_dataset(DEAD_LETTERS)
        with contextlib.closing(open_reader(self.log.address)) as reader:
            for dataset in self.store.catalog.datasets():
                open_dataset(self.log, self.store, self.tables, dataset, reader)
                self.routed.add(dataset)
                self.inbox.open_dataset(dataset.name)
        self.clock.reach(self.log.cut().at_us / 1e6)
        if not self.permissions.in_force:
            log.info(
                "nothing is granted: every token with the scope may subscribe to, publish to and"
                " read everything",
                hint="CREATE ROLE and GRANT change that",
            )
        await self.inbox.recover()
        for dataset in self.store.catalog.datasets():
            self.feeds.start(dataset)
        await self.notifier.start()
        if self._matches is not None:
            await asyncio.to_thread(self._matches.start)
        self.deliveries.start(self.store.catalog.channels())
        self._tasks = [
            asyncio.create_task(self._keep_engine()),
            asyncio.create_task(self.inbox.watch()),
            asyncio.create_task(self._collect()),
            asyncio.create_task(self._keep_note()),
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.routed.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        threads = [self.deliveries.stop, *([] if self._matches is None else [self._matches.stop])]
        stopping = [asyncio.to_thread(stop) for stop in threads]
        await asyncio.gather(self.notifier.stop(), self.feeds.stop(), *stopping)
        self.large_bodies.close()
        await asyncio.to_thread(self.routing.close)
        self.log.close()
        with contextlib.suppress(TocsinError, OSError):  # another has the store, or it is away
            await asyncio.to_thread(self._note)
        self._held.close()
        if self._at_last is None:
            await self._end_spark()
        else:
            self._at_last.push_async_callback(self._end_spark)

    async def _keep_engine(self) -> None:
        """Spark takes seconds to come up; publishing and fetching do not wait for it. When its Java
        process ends, another one is started: channels go on from where the store says."""
        backoff = Backoff(Random(), first_s=0.5, most_s=30.0)
        while True:
            began = time.monotonic()
            try:
                await self._run_engine()
            except Exception as error:
                if self._engine_starts == 0 or is_bug(error):
                    raise  # no Java, say: nothing that time would mend
                log.error("Spark could not be started again", reason=str(error))
            if time.monotonic() - began > STEADY_S:
                backoff.reset()
            await asyncio.sleep(backoff.next_s())

    async def _end_spark(self) -> None:
        """The session of an engine that was halted."""
        engine, self._halted = self._halted, None
        if engine is not None:
            await asyncio.to_thread(engine.end)

    async def _run_engine(self) -> None:
        """Until it is dead."""
        await self._end_spark()
        given = self.settings, self.store, self.log, self.tables, self._committed, self._bury
        warm, self._warm = self._warm, None
        former = newest_java() if warm is None else None
        engine = await _starting(
            lambda: Engine(*given, self.clock, warm.take() if warm else None), former
        )
        try:
            await _starting(engine.start, former)
            self._engine = engine
            self._engine_starts += 1
            log.info("ready", spark=self.settings.master)
            await asyncio.to_thread(engine.until_dead)
        finally:
            self._engine = None
            await asyncio.shield(asyncio.to_thread(engine.halt))
            self._halted = engine

    def _bury(self, channel: str, records: Sequence[tuple[Record, str]], cause: str) -> None:
        """Records that a channel's query failed on become its dead letters. Called on a Spark
        thread; durable when it returns."""
        letters, key = letters_of(channel, records, cause)
        if letters:
            self.log.append(DEAD_LETTERS.name, letters, key).result()

    async def _collect(self) -> None:
        """Delete attachments that nothing has mentioned for a while."""
        grace_s = self.settings.attachment_grace_s
        while True:
            await asyncio.sleep(min(grace_s / 4, COLLECT_EVERY_S))
            try:
                await asyncio.to_thread(self.attachments.collect, self._mentions.look, grace_s)
            except Exception as error:  # a file was just deleted, the store is away: next time
                report = log.exception if is_bug(error) else log.warning
                report("attachments were not collected", reason=str(error))

    def _on_store_end(self, error: TocsinError) -> None:
        """Another cluster has it. Called on any thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended before
            self._loop.call_soon_threadsafe(self._store_ended.set_exception, error)

    async def until_broken(self) -> None:
        """Wait for what the cluster cannot live with, such as no Java, and raise it."""
        await asyncio.gather(*self._tasks, self._store_ended)

    @property
    def leads(self) -> bool:
        """Whether it has the store, as far as it knows."""
        return self.store.lease.held

    @property
    def ready(self) -> bool:
        """Whether statements can be run."""
        engine = self._engine
        return engine is not None and engine.absence is None

    @property
    def trouble(self) -> str | None:
        """Why records do not flow; None: they do."""
        engine = self._engine
        of_spark = self._absence if engine is None else engine.trouble
        of_lease = self.store.lease.trouble
        lasting = [
            *([] if of_lease is None else [of_lease]),
            *([] if of_spark is None else [of_spark]),
            *full_disks(self._directories),
            *(f"dropped file {trouble}" for trouble in self.inbox.troubles.lasting()),
            *([] if self._matches is None else self._matches.troubles.lasting()),
            *(f"dataset {trouble}" for trouble in self.feeds.troubles.lasting()),
            *(f"delivery of channel {trouble}" for trouble in self.deliveries.troubles.lasting()),
        ]
        return "; ".join(lasting) or None

    @property
    def warnings(self) -> list[str]:
        """What may lose what was acknowledged, and what to do: records flow all the same."""
        risk, unnoted = self.store.risk, self._unnoted
        return [
            *([] if risk is None else [f"the store may lose commits at a power cut: {risk}"]),
            *([] if unnoted is None else [unnoted]),
            *self.log.warnings,
        ]

    @property
    def matches_waiting(self) -> int:
        """Found by channels in real-time mode, and not stored yet."""
        return 0 if self._matches is None else self._matches.waiting

    @property
    def engine(self) -> Engine:
        if self._engine is None:
            raise Unavailable(self._absence, hint="try again in a few seconds")
        return self._engine

    @property
    def _absence(self) -> str:
        return "Spark is started again" if self._engine_starts else "Spark is still starting"

    def _committed(self, channel: Channel, committed: Committed) -> None:
        """Called on a thread of the engine."""
        self.deliveries.committed(channel.name)
        self._loop.call_soon_threadsafe(self.notifier.results_committed, channel, committed)

    # Catalog

    async def create_dataset(self, dataset: Dataset) -> None:
        async with self._changing:
            await asyncio.to_thread(self._create_dataset, dataset)
            self.feeds.start(dataset)
            self.routed.add(dataset)

    def _create_dataset(self, dataset: Dataset) -> None:
        """The catalog's row comes last: a drop that a crash cut short must not bring back what was
        in an earlier dataset of that name."""
        with contextlib.suppress(NotFound):
            self.store.catalog.dataset(dataset.name)
            raise Conflict(f"there is a dataset {dataset.name!r} already", field="name")
        self.feeds.check(dataset)
        self.tables.forget(dataset.name)
        self.store.feeds.drop(dataset.name)
        self.log.create_dataset(dataset.name, dataset.primary_key)
        self.inbox.open_dataset(dataset.name)
        self.store.catalog.create_dataset(dataset)

    async def drop_dataset(self, name: str) -> None:
        if name == DEAD_LETTERS.name:
            raise Conflict(f"{name} belongs to the system", field="name")
        engine = self.engine
        async with self._changing:
            dataset = await asyncio.to_thread(self.store.catalog.dataset, name)
            await asyncio.to_thread(self.store.catalog.drop_dataset, name)
            self.routed.drop(name)
            await self.feeds.drop(name)
            await asyncio.to_thread(engine.drop_dataset, dataset)
            await asyncio.to_thread(self.log.drop_dataset, name)

    async def create_channel(self, statement: CreateChannel) -> None:
        engine = self.engine
        async with self._changing:
            await asyncio.to_thread(self._refuse_known_channel, statement.name)
            if statement.delivery is not None:
                await asyncio.to_thread(self.deliveries.check, statement.delivery)
            compiled = await asyncio.to_thread(engine.check, statement)
            _refuse_shared_private(compiled.channel)
            channel = await asyncio.to_thread(engine.create, compiled)
            self.deliveries.add(channel)

    def _refuse_known_channel(self, name: str) -> None:
        """Before Spark is asked: that takes longer, and its complaint would come first."""
        with contextlib.suppress(NotFound):
            self.store.catalog.channel(name)
            raise Conflict(f"there is a channel {name!r} already", field="name")

    async def drop_channel(self, name: str) -> None:
        engine = self.engine
        async with self._changing:
            await asyncio.to_thread(self.store.catalog.drop_channel, name)
            await asyncio.to_thread(engine.drop, name)
            await asyncio.to_thread(self.deliveries.drop, name)

    async def create_broker(self, name: str, url: str) -> None:
        url = checked_address(url, "http", "url").rstrip("/")
        broker = await asyncio.to_thread(self.store.catalog.create_broker, name, url)
        await self.notifier.know(broker.name, broker.url)

    async def put_broker(self, name: str, url: str) -> Broker:
        """A broker says where it is. Its name must be one that statements can say."""
        if not NAME.fullmatch(name):
            raise InvalidInput(f"{name!r} cannot name a broker", field="name", hint=NAME_RULE)
        url = checked_address(url, "http", "url").rstrip("/")
        broker = await asyncio.to_thread(self.store.catalog.put_broker, name, url)
        await self.notifier.know(broker.name, broker.url)
        return broker

    async def drop_broker(self, name: str) -> None:
        await asyncio.to_thread(self.store.catalog.drop_broker, name)
        self.notifier.forget(name)

    async def query(self, text: str, subscriber: str) -> Answer:
        return await asyncio.to_thread(self.engine.query, text, subscriber)

    # Records

    async def publish(
        self,
        dataset: str,
        records: Iterable[RawRecord | Unreadable],
        *,
        publisher: str,
        source: str,
        key: str | None = None,
        elsewhere: Elsewhere | None = None,
    ) -> Published:
        if not self.store.catalog.knows_dataset(dataset):  # the event loop waits for no database
            await asyncio.to_thread(self.store.catalog.dataset, dataset)
        return await self.intake.publish(
            dataset, records, publisher=publisher, source=source, key=key, elsewhere=elsewhere
        )


async def _starting(start: Callable[[], T], former: Popen[bytes] | None) -> T:
    """What starts Spark, on a thread of its own. Who is asked to stop does not wait for Spark:
    without its Java, newer than the former one, the thread soon ends."""
    starting = asyncio.create_task(asyncio.to_thread(start))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        while not starting.done():  # Java may be about to be started
            kill_newer(former)
            await asyncio.wait({starting}, timeout=KILL_EVERY_S)
        starting.exception()
        raise


def _refuse_shared_private(channel: Channel) -> None:
    if channel.bound and channel.delivery is not None and channel.delivery.shared:
        raise InvalidInput(
            f"the consumer logs of {channel.name!r} cannot be SHARED: it is bound to claims, and"
            " every consumer reads the shared log",
            field="delivery",
            hint="leave SHARED out",
        )
