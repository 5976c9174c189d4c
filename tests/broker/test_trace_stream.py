"""Recording a live broker: what comes out, who may, and what it must not disturb."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from broker.world import World, take, token, until
from tocsin.broker.machine.watching import NOBODY
from tocsin.broker.server import Broker
from tocsin.errors import Conflict, Forbidden
from tocsin.lab.simulators.page_cache.replay import replay_pages
from tocsin.lab.trace import EventTrace, read_trace
from tocsin.lab.trace.pages import read_page_trace
from tocsin.lab.trace.recording import Recorded, record
from tocsin.lab.workloads.pages.operations import PUBLISH, RENEWED
from tocsin.policies.page import parse_page_policy

FLOOD = {"type": "flood"}


class Recording:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.stop = asyncio.Event()
        self.ended: Recorded | None = None

    def trace(self) -> EventTrace:
        trace = read_trace(self.path)
        assert isinstance(trace, EventTrace)
        return trace


@contextlib.asynccontextmanager
async def recording(broker: Broker, path: Path) -> AsyncIterator[Recording]:
    """Records while the block runs."""
    one = Recording(path)
    work = asyncio.create_task(
        record(
            broker.url, token("operator", "admin"), path, stop=one.stop, progress=lambda *_: None
        )
    )
    await until(lambda: broker.driver.core.table.watcher is not NOBODY or work.done())
    try:
        yield one
        await asyncio.sleep(0.6)  # two rounds of gathering
    finally:
        one.stop.set()
        one.ended = await work


async def test_a_recording_tells_what_happened_and_nobodys_name(
    world: World, tmp_path: Path
) -> None:
    broker = await world.broker()
    alice = await world.client("alice")
    old = await alice.subscribe("floods", **FLOOD)
    async with recording(broker, tmp_path / "trace.parquet") as made:
        bob = await world.client("bob")
        new = await bob.subscribe("floods", **FLOOD)
        world.cluster.produce("floods", FLOOD, [{"n": 1}, {"n": 2}])
        await take(old, 2)
        await take(new, 2)
        await bob.close()
        await until(lambda: len(broker.driver.connections) == 1)
    trace = made.trace()
    counts = trace.counts()
    assert (counts["subscribe"], counts["arrive"], counts["leave"]) == (2, 2, 1)
    assert (counts["publish"], counts["lost"]) == (2, 0)
    first = trace.records[0]
    assert first["at_s"] == 0
    assert trace.about.policy == broker.settings.cache_policy
    assert made.ended is not None
    assert made.ended.events == len(trace)
    live = trace.live()
    assert live.hits + live.sent == 4
    content = made.path.read_bytes()
    assert b"alice" not in content
    assert b"floods" not in content


async def test_only_one_may_record_and_only_with_the_scope(world: World, tmp_path: Path) -> None:
    broker = await world.broker()
    async with recording(broker, tmp_path / "one.parquet"):
        with pytest.raises(Conflict, match="records this broker already"):
            await record(broker.url, token("eve", "admin"), tmp_path / "two.parquet")
    with pytest.raises(Forbidden):
        await record(broker.url, token("eve", "subscribe"), tmp_path / "three.parquet")
    assert not (tmp_path / "two.parquet").exists()
    await until(lambda: broker.driver.core.table.watcher is NOBODY)
    ended = await record(broker.url, token("op", "admin"), tmp_path / "four.parquet", seconds=0.1)
    assert "are over" in ended.ended


async def test_the_file_is_whole_when_the_broker_dies(world: World, tmp_path: Path) -> None:
    broker = await world.broker()
    alice = await world.client("alice")
    await alice.subscribe("floods", **FLOOD)
    made = Recording(tmp_path / "trace.parquet")
    seen: list[int] = []
    work = asyncio.create_task(
        record(
            broker.url,
            token("operator", "admin"),
            made.path,
            progress=lambda events, _: seen.append(events),
        )
    )
    await until(lambda: seen and seen[-1] == 2)
    await world.crash(broker)
    ended = await work
    assert "broker" in ended.ended
    assert made.trace().counts()["subscribe"] == 1


async def test_a_broker_that_stops_ends_the_recording(world: World, tmp_path: Path) -> None:
    broker = await world.broker()
    work = asyncio.create_task(
        record(broker.url, token("operator", "admin"), tmp_path / "trace.parquet")
    )
    await until(lambda: broker.driver.core.table.watcher is not NOBODY)
    await world.stop(broker)
    assert (await work).ended == "the broker ended the recording"


async def test_a_recording_ends_with_its_token(world: World, tmp_path: Path) -> None:
    broker = await world.broker()
    short = token("operator", "admin", expires_s=1.5)
    ended = await record(broker.url, short, tmp_path / "trace.parquet")
    assert ended.ended == "the broker ended the recording"
    assert broker.driver.core.table.watcher is NOBODY


async def test_what_the_page_cache_decides_upon_is_recorded_and_played_again(
    world: World, tmp_path: Path
) -> None:
    """The recording under the broker's own policy and budget: the same decisions, one by one. The
    last stories return to pages that had been superseded."""
    content = world.cluster.content
    content.fields["floods"] = ["photo"], ["key"]
    broker = await world.broker(page_policy="dc", page_cache_bytes=10_000)
    http = await world.http(broker, "alice")
    alice = await world.client("alice")
    await alice.subscribe("floods", **FLOOD)
    (subscription,) = broker.driver.core.table.frontends
    await (await world.client("bob")).subscribe("floods", **FLOOD)
    pages = broker.driver.machine.pages
    counters = pages.cache.counters
    async with recording(broker, tmp_path / "trace.parquet") as made:
        ids = []
        for number in range(14):
            told = number % 10
            value = content.value(bytes([told]) * (1000 + 300 * told))
            ids.append(value["id"])
            result = {"key": number % 5, "photo": value}
            world.cluster.produce("floods", FLOOD, [result])
            await until(lambda: counters.publications == len(ids) and not pages.filling)
            for id in ids[:: 1 + number % 3]:
                led_by = f"?subscription={subscription}&position=1" if number % 2 else ""
                assert (await http.get(f"/v1/attachments/{id}{led_by}")).is_success
                await until(lambda: not pages.filling)
    trace = read_page_trace(made.path)
    published = trace.operations.kind == PUBLISH
    assert trace.operations.subscriptions[published].tolist() == [2] * 10 + [4] * 4
    assert (trace.operations.kind == RENEWED).sum() == 4
    outcome, steps = replay_pages(trace, parse_page_policy("dc"), 10_000)
    assert len(list(steps.in_words())) == len(trace.operations)
    row = outcome.row()
    assert 0 < row["hits"] < row["requests"] == counters.requests
    assert (row["hits"], row["stored"], row["evicted"]) == (
        counters.hits,
        counters.stored,
        counters.evicted,
    )
    assert made.trace().opened() == (counters.requests, counters.hits)
    assert not any(id.encode() in made.path.read_bytes() for id in ids)
