"""What the simulated cluster's process has in memory, and the environment that it is in."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from operator import itemgetter
from random import Random
from typing import Protocol

from tocsin.backoff import Backoff
from tocsin.broker.machine.events import NewHead
from tocsin.clock import Clock
from tocsin.cluster.broker_news import BrokerNews
from tocsin.model import Channel, Departure
from tocsin.spark.channel_runs import ChannelRuns
from tocsin.spark.housekeeping import Housekeeping
from tocsin.spark.pins import Pinned, Pins
from tocsin.spark.repetition import Schedule
from tocsin.spark.steps import Steps
from tocsin.storage.log import Cut, PublicationLog
from tocsin.storage.log.segments import SegmentReader, Segments
from tocsin.storage.store.database import Database
from tocsin.storage.store.store import Store
from tocsin.testing.simulation.agenda import Agenda
from tocsin.testing.simulation.stored import StoredFiles


class Environment(Protocol):
    """What the process is in."""

    agenda: Agenda
    random: Random
    happened: Counter[str]  # faults, by kind

    def committed(self) -> None:
        """The store has changed."""

    def notify(
        self,
        news: BrokerNews,
        store_id: str,
        heads: list[NewHead],
        gone: list[Departure],
    ) -> None:
        """Send a notice: it may be lost, late, and come twice; so may be its answer."""

    def query_s(self) -> float:
        """How long a query takes, or SparkIsGone."""

    def cluster_died(self) -> None:
        """By a fault of the disk's, of the store's, or by command."""


class Cuts(Pins[Pinned]):
    def __init__(
        self,
        tables: StoredFiles,
        store: Store,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        super().__init__(clock, monotonic)
        self.tables = tables
        self.dataset = store.catalog.dataset

    def _of(self, cut: Cut) -> Pinned:
        return Pinned(cut)


@dataclass
class Task:
    """A channel that is run."""

    channel: Channel
    backoff: Backoff
    running: bool = False
    due: bool = False
    retry_at: float = 0.0


@dataclass
class Life:
    """What the process has in memory; lost when it dies."""

    clock: Clock
    store: Store
    database: Database
    medium: Segments
    log: PublicationLog
    reader: SegmentReader
    runs: ChannelRuns
    steps: Steps
    housekeeping: Housekeeping
    schedule: Schedule
    tasks: dict[str, Task]
    news: dict[str, BrokerNews]
    busy: bool = False  # an fsync is under way
    ends: list[tuple[float, dict[str, int]]] = field(default_factory=list)  # of the log, since when
    looking: set[str] = field(default_factory=set)  # brokers whose strangers are looked up soon

    def ends_at(self, at: float) -> dict[str, int]:
        """The ends of the log at a time."""
        index = bisect_right(self.ends, at, key=itemgetter(0))
        return self.ends[max(0, index - 1)][1]

    def has_news(self, channel: Channel) -> bool:
        reached, ends = self.runs.progress(channel).ends, self.log.ends()
        return any(reached.get(name, 0) < ends.get(name, 0) for name in channel.new)
