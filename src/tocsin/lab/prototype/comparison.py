"""The prototype experiment (BAD, Figure 7): the live system of the demo under each policy and size,
beside what a recording of it predicts.

Every run plays the same seeded hour. The first run with a cache is recorded at its brokers; from
that one recording every run is predicted: by the broker's core, with gets at the recorded moments,
and by the simulator, where everybody gets at once. On one machine the cluster is near: what a fetch
takes is measured in the runs and given to both, so that latencies can be compared too.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import uvloop
from msgspec import Struct
from msgspec.structs import asdict, replace

from tocsin.demo.driver import Course, Report, perform
from tocsin.demo.show import Show
from tocsin.errors import InvalidInput
from tocsin.lab.simulators.result_cache.replay import Replayed, replay_trace
from tocsin.lab.simulators.result_cache.simulator import Outcome, simulate
from tocsin.lab.trace.events import EventTrace
from tocsin.lab.trace.reader import read_trace
from tocsin.lab.trace.recording import record
from tocsin.lab.trace.workload import to_workload
from tocsin.lab.workloads.network import Network
from tocsin.policies import parse_policy
from tocsin.settings import Settings

NONE = "none"
TRACES = "*.trace.parquet"
NEAR_BYTES_PER_S = 1e9  # on one machine bytes cost nothing beside a call


class Point(Struct, frozen=True):
    policy: str
    size_bytes: int


class Measured(Struct, frozen=True, kw_only=True):
    """What the live system did, all brokers together. Latency: from a result's making to its
    display, of those online."""

    policy: str
    size_bytes: int
    delivered: int
    promises_held: bool
    hit_ratio: float
    fetched_bytes: int
    latency_mean_ms: float
    latency_p99_ms: float
    fetch_ms: float


class Predicted(Struct, frozen=True, kw_only=True):
    """The same from the recording. A result that is missed waits for a fetch."""

    hit_ratio: float
    fetched_bytes: int
    latency_mean_ms: float
    at_once_hit_ratio: float  # the simulator's: whoever is online gets each result as it arrives


class Row(Struct, frozen=True, kw_only=True):
    measured: Measured
    predicted: Predicted

    def flat(self) -> dict[str, Any]:
        return {
            **asdict(self.measured),
            **{f"predicted_{name}": value for name, value in asdict(self.predicted).items()},
        }


def points_of(policies: Sequence[str], sizes_bytes: Sequence[int]) -> list[Point]:
    """Without a cache first, then each policy at each size."""
    for text in policies:
        parse_policy(text)
    cached = [Point(policy, size) for size in sizes_bytes for policy in policies if policy != NONE]
    if not cached:
        raise InvalidInput(
            "no policy with a cache is left to compare", field="policies", hint="such as lru,lsc"
        )
    return [Point(NONE, 0), *cached]


def run_prototype(
    course: Course,
    settings: Settings,
    points: Sequence[Point],
    directory: Path,
    show: Show,
    announce: Callable[[int, Point], None] = lambda number, point: None,
) -> list[Row]:
    """Play each point, then predict all from the recording, which stays in `directory`."""
    if any(directory.glob(TRACES)):
        raise InvalidInput(
            f"{directory} holds a recording already", field="out", hint="name a new directory"
        )
    directory.mkdir(parents=True, exist_ok=True)
    measured = []
    recorded = False
    for number, point in enumerate(points):
        announce(number, point)
        record_it = point.policy != NONE and not recorded
        record_to = directory if record_it else None
        report = uvloop.run(_play(course, settings, point, show, record_to))
        if report.interrupted:
            raise KeyboardInterrupt
        recorded = recorded or record_it
        measured.append(_measured(point, report))
    traces = [read_trace(path) for path in sorted(directory.glob(TRACES))]
    return predict(measured, [trace for trace in traces if isinstance(trace, EventTrace)])


async def _play(
    course: Course, settings: Settings, point: Point, show: Show, record_to: Path | None
) -> Report:
    data = Path(tempfile.mkdtemp(prefix="tocsin-prototype-"))
    settings = replace(settings, data=data, cache_policy=point.policy, cache_bytes=point.size_bytes)
    try:
        if record_to is None:
            return await perform(course, settings, show)
        return await perform(course, settings, show, lambda *where: _recording(record_to, *where))
    finally:
        shutil.rmtree(data, ignore_errors=True)


@contextlib.asynccontextmanager
async def _recording(
    directory: Path, brokers: Mapping[str, str], token: str
) -> AsyncIterator[None]:
    """Every broker into a file of its own."""
    stop = asyncio.Event()
    recordings = [
        asyncio.create_task(record(url, token, directory / f"{name}.trace.parquet", stop=stop))
        for name, url in brokers.items()
    ]
    try:
        yield
    finally:
        stop.set()
        await asyncio.gather(*recordings)


def _measured(point: Point, report: Report) -> Measured:
    total, way = report.outcome.total, report.details["result_to_display_ms"]
    return Measured(
        policy=point.policy,
        size_bytes=point.size_bytes,
        delivered=total.delivered,
        promises_held=report.outcome.promises_held,
        hit_ratio=total.hit_ratio or 0.0,
        fetched_bytes=total.fetched_bytes,
        latency_mean_ms=way["mean"] or 0.0,
        latency_p99_ms=way["p99"] or 0.0,
        fetch_ms=report.details["fetch_ms"] or 0.0,
    )


def predict(measured: Sequence[Measured], traces: Sequence[EventTrace]) -> list[Row]:
    """What a fetch and a delivery take is taken from all runs; all else from the traces."""
    workloads = [to_workload(trace) for trace in traces]
    fetch_s = sum(played.fetch_ms for played in measured) / len(measured) / 1000
    network = Network(
        cluster_rtt_s=fetch_s,
        cluster_bytes_per_s=NEAR_BYTES_PER_S,
        subscriber_rtt_s=0.0,
        subscriber_bytes_per_s=NEAR_BYTES_PER_S,
    )
    runs = [
        [
            replay_trace(trace, parse_policy(played.policy), played.size_bytes, network)
            for trace in traces
        ]
        for played in measured
    ]
    at_once = [
        [
            simulate(workload, parse_policy(played.policy), played.size_bytes, network)
            for workload in workloads
        ]
        for played in measured
    ]
    # The way from broker to screen is no matter of caches: what is left of the measured latency.
    waits_ms = [_wait_ms(brokers) for brokers in runs]
    spare = [played.latency_mean_ms - wait for played, wait in zip(measured, waits_ms, strict=True)]
    way_ms = sum(spare) / len(spare)
    return [
        Row(
            measured=played,
            predicted=Predicted(
                hit_ratio=_ratio(brokers),
                fetched_bytes=sum(broker.fetched_bytes for broker in brokers),
                latency_mean_ms=way_ms + wait,
                at_once_hit_ratio=_ratio(simulated),
            ),
        )
        for played, brokers, simulated, wait in zip(measured, runs, at_once, waits_ms, strict=True)
    ]


def _ratio(brokers: Sequence[Replayed] | Sequence[Outcome]) -> float:
    hits = sum(broker.hits for broker in brokers)
    delivered = hits + sum(broker.misses for broker in brokers)
    return hits / delivered if delivered else 0.0


def _wait_ms(brokers: Sequence[Replayed]) -> float:
    gets = sum(broker.gets for broker in brokers)
    return 1000 * sum(broker.waited_s for broker in brokers) / gets if gets else 0.0
