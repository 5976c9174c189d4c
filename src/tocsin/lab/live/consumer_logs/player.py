"""Plays offers through a live system: published over HTTP, matched by Spark, delivered to consumer
logs, read by one thread a consumer. A channel and its subscriptions for each play, nothing else.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import msgspec
from msgspec import Struct

from tocsin.client import Client, consumer_log
from tocsin.client.logged_results import ConsumerLog
from tocsin.demo.player import Player, Publisher, Record, Timed
from tocsin.errors import InvalidInput
from tocsin.lab.live.consumer_logs.observation import Observed, Seen, Timings, awaited
from tocsin.lab.simulators.consumer_logs import Logs, Measures
from tocsin.lab.spec.study import BrokenPromise
from tocsin.lab.workloads.offers import Offers
from tocsin.lab.workloads.offers.vocabulary import ATTRIBUTES, OPEN
from tocsin.policies import AdmissionPolicy
from tocsin.system import System

SILENT_S = 60.0  # nothing comes for so long: it never will
STEP_S = 0.5
NO_MORE_S = 0.3  # what comes within that after the last result was not to come

_COLUMNS = ", ".join(f"{name} INT" for name in ATTRIBUTES)
_MATCHES = " AND ".join(f"o.{name} = :{name}" for name in ATTRIBUTES)


class Played(Struct, frozen=True):
    measures: Measures
    timings: Timings


class OfferPlayer:
    """The system is up; `runner` has its event loop."""

    def __init__(self, runner: asyncio.Runner, system: System, dataset: str) -> None:
        self._runner = runner
        self._system = system
        self._dataset = dataset
        self._numbers = itertools.count(1)
        token = system.token("publisher", "admin", "publish")
        self._client = Client(cluster=system.cluster_url, token=token)
        text = f"CREATE DATASET {dataset} ({_COLUMNS}, number BIGINT, padding STRING)"
        runner.run(self._client.sql(text))

    def warm_up(self, offers: Offers, policy: AdmissionPolicy) -> None:
        self.play(offers, policy, Logs())

    def play(self, offers: Offers, policy: AdmissionPolicy, logs: Logs) -> Played:
        _refuse_unplayable(offers, logs)
        return self._runner.run(self._play(offers, policy.text))

    def close(self) -> None:
        self._runner.run(self._client.sql(f"DROP DATASET {self._dataset}"))
        self._runner.run(self._client.close())

    async def _play(self, offers: Offers, policy: str) -> Played:
        begun = time.perf_counter()
        records = _records(offers)
        async with self._channel(policy) as channel, self._logs(channel, offers) as logs:
            stop = threading.Event()
            reading = [
                asyncio.create_task(asyncio.to_thread(_read, log, len(expected), stop))
                for log, expected in zip(logs, awaited(offers), strict=True)
            ]
            try:
                began_at = time.time()
                await self._publish(offers.at.tolist(), records)
                seen = await asyncio.gather(*reading)
            finally:
                stop.set()
                await asyncio.gather(*reading, return_exceptions=True)
        observed = Observed(offers, began_at, seen)
        return Played(observed.measures(time.perf_counter() - begun), observed.timings())

    @asynccontextmanager
    async def _channel(self, policy: str) -> AsyncIterator[str]:
        name = f"{self._dataset}_{next(self._numbers)}"
        await self._client.sql(
            f"CREATE CONTINUOUS CHANNEL {name}({_COLUMNS})"  # noqa: S608
            f" DELIVER TO CONSUMER LOGS ADMIT {policy} AS"
            f" SELECT o.number, o.padding FROM NEW {self._dataset} AS o WHERE {_MATCHES}"
        )
        try:
            yield name
        finally:
            await self._client.sql(f"DROP CHANNEL {name}")

    @asynccontextmanager
    async def _logs(self, channel: str, offers: Offers) -> AsyncIterator[list[ConsumerLog]]:
        """One consumer each, open before anything is published."""
        subscriptions: list[tuple[int, int]] = []
        logs: list[ConsumerLog] = []
        try:
            for consumer, *values in offers.subscribed.tolist():
                subscriptions.append(await self._subscribe(channel, consumer, values))
            for number, marker in subscriptions:
                address = self._system.settings.log
                logs.append(await asyncio.to_thread(consumer_log, address, number, marker))
            yield logs
        finally:
            for log in logs:
                await asyncio.to_thread(log.close)
            for number, _ in subscriptions:
                await self._client.sql(f"UNSUBSCRIBE {number}")

    async def _subscribe(
        self, channel: str, consumer: int, values: Sequence[int]
    ) -> tuple[int, int]:
        """The subscription's number, and the position that its results come after."""
        arguments = ", ".join("ANY" if value == OPEN else str(value) for value in values)
        token = self._system.token(f"consumer-{consumer}", "subscribe")
        async with Client(cluster=self._system.cluster_url, token=token) as client:
            (answer,) = await client.sql(f"SUBSCRIBE TO {channel}({arguments})")
        row = dict(zip(answer.columns, answer.rows[0], strict=True))
        return row["subscription"], row["marker"]

    async def _publish(self, at: Sequence[float], records: Sequence[Record]) -> None:
        """Each when its time has come: one request at a time, with all that are due."""
        publisher = Publisher(self._send)
        course = [
            Timed(at_s, partial(publisher.publish, self._dataset, record))
            for at_s, record in zip(at, records, strict=True)
        ]
        await Player(publisher=publisher, tick_s=0.0).play(course)

    async def _send(self, dataset: str, records: Sequence[Record]) -> None:
        published = await self._client.publish(dataset, records)
        if published.accepted != len(records):
            raise BrokenPromise(f"{published.rejected} records were rejected")


def _refuse_unplayable(offers: Offers, logs: Logs) -> None:
    for name, playable in (("layout", "each"), ("notice", "gap"), ("retention_bytes", 0)):
        if getattr(logs, name) != playable:
            raise InvalidInput(
                f"{name}={getattr(logs, name)} is not played live", field=name, hint=str(playable)
            )
    if offers.subscribed[:, 0].tolist() != list(range(offers.consumers)):
        raise InvalidInput("a live consumer has one subscription", field="subscriptions")


def _records(offers: Offers) -> list[Record]:
    """As they are published. What a consumer gets of one is as large as the offers say."""
    values = offers.values[offers.content].tolist()
    records = []
    for number, size_bytes in enumerate(offers.size_bytes.tolist()):
        bare = len(msgspec.json.encode({"number": number, "padding": ""}))
        padding = "x" * max(0, size_bytes - bare)
        attributes = dict(zip(ATTRIBUTES, values[number], strict=True))
        records.append({**attributes, "number": number, "padding": padding})
    return records


def _read(log: ConsumerLog, expected: int, stop: threading.Event) -> Seen:
    """On a thread of its own, until all is there, and a moment longer; or nothing comes more."""
    seen = Seen()
    heard_at = time.monotonic()
    while not stop.is_set() and time.monotonic() - heard_at < SILENT_S:
        complete = len(seen.records) == expected
        result = log.take(NO_MORE_S if complete else STEP_S)
        if result is None:
            if complete:
                break
            continue
        heard_at = time.monotonic()
        seen.handed_on_at.append(time.time())
        seen.records.append(result.value["number"])
        seen.filled.append(result.filled)
        seen.made_at.append(result.at)
        seen.logged_at.append(result.logged_at)
        seen.arrived_at.append(result.arrived_at)
        if result.lost is not None:
            seen.lost += result.lost[1] - result.lost[0] + 1
    seen.read_bytes = log.bytes_read
    return seen
