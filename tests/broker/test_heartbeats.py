"""A broker with several coordinators: one place, and the tree of whoever knows the most."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import pytest

from tocsin.broker.server.heartbeats import Coordinator, Heartbeats, followed
from tocsin.coordinator import app
from tocsin.errors import InvalidInput
from tocsin.protocol.coordinator import Heartbeat, HeartbeatAnswer, OverlayAssignment
from tocsin.service.hosting import hosting
from tocsin.service.keys.credentials import credential_of
from tocsin.service.serving import listen, port_of
from tocsin.settings import Settings

SECRET = "a secret that only the tests know and nobody else"
SETTINGS = Settings(secret=SECRET, heartbeat_s=0.1)
NAMES = [f"broker_{number}" for number in range(1, 6)]


def heard(alive: int, at: float) -> Coordinator:
    coordinator = Coordinator("http://somewhere")
    coordinator.answer, coordinator.answered_at = HeartbeatAnswer(1.0, 0, None, alive), at
    return coordinator


def test_the_one_that_knows_the_most_is_followed_and_of_equals_the_first() -> None:
    few, most, same = heard(1, 10.0), heard(3, 9.0), heard(3, 10.0)
    assert followed([few, most, same], 10.0, 3.0) is most
    assert followed([few, most, same], 12.5, 3.0) is same  # the other has not answered lately
    assert followed([few, most, same], 20.0, 3.0) is None
    assert followed([Coordinator("http://new")], 0.0, 3.0) is None


@contextlib.asynccontextmanager
async def coordinator(port: int = 0) -> AsyncIterator[int]:
    listener = listen("127.0.0.1", port)
    number = port_of(listener)
    async with hosting(SETTINGS, lambda inner: app(SETTINGS, inner), listener, None):
        yield number


class Member:
    """A broker, as coordinators see it."""

    def __init__(self, name: str, urls: str) -> None:
        self.overlay = OverlayAssignment(None, {})
        credential = credential_of(Settings(secret=SECRET, broker_name=name))
        self.heartbeats = Heartbeats(urls, name, credential, 0.1, "", self._assigned)
        self._name = name

    def _assigned(self, overlay: OverlayAssignment) -> None:
        self.overlay = overlay

    async def run(self) -> None:
        await self.heartbeats.run(
            lambda place: Heartbeat(f"http://{self._name}", f"ws://{self._name}", 0, 0, place)
        )


def one_tree(members: list[Member]) -> bool:
    """Neighbours know each other, all enter at one place, and no link is missing."""
    beside = {m._name: set(m.overlay.neighbours) for m in members}
    mutual = all(name in beside[other] for name in NAMES for other in beside[name])
    entries = {member.overlay.entry for member in members}
    return mutual and len(entries) == 1 and sum(map(len, beside.values())) == 2 * len(NAMES) - 2


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_two_coordinators_say_one_tree_and_one_of_them_is_enough() -> None:
    async with contextlib.AsyncExitStack() as until_end, contextlib.AsyncExitStack() as until_away:
        first = await until_end.enter_async_context(coordinator())
        second = await until_away.enter_async_context(coordinator())
        urls = [f"http://127.0.0.1:{port}" for port in (first, second)]
        orders = [urls, urls[::-1]]  # not everybody was given them in one order
        members = [Member(name, ",".join(orders[n % 2])) for n, name in enumerate(NAMES)]
        running = [asyncio.create_task(member.run()) for member in members]
        try:
            await until(lambda: one_tree(members))
            before = [member.overlay for member in members]
            await until_away.aclose()
            await asyncio.sleep(0.6)
            assert [member.overlay for member in members] == before
            await until_end.enter_async_context(coordinator(second))  # it knows nothing any more
            await asyncio.sleep(0.6)
            assert [member.overlay for member in members] == before
            assert all(member.heartbeats.trouble is None for member in members)
        finally:
            for task in running:
                task.cancel()
            ended = await asyncio.gather(*running, return_exceptions=True)
        assert all(isinstance(end, asyncio.CancelledError) for end in ended), ended


def test_what_is_no_address_of_a_coordinator_is_refused() -> None:
    with pytest.raises(InvalidInput) as refused:
        Member("broker_1", "http://127.0.0.1:7410,somewhere:7410")
    assert refused.value.field == "coordinator_url"
