"""Plays visits at live brokers, over HTTP: a client is a subscription that comes, asks, and leaves
when its time is over. All messages of a play are records of one dataset; their numbers go on from
play to play, so that no client wants those of an earlier one.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import httpx
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tocsin.client import Client
from tocsin.demo.player import Actor, Player, Timed, few_at_a_time
from tocsin.lab.simulators.overlay.visits import NOBODY, Answers, Foretold
from tocsin.lab.spec.study import BrokenPromise
from tocsin.lab.workloads.visits import Visits
from tocsin.policies.message import MessagePolicy
from tocsin.system import System

DATASET = "messages"
WAIT_S = 0.5  # for responses: many times what they take
AT_ONCE = 8  # calls, where nothing is timed
PATIENCE_S = 60.0
TELL_S = 0.3  # until brokers have told each other what their clients want
AGAIN_S = 0.05


class Played(Struct, frozen=True, kw_only=True):
    answers: Answers
    took_s: NDArray[np.float64]  # from the request to its first response; NaN: there was none
    late_s: NDArray[np.float64]  # from when a client should be there until it is


class VisitPlayer:
    """The system is up; `runner` has its event loop."""

    def __init__(self, runner: asyncio.Runner, system: System) -> None:
        self._runner = runner
        self._system = system
        self._next = 0  # number of a message
        self._clients = 0
        self._admin = system.token("lab", "admin", "publish")
        # Brokers close what is idle for 5 s: never send into a connection that is being closed.
        limits = httpx.Limits(max_keepalive_connections=50, keepalive_expiry=2.0)
        self._http = [
            httpx.AsyncClient(base_url=url, limits=limits, timeout=PATIENCE_S)
            for url in system.broker_urls.values()
        ]
        runner.run(self._set_up())

    def play(
        self, visits: Visits, policy: MessagePolicy, foretold: Foretold, *, speed: float
    ) -> Played:
        """`speed`: seconds of the visits in one of ours."""
        return self._runner.run(self._play(visits, policy, foretold.held, speed))

    def close(self) -> None:
        for http in self._http:
            self._runner.run(http.aclose())

    async def _set_up(self) -> None:
        async with Client(cluster=self._system.cluster_url, token=self._admin) as client:
            await client.sql(f"CREATE DATASET {DATASET} (number BIGINT) ROUTED")
        await self._whole()

    async def _whole(self) -> None:
        await self._until("ends of links", 2 * (len(self._http) - 1), _links)

    async def _play(self, visits: Visits, policy: MessagePolicy, held: int, speed: float) -> Played:
        load = visits.load
        for slots in (0, load.slots):  # none: what an earlier play left goes
            for http in self._http:
                chosen = {"policy": policy.text, "slots": slots}
                await self._call(http, "PUT", "/v1/overlay/messages", self._admin, json=chosen)
        self._next, first = self._next + load.messages, self._next
        clients = [
            _Client(self, int(broker), first + int(message))
            for broker, message in zip(visits.broker, visits.message, strict=True)
        ]
        try:
            await few_at_a_time((client.come() for client in clients[: visits.early]), AT_ONCE)
            await asyncio.sleep(TELL_S)
            await self._publish(first, load.messages)
            await self._until("messages cached", held, _held)
            before = await self._counted()
            await _come_and_go(clients, visits, speed)
            after = await self._counted()
            await self._whole()
        except BrokenPromise:
            await few_at_a_time((client.forget() for client in clients), AT_ONCE)
            raise
        await few_at_a_time((client.leave() for client in clients), AT_ONCE)
        requesting = clients[visits.early :]
        return Played(
            answers=Answers(
                hops=np.array([client.hops for client in requesting], np.int64),
                responses=after["responses"] - before["responses"],
                delivered=after["delivered"] - before["delivered"],
            ),
            took_s=np.array([client.took_s for client in requesting]),
            late_s=np.array([client.late_s for client in requesting]),
        )

    async def _publish(self, first: int, messages: int) -> None:
        records = [{"number": first + number} for number in range(messages)]
        async with Client(cluster=self._system.cluster_url, token=self._admin) as client:
            published = await client.publish(DATASET, records)
        if published.accepted != messages:
            raise BrokenPromise(f"{published.rejected} records were rejected")

    async def _counted(self) -> dict[str, int]:
        counters = [broker["messages"]["requests"] for broker in await self._overlay()]
        return {name: sum(counts[name] for counts in counters) for name in counters[0]}

    async def _overlay(self) -> list[dict[str, Any]]:
        return [await self._call(http, "GET", "/v1/overlay", self._admin) for http in self._http]

    async def _until(self, what: str, expected: int, count: Callable[[Any], int]) -> None:
        ends_at = time.monotonic() + PATIENCE_S
        while (total := sum(count(state) for state in await self._overlay())) != expected:
            if time.monotonic() > ends_at:
                raise BrokenPromise(f"{what}: {total} instead of {expected}")
            await asyncio.sleep(AGAIN_S)

    async def subscribe(self, broker: int, number: int) -> tuple[str, int]:
        """The token of a new client, and its subscription."""
        self._clients += 1
        token = self._system.token(f"client-{self._clients}", "subscribe")
        body = {"channel": f"dataset/{DATASET}", "arguments": {"where": _where(number)}}
        path = "/v1/subscriptions"
        answer = await self._call(self._http[broker], "POST", path, token, json=body)
        return token, answer["subscription"]

    async def unsubscribe(self, broker: int, token: str, subscription: int) -> None:
        path = f"/v1/subscriptions/{subscription}"
        await self._call(self._http[broker], "DELETE", path, token)

    async def recall(self, broker: int, number: int, token: str) -> list[dict[str, Any]]:
        body = {"dataset": DATASET, "where": _where(number), "wait_s": WAIT_S}
        answer = await self._call(self._http[broker], "POST", "/v1/recall", token, json=body)
        return list(answer["found"])

    async def _call(
        self, http: httpx.AsyncClient, method: str, path: str, token: str, **body: Any
    ) -> Any:
        headers = {"Authorization": f"Bearer {token}"}
        try:
            answer = await http.request(method, path, headers=headers, **body)
        except httpx.HTTPError as error:
            raise BrokenPromise(f"{method} {path}: {str(error) or type(error).__name__}") from None
        if answer.status_code != 200:
            raise BrokenPromise(f"{method} {path}: {answer.text}")
        return answer.json()


class _Client(Actor):
    def __init__(self, brokers: VisitPlayer, broker: int, number: int) -> None:
        super().__init__()
        self.hops, self.took_s, self.late_s = NOBODY, float("nan"), 0.0
        self._brokers = brokers
        self._broker = broker
        self._number = number
        self._there: tuple[str, int] | None = None

    def enter(self, at_s: float) -> None:
        """Come, and ask: nothing waits for the answer."""
        self.concurrently(self._ask, after=self.then(partial(self._come_at, at_s)))

    async def _come_at(self, at_s: float) -> None:
        await self.come()
        assert self.player is not None
        self.late_s = self.player.now_s - at_s

    async def come(self) -> None:
        self._there = await self._brokers.subscribe(self._broker, self._number)

    async def leave(self) -> None:
        if self._there is not None:
            there, self._there = self._there, None
            await self._brokers.unsubscribe(self._broker, *there)

    async def forget(self) -> None:
        """Leave, if that can be: what clients of this play want, others do not."""
        with contextlib.suppress(BrokenPromise):
            await self.leave()

    async def _ask(self) -> None:
        assert self._there is not None
        copies = await self._brokers.recall(self._broker, self._number, self._there[0])
        if copies:
            self.hops, self.took_s = copies[0]["hops"], copies[0]["took_s"]


def _where(number: int) -> str:
    return f"number = {number}"


def _held(state: dict[str, Any]) -> int:
    return int(state["messages"]["held"])


def _links(state: dict[str, Any]) -> int:
    return len(state["neighbours"])


async def _come_and_go(clients: Sequence[_Client], visits: Visits, speed: float) -> None:
    """Who would stay longer than the play stays until all has been counted."""
    course: list[Timed] = []
    duration_s = visits.load.duration_s / speed
    came_s, left_s = ((times / speed).tolist() for times in (visits.came_s, visits.left_s))
    for number, client in enumerate(clients):
        if number >= visits.early:
            course.append(Timed(came_s[number], partial(client.enter, came_s[number])))
        if left_s[number] < duration_s:
            course.append(Timed(left_s[number], partial(client.then, client.leave)))
    course.sort(key=lambda act: act.at_s)
    try:
        await Player(clients, tick_s=0.0).play(course)
    finally:
        await asyncio.gather(*(client.give_up() for client in clients))
