"""Runs: how long records wait for their channels' results, from the log to the store.

The engine alone, in this process, with default settings: neither HTTP nor brokers. Records come at
a steady rate; what is measured is the time from before a record is appended until the results of
the run that looked at it are committed, for each channel. Beside it, where a run's time goes.
"""

from __future__ import annotations

import json
import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
from msgspec import Struct

from bench.findings import Finding
from tocsin.demo import city
from tocsin.demo.ledger import percentile
from tocsin.model import Channel, Dataset
from tocsin.settings import Settings
from tocsin.spark.engine import Engine
from tocsin.spark.phases import PHASE_TIME
from tocsin.sql import CreateChannel, CreateDataset, parse_one
from tocsin.storage.log import PublicationLog, open_log
from tocsin.storage.store.runs import Committed
from tocsin.storage.store.store import Store
from tocsin.storage.tables import open_tables

REPORTS = "CREATE DATASET reports (number BIGINT, kind STRING, level INT, message STRING)"
MESSAGE = "The road is closed in both directions. " * 4
TICK_S = 0.02
SETTLE_S = 60.0  # for what is under way when the last record was published


class Load(Struct, frozen=True):
    """`records` makes the records of one tick, by dataset."""

    name: str
    statements: tuple[str, ...]
    sets: Callable[[random.Random], list[tuple[str, dict[str, Any]]]]
    records: Callable[[random.Random, int], dict[str, list[dict[str, Any]]]]
    per_s: int
    target_ms: float | None = None  # of the slowest hundredth


def run(quick: bool, say: Callable[[str], None]) -> list[Finding]:
    seconds = 8.0 if quick else 20.0
    loads = [
        _equality(200, 1000),
        _equality(2000, 1000),
        _equality(10_000, 1000),
        _many_channels(100, 200),
        _city(),
    ]
    return [_measure(load, seconds, say) for load in loads]


def _equality(per_s: int, sets: int) -> Load:
    return Load(
        f"one channel, {sets:,} sets, {per_s:,} records/s",
        (
            REPORTS,
            "CREATE CONTINUOUS CHANNEL by_kind(kind STRING) AS "
            "SELECT r.number, r.kind, r.message FROM NEW reports r WHERE r.kind = :kind",
        ),
        lambda _: [("by_kind", {"kind": f"kind-{number}"}) for number in range(sets)],
        lambda chance, count: _reports(chance, count, sets),
        per_s,
        1500.0,
    )


def _many_channels(count: int, per_s: int) -> Load:
    """Of several shapes, each with some sets."""
    wheres = (
        "r.kind = :kind",
        "r.kind = :kind AND r.level > {0} % 5",
        "r.kind = :kind AND r.message LIKE '%road%'",
        "lower(r.kind) = :kind AND r.number % 3 <> {0} % 3",
    )
    statements = tuple(
        f"CREATE CONTINUOUS CHANNEL channel_{number}(kind STRING) AS "  # noqa: S608
        f"SELECT r.number, r.kind FROM NEW reports r WHERE {wheres[number % 4].format(number)}"
        for number in range(count)
    )
    return Load(
        f"{count} channels, {per_s:,} records/s",
        (REPORTS, *statements),
        lambda _: [
            (f"channel_{number}", {"kind": f"kind-{kind}"})
            for number in range(count)
            for kind in range(10)
        ],
        lambda chance, number: _reports(chance, number, 100),
        per_s,
        2000.0,
    )


def _reports(chance: random.Random, count: int, kinds: int) -> dict[str, list[dict[str, Any]]]:
    return {
        "reports": [
            {
                "number": chance.randrange(10**9),
                "kind": f"kind-{chance.randrange(kinds)}",
                "level": chance.randrange(5),
                "message": MESSAGE,
            }
            for _ in range(count)
        ]
    }


def _city() -> Load:
    """The demo's seven repetitive channels, each every second."""
    return Load(
        "the city's seven channels, 20 records/s",
        city.statements(60.0),
        _interests,
        _city_records,
        20,
        3000.0,
    )


USERS = 200


def _interests(chance: random.Random) -> list[tuple[str, dict[str, Any]]]:
    wanted = []
    for channel in city.CHANNELS:
        for _ in range(60):
            place = chance.choice(city.PLACES)
            every = {
                "type": chance.choice(city.TYPES),
                "user": f"user-{chance.randrange(USERS)}",
                **city.place_arguments(place),
            }
            wanted.append((channel.name, {name: every[name] for name in channel.names}))
    return wanted


def _city_records(chance: random.Random, count: int) -> dict[str, list[dict[str, Any]]]:
    records: dict[str, list[dict[str, Any]]] = {name: [] for name in city.DATASETS}
    for _ in range(count):
        place, at = chance.choice(city.PLACES), "2026-01-01T00:00:00Z"
        where = {"lat": place.lat, "lon": place.lon, "reported_at": at}
        kind = chance.choices(list(city.DATASETS), (5, 1, 14))[0]
        records[kind].append(
            {
                "emergencies": {
                    "report_id": str(chance.random()),
                    "type": chance.choice(city.TYPES),
                    "severity": chance.randrange(5),
                    "place": place.name,
                    "message": MESSAGE,
                    **where,
                },
                "shelters": {
                    "shelter_id": f"shelter-{chance.randrange(50)}",
                    "name": place.name,
                    "free_beds": chance.randrange(9),
                    "message": MESSAGE,
                    **where,
                },
                "locations": {"user_id": f"user-{chance.randrange(USERS)}", **where},
            }[kind]
        )
    return {name: made for name, made in records.items() if made}


class _Waits:
    """How long each publication waited for each channel that looks at it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._published: dict[str, list[tuple[int, float]]] = {}
        self._seen: dict[tuple[str, str], int] = {}
        self.ms: list[float] = []
        self.results = 0

    def published(self, dataset: str, end: int, at: float) -> None:
        with self._lock:
            self._published.setdefault(dataset, []).append((end, at))

    def reached(self, channel: str, dataset: str, end: int) -> None:
        now = time.monotonic()
        with self._lock:
            known = self._published.get(dataset, [])
            seen = self._seen.get((channel, dataset), 0)
            while seen < len(known) and known[seen][0] <= end:
                self.ms.append(1000 * (now - known[seen][1]))
                seen += 1
            self._seen[channel, dataset] = seen

    def missing(self, channels: Sequence[Channel]) -> int:
        with self._lock:
            return sum(
                len(self._published.get(name, [])) - self._seen.get((channel.name, name), 0)
                for channel in channels
                for name in channel.new
            )

    def begin(self) -> None:
        with self._lock:
            self._published.clear()
            self._seen.clear()
            self.ms.clear()


class _Course:
    """An engine at work, and its channels."""

    def __init__(self, load: Load, folder: Path) -> None:
        settings = Settings(data=folder)
        self.waits = _Waits()
        self.store = Store.open(f"sqlite:///{folder}/store.db")
        self.log: PublicationLog = open_log(folder / "log", segment_bytes=settings.segment_bytes)
        given = settings, self.store, self.log, open_tables(settings, self.store)
        self.engine = Engine(*given, self._told, lambda *_: None)
        self.engine.start()
        self.chance = random.Random(load.name)
        self.load = load
        self.channels: list[Channel] = []
        for statement in load.statements:
            self._make(statement)
        ends = self.log.ends()
        for name, arguments in load.sets(self.chance):
            since = ends[next(c for c in self.channels if c.name == name).new[0]]
            self.store.subscriptions.subscribe("ann", name, arguments, None, since=since)

    def close(self) -> None:
        self.engine.stop()
        self.log.close()
        self.store.close()

    def _make(self, statement: str) -> None:
        made = parse_one(statement)
        if isinstance(made, CreateChannel):
            self.channels.append(self.engine.create(self.engine.check(made)))
            return
        assert isinstance(made, CreateDataset)
        self.log.create_dataset(made.name, made.primary_key)
        self.store.catalog.create_dataset(
            Dataset(made.name, made.columns, primary_key=made.primary_key)
        )

    def _told(self, channel: Channel, committed: Committed) -> None:
        self.waits.results += committed.count

    def publish(self, seconds: float) -> None:
        """Records at a steady rate; what the engine does meanwhile is watched."""
        began, sent = time.monotonic(), 0
        while (now := time.monotonic()) < began + seconds:
            due = round((now - began + TICK_S) * self.load.per_s) - sent
            sent += due
            for name, records in self.load.records(self.chance, due).items():
                lines = [json.dumps(record).encode() for record in records]
                appended = self.log.append(name, lines).result()
                self.waits.published(name, appended.end, now)
            self._look()
            time.sleep(max(0.0, TICK_S - (time.monotonic() - now)))

    def java_s(self) -> float:
        times = psutil.Process(self.engine._java.pid).cpu_times()
        return times.user + times.system

    def settle(self) -> None:
        until = time.monotonic() + SETTLE_S
        while self.waits.missing(self.channels) and time.monotonic() < until:
            self._look()
            time.sleep(TICK_S)

    def _look(self) -> None:
        for channel in self.channels:
            reached = self.engine._runner.progress(channel).ends  # as of the last commit
            for name in channel.new:
                self.waits.reached(channel.name, name, reached.get(name, 0))


@contextmanager
def _course(load: Load) -> Iterator[_Course]:
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder:
        course = _Course(load, Path(folder))
        try:
            yield course
        finally:
            course.close()


def _measure(load: Load, seconds: float, say: Callable[[str], None]) -> Finding:
    say(f"{load.name}: warming up")
    with _course(load) as course:
        course.publish(seconds)
        course.settle()
        course.waits.begin()
        course.waits.results = 0
        before, cpu_s, java_s = _phases(), time.process_time(), course.java_s()
        say(f"{load.name}: {seconds:g} s")
        course.publish(seconds)
        cpu_s, java_s = time.process_time() - cpu_s, course.java_s() - java_s
        course.settle()
        late = course.waits.missing(course.channels)
        waits, results = sorted(course.waits.ms), course.waits.results
    return Finding(
        claim=load.name,
        unit="ms, p99",
        ours=percentile(waits, 0.99) or SETTLE_S * 1000,
        baseline=1.0,
        baseline_is="",
        lower_is_better=True,
        target=load.target_ms,
        details={
            "p50_ms": percentile(waits, 0.5),
            "never_ran": late,
            "results": results,
            "python_cpu_s": cpu_s,
            "java_cpu_s": java_s,
            "phases": _took(before, _phases()),
        },
    )


def _phases() -> dict[str, tuple[float, float]]:
    """Seconds in all and how often, by phase."""
    values: dict[str, dict[str, float]] = {}
    for metric in PHASE_TIME.collect():
        for sample in metric.samples:
            kind = sample.name.rpartition("_")[2]
            if kind in ("sum", "count"):
                values.setdefault(sample.labels["phase"], {})[kind] = sample.value
    return {name: (each["sum"], each["count"]) for name, each in values.items()}


def _took(
    before: dict[str, tuple[float, float]], after: dict[str, tuple[float, float]]
) -> dict[str, dict[str, float]]:
    took = {}
    for name, (total_s, count) in after.items():
        known_s, known = before.get(name, (0.0, 0.0))
        if count > known:
            mean_ms = 1000 * (total_s - known_s) / (count - known)
            took[name] = {"times": count - known, "mean_ms": round(mean_ms, 2)}
    return took
