"""Channels in real-time mode as the engine sees them: Spark's own queries, and what goes on beside
them. Ordinary runs serve new subscriptions until such a query looks at them, and channels that no
query serves now: new ones, and those that failed in one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from tocsin.model import Channel
from tocsin.settings import Settings
from tocsin.spark.channels import CompiledChannel
from tocsin.spark.dispatcher import report_trouble
from tocsin.spark.real_time.newcomers import Newcomers
from tocsin.spark.real_time.queries import Queries
from tocsin.spark.runner import Runner
from tocsin.spark.snapshot import Snapshots
from tocsin.spark.steps import Steps
from tocsin.spark.trial import Ask
from tocsin.spark.window import Window
from tocsin.storage.log import PublicationLog
from tocsin.storage.store.progress import Progress
from tocsin.storage.store.store import Store

LOOK_S = 2.0  # how often queries are looked after, at least


class RealTimeChannels:
    """One thread looks after the queries; runs come from the dispatcher's threads."""

    def __init__(
        self,
        queries: Queries,
        runner: Runner,
        steps: Steps,
        snapshots: Snapshots,
        store: Store,
        publication_log: PublicationLog,
        settings: Settings,
    ) -> None:
        self._queries = queries
        self._newcomers = Newcomers()
        queries.before_begin = self._note_arrivals  # it looks at them from its first batch on
        self._runner = runner
        self._steps = steps
        self._snapshots = snapshots
        self._store = store
        self._log = publication_log
        self._batch_s = settings.real_time_batch_s
        self._batch_bytes = settings.batch_bytes
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._look_after, name="real-time", daemon=True)
        self.why_not: Callable[[CompiledChannel], str] = queries.why_not
        self.passed: Callable[[], dict[str, int]] = queries.passed
        self.describe: Callable[[str], str] = queries.describe
        self.release: Callable[[str], None] = queries.release

    def start(self) -> None:
        self._thread.start()

    def stop(self, *, alive: bool) -> None:
        """`alive`: Java is, so that its queries can be stopped and waited for."""
        self._stopping.set()
        if alive:
            if self._thread.is_alive():
                self._thread.join()
            self._queries.stop()

    def expect(self, channel: Channel) -> None:
        """From now on its new subscriptions are served."""
        self._newcomers.watch(channel, self._runner.progress(channel).settled)

    def watch(self, channel: Channel, compiled: CompiledChannel) -> None:
        """One of Spark's queries takes it up as soon as one can begin with it."""
        self._queries.watch(channel, compiled)

    def unwatch(self, name: str) -> None:
        self._newcomers.unwatch(name)
        self._queries.unwatch(name)

    def subscribed(self, name: str) -> None:
        self._newcomers.expect(name)
        self._queries.subscribed(name)

    def keeps_up(self, name: str, behind_s: float) -> bool:
        """Spark says how far it is when a batch ends, and that is noted soon after: what is younger
        than two batches may have been looked at within milliseconds."""
        return self._queries.is_running(name) and behind_s < 2 * self._batch_s

    def need_run(self, channel: Channel, end: int) -> bool:
        if self._queries.serves(channel.name):
            return self._newcomers.need_run(channel.name, end)
        return self._stands(channel) < end

    def run(self, channel: Channel, compiled: CompiledChannel, limit_s: float) -> None:
        """For new subscriptions; for all, while no query serves the channel."""
        if self._queries.serves(channel.name):
            self._run_for_newcomers(channel, limit_s)
        else:
            self._steps.take(channel, compiled, limit_s)

    def _run_for_newcomers(self, channel: Channel, limit_s: float) -> None:
        name, dataset = channel.name, channel.new[0]
        self._note_arrivals(name)
        snapshot = self._snapshots.take(self._log.cut)
        start, sets = self._newcomers.begin(name)
        end = snapshot.cut.ends.get(dataset, 0)
        if sets and start < end:
            end = self._snapshots.tables.bound(
                self._snapshots.dataset(dataset), start, end, self._batch_bytes
            )
            window = Window(Progress({dataset: start}, 0), Progress({dataset: end}, 0))
            self._runner.run_for(name, Ask(window, snapshot, limit_s), sets)
        self._newcomers.ran(name, sets, end)

    def _stands(self, channel: Channel) -> int:
        return self._runner.progress(channel).ends.get(channel.new[0], 0)

    def _note_arrivals(self, name: str) -> None:
        settled = self._newcomers.settled(name)
        self._newcomers.arrived(name, self._store.subscriptions.made_after(name, settled))

    def _look_after(self) -> None:
        while not self._stopping.wait(min(self._batch_s / 2, LOOK_S)):
            try:
                self._queries.look_after()
                for channel in self._store.catalog.channels():
                    if channel.mode == "real-time":
                        self._note_progress(channel)
            except Exception as error:  # Kafka or the store is away: the next round may find them
                if not self._stopping.is_set():
                    report_trouble(
                        "channels in real-time mode could not be looked after", error, ""
                    )

    def _note_progress(self, channel: Channel) -> None:
        reached = self._queries.reached(channel.name)
        if reached is None:
            return
        settled = self._newcomers.hand_over(channel.name, self._queries.batches(channel.name))
        at_us = self._runner.progress(channel).at_us
        ends = {channel.new[0]: max(reached, self._stands(channel))}
        self._runner.move(channel, Progress(ends, at_us, settled))
