"""A writer of matches tells the cluster that leads what it has stored, as far as there is room."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tocsin.cluster.writing import telling as module
from tocsin.cluster.writing.telling import UNTOLD, Telling
from tocsin.model import Head
from tocsin.storage.store.runs import Committed


class Token:
    def token(self, audience: str = "") -> str:
        return "a token"


class Leader:
    """Answers as it is told, and remembers what it took."""

    def __init__(self) -> None:
        self.status = 200
        self.taken: list[dict[str, Any]] = []
        self.calls = 0

    async def __call__(self, request: httpx.Request) -> httpx.Response:
        self.calls += 1
        assert (request.url.path, request.method) == ("/v1/commits", "POST")
        assert request.headers["authorization"] == "Bearer a token"
        if self.status == 200:
            self.taken += json.loads(request.content)["commits"]
            return httpx.Response(200, json={})
        error = {"error": {"code": "invalid_input", "message": "no"}}
        return httpx.Response(self.status, json=error)

    async def is_called(self, times: int) -> None:
        async with asyncio.timeout(10):
            while self.calls < times:  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    @property
    def sequences(self) -> list[int]:
        return [commit["sequence"] for commit in self.taken]


@pytest.fixture
def leader() -> Leader:
    return Leader()


@pytest.fixture
async def telling(leader: Leader) -> AsyncIterator[Telling]:
    told = Telling("http://leader", Token())
    told._http = httpx.AsyncClient(transport=httpx.MockTransport(leader))  # type: ignore[assignment]
    running = asyncio.create_task(told.run())
    yield told
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def committed(sequence: int, *payloads: bytes) -> Committed:
    count = len(payloads)
    heads, positions = [Head(7, "epoch", count)], list(range(1, count + 1))
    return Committed("c", "real-time", sequence, heads, [7] * count, positions, [*payloads], at=1.0)


async def until(leader: Leader, sequence: int) -> None:
    async with asyncio.timeout(10):
        while sequence not in leader.sequences:  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_what_was_stored_is_told_in_order(telling: Telling, leader: Leader) -> None:
    for sequence in range(1, 50):
        telling.committed(committed(sequence, b'{"n":1}', b'{"n":2}'))
    await until(leader, 49)
    assert leader.sequences == list(range(1, 50))
    assert leader.calls < 49
    assert leader.taken[0] == {
        "channel": "c",
        "sequence": 1,
        "heads": [{"backend": 7, "epoch": "epoch", "head": 2}],
        "backends": [7, 7],
        "positions": [1, 2],
        "values": [{"n": 1}, {"n": 2}],
        "at": 1.0,
    }


async def test_what_is_stored_while_nobody_leads_is_told_by_and_by(
    telling: Telling, leader: Leader
) -> None:
    leader.status = 503
    telling.committed(committed(1, b"1"))
    telling.committed(committed(2, b"1"))
    await leader.is_called(3)
    leader.status = 200
    await until(leader, 2)
    assert leader.sequences == [1, 2]


async def test_the_oldest_goes_when_there_is_no_more_room(
    telling: Telling, leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ROOM_BYTES", 10_000)
    before = UNTOLD._value.get()
    leader.status = 503
    for sequence in range(1, 101):
        telling.committed(committed(sequence, b'"%s"' % (b"x" * 1000)))
    await leader.is_called(2)
    leader.status = 200
    await until(leader, 100)
    assert len(leader.sequences) + UNTOLD._value.get() - before == 100
    assert leader.sequences[-5:] == [96, 97, 98, 99, 100]
    assert len(leader.sequences) < 20


async def test_a_large_commit_is_told_by_its_heads(
    telling: Telling, leader: Leader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CALL_BYTES", 5000)
    telling.committed(committed(1, b'"%s"' % (b"x" * 6000)))
    telling.committed(committed(2, b"1"))
    await until(leader, 2)
    assert leader.taken[0]["heads"] == [{"backend": 7, "epoch": "epoch", "head": 1}]
    assert leader.taken[0]["values"] == []


async def test_what_the_cluster_refuses_holds_up_nothing(telling: Telling, leader: Leader) -> None:
    leader.status = 400
    telling.committed(committed(1, b"1"))
    await leader.is_called(1)
    leader.status = 200
    telling.committed(committed(2, b"1"))
    await until(leader, 2)
    assert leader.sequences == [2]
