"""While the cluster does not answer, whatever a broker holds has a bound: counted, not measured."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from broker.world import Wire, World, token, until
from tocsin.broker.server import Broker, relay, rest

MOST_WAITING = 24
PATIENT = {"idempotency-key": "k", "content-type": "application/json"}


def lengths(thing: Any, path: str, seen: set[int]) -> Iterator[tuple[str, int]]:
    """How long each collection is that can be reached from an object of ours."""
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, dict | list | set | deque):
        yield path, len(thing)
        inside = thing.values() if isinstance(thing, dict) else thing
        for held in list(inside):
            yield from lengths(held, f"{path}[]", seen)
    elif type(thing).__module__.startswith("tocsin."):
        slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
        for name in [*vars(thing), *slots] if hasattr(thing, "__dict__") else slots:
            if hasattr(thing, name):
                yield from lengths(getattr(thing, name), f"{path}.{name}", seen)


def held(broker: Broker) -> dict[str, int]:
    """The longest collection of each kind, in the broker and what serves its calls."""
    longest: dict[str, int] = {}
    for path, length in lengths(broker, "broker", set()):
        longest[path] = max(longest.get(path, 0), length)
    return longest


class Load:
    """Somebody who asks without end and leaves before the answer: by calls, and by frames."""

    def __init__(self, world: World, broker: Broker, wire: Wire, mine: int) -> None:
        self._broker = broker
        self._wire = wire
        self._mine = mine
        self._epoch = world.cluster.frontends[mine].backend.epoch
        self._round = 0
        self.statuses: list[int] = []
        self.retries: set[str | None] = set()
        self._calls: set[asyncio.Task[None]] = set()

    async def round(self) -> None:
        self._round += 1
        subscribing = {"channel": "floods", "arguments": {"type": f"new {self._round}"}}
        mine = f"/v1/subscriptions/{self._mine}"
        records = b'{"n":1}' + b" " * 4000
        async with httpx.AsyncClient(
            base_url=self._broker.url,
            headers={"authorization": f"Bearer {token('ann', 'subscribe', 'publish')}"},
            timeout=httpx.Timeout(5.0, read=0.3),  # they leave, and come again
        ) as http:
            ack = {"epoch": self._epoch, "position": self._round}
            asked: list[tuple[str, str, dict[str, Any]]] = [
                ("POST", "/v1/subscriptions", {"json": subscribing}),
                ("GET", "/v1/subscriptions", {}),
                ("DELETE", mine, {}),
                ("GET", f"{mine}/results?after=0&epoch={self._epoch}", {}),
                ("POST", f"{mine}/ack", {"json": ack}),
                ("POST", "/v1/datasets/reports/records", {"content": records, "headers": PATIENT}),
            ]
            await asyncio.gather(*(self._call(http, *call) for call in asked * 8))
        for number in range(40):
            await self._wire.send(op="get", ref=number, subscription=self._mine, after=0)
            await self._wire.send(
                op="ack", subscription=self._mine, epoch=self._epoch, position=self._round
            )

    async def _call(self, http: httpx.AsyncClient, method: str, path: str, more: Any) -> None:
        try:
            answer = await http.request(method, path, **more)
        except httpx.TimeoutException:
            return
        self.statuses.append(answer.status_code)
        if answer.status_code == 503:
            self.retries.add(answer.headers.get("retry-after"))


async def test_what_a_broker_holds_while_the_cluster_is_dead_has_bounds(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest, "MOST_WAITING", MOST_WAITING)
    monkeypatch.setattr(relay, "BODIES", 2)
    broker = await world.broker(body_limit_bytes=16 * 1024)
    broker.sockets.most_waiting = MOST_WAITING
    wire = await world.socket(broker, "ann")
    mine = (await wire.subscribe(type="a"))["subscription"]
    world.cluster.produce("floods", {"type": "a"}, [{"n": n} for n in range(100)])
    await until(lambda: _head(broker) == 100)
    load = Load(world, broker, wire, mine)
    world.cluster.answer_gate.clear()
    try:
        for _ in range(3):
            await load.round()
        before = held(broker)
        for _ in range(6):
            await load.round()
        grown = {
            path: (before.get(path, 0), length)
            for path, length in held(broker).items()
            if length > before.get(path, 0) + MOST_WAITING
        }
        assert grown == {}
        assert len(broker.rest.waiting) <= MOST_WAITING
        assert broker.driver.relaying.held_bytes <= broker.driver.relaying.most_bytes
        assert set(load.statuses) == {503}
        assert load.retries == {"1"}
    finally:
        world.cluster.answer_gate.set()
    await until(lambda: not broker.rest.waiting)
    await until(lambda: broker.driver.relaying.held_bytes == 0)
    await world.crash(broker)


def _head(broker: Broker) -> int:
    (backend,) = broker.driver.core.table.backends.values()
    return backend.fetched
