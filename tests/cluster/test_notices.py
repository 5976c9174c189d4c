"""What brokers are told, and when the store is asked for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tocsin.cluster import broker_news, notices
from tocsin.cluster.notices import Notifier
from tocsin.model import Channel, Subscription
from tocsin.service.serving import listen, port_of, serving
from tocsin.storage.store.matches import Match
from tocsin.storage.store.store import Store

SECRET = "s" * 32
CHANNEL = Channel("c", "continuous", (), "", (), (), push=True)


class Broker:
    """Hears notices."""

    def __init__(self) -> None:
        self.heard: list[dict[str, Any]] = []
        self.refusals: list[int] = []  # statuses of the answers to come
        self.answer: dict[str, Any] = {}

    async def hear(self, request: Request) -> Response:
        self.heard.append(msgspec.json.decode(await request.body()))
        body = msgspec.json.encode(self.answer)
        return Response(body, self.refusals.pop(0) if self.refusals else 200)

    def heads(self, backend: int) -> list[int]:
        return [
            head["head"]
            for notice in self.heard
            for head in notice["heads"]
            if head["backend"] == backend
        ]


class World:
    def __init__(self, store: Store, notifier: Notifier, broker: Broker) -> None:
        self.store = store
        self.notifier = notifier
        self.broker = broker
        self.asked = 0
        self.channel = CHANNEL
        self._offset = 0
        asking = store.subscriptions.news

        def news(*args: Any, **options: Any) -> Any:
            self.asked += 1
            return asking(*args, **options)

        store.subscriptions.news = news  # type: ignore[method-assign]

    def subscribe(self, who: str, **arguments: str) -> Subscription:
        made, _ = self.store.subscriptions.subscribe(who, "c", arguments, "edge")
        self.notifier.wake()
        return made

    def commit(self, backend: int) -> None:
        self._offset += 1
        found = [Match("c", backend, self._offset, b"1")]
        for committed in self.store.matches.store(found):
            self.notifier.results_committed(self.channel, committed)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(f"sqlite:///{tmp_path}/store.db") as opened:
        yield opened


@pytest.fixture
async def world(store: Store) -> AsyncIterator[World]:
    store.catalog.create_channel(CHANNEL)
    broker, listener = Broker(), listen("127.0.0.1", 0)
    app = Starlette(routes=[Route("/v1/notices", broker.hear, methods=["POST"])])
    url = f"http://127.0.0.1:{port_of(listener)}"
    store.catalog.put_broker("edge", url)
    async with serving(app, listener):
        notifier = Notifier(store, lambda _: SECRET)
        await notifier.start()
        yield World(store, notifier, broker)
        await notifier.stop()


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not true():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def test_heads_of_what_a_broker_has_are_told_without_asking_the_store(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "LOOK_S", 60.0)
    mine = world.subscribe("ann")
    await until(lambda: world.broker.heads(mine.backend.id) == [0])
    asked = world.asked
    for head in (1, 2, 3):
        world.commit(mine.backend.id)
        await until(lambda head=head: world.broker.heads(mine.backend.id)[-1] == head)  # type: ignore[misc]
    assert world.asked == asked
    assert [one["results"] for one in world.broker.heard[-1]["heads"]] == [
        [{"position": 3, "at": pytest.approx(0, abs=1e11), "value": 1}]
    ]


async def test_the_store_is_asked_soon_for_what_the_broker_may_have_besides(world: World) -> None:
    mine, _ = world.store.subscriptions.subscribe("ann", "c", {}, "edge")  # nobody was woken
    world.commit(mine.backend.id)
    await until(lambda: world.broker.heads(mine.backend.id) == [1])


async def test_the_stores_answer_repeats_nothing_that_was_told(world: World) -> None:
    mine = world.subscribe("ann")
    await until(lambda: world.broker.heads(mine.backend.id) == [0])
    world.commit(mine.backend.id)
    await until(lambda: world.broker.heads(mine.backend.id) == [0, 1])
    other = world.subscribe("bob", of="bob")
    await until(lambda: world.broker.heads(other.backend.id) == [0])
    assert world.broker.heads(mine.backend.id) == [0, 1]


@pytest.mark.parametrize("said", [None, True, False])
async def test_results_travel_as_the_brokers_last_answer_says(
    world: World, said: bool | None
) -> None:
    world.broker.answer = {} if said is None else {"keeps": said}
    world.channel = msgspec.structs.replace(CHANNEL, push=False)
    mine = world.subscribe("ann")
    await until(lambda: world.broker.heads(mine.backend.id) == [0])
    await until(lambda: world.notifier._brokers["edge"].keeps is said)
    world.commit(mine.backend.id)
    await until(lambda: world.broker.heads(mine.backend.id) == [0, 1])
    (head,) = world.broker.heard[-1]["heads"]
    assert [one["value"] for one in head.get("results", [])] == ([1] if said else [])


async def test_brokers_that_serve_the_same_are_told_the_same(world: World) -> None:
    url = next(iter(world.notifier._brokers.values())).url
    world.store.catalog.put_broker("west", url)
    await world.notifier.know("west", url)
    mine = world.subscribe("ann")
    other, _ = world.store.subscriptions.subscribe("bob", "c", {}, "west")
    world.notifier.wake()
    assert other.backend.id == mine.backend.id
    await until(lambda: world.broker.heads(mine.backend.id) == [0, 0])
    world.commit(mine.backend.id)
    await until(lambda: world.broker.heads(mine.backend.id) == [0, 0, 1, 1])
    first, second = world.broker.heard[-2:]
    assert first["heads"] == second["heads"]
    assert len(first["heads"][0]["results"]) == 1


async def test_who_leaves_is_told(world: World) -> None:
    mine = world.subscribe("ann")
    await until(lambda: world.broker.heads(mine.backend.id) == [0])
    world.store.subscriptions.unsubscribe(mine.id, None)
    world.notifier.wake()
    await until(lambda: bool(world.broker.heard[-1]["detached"]))
    assert world.broker.heard[-1]["detached"][0]["subscription"] == mine.id


async def test_a_notice_that_would_be_large_is_told_in_parts(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_news, "HEADS_AT_MOST", 2)
    for name in ("ann", "bo", "cem", "dee", "eva"):
        world.store.subscriptions.subscribe(name, "c", {"of": name}, "edge")
    world.notifier.wake()
    backends = {head["backend"] for notice in world.broker.heard for head in notice["heads"]}

    def heard() -> bool:
        backends.update(
            head["backend"] for notice in world.broker.heard for head in notice["heads"]
        )
        return len(backends) == 5

    await until(heard)
    assert all(len(notice["heads"]) <= 2 for notice in world.broker.heard)


@pytest.mark.parametrize("status", [400, 413, 500])
async def test_a_notice_that_a_broker_refuses_holds_up_none_behind_it(
    world: World, status: int
) -> None:
    mine = world.subscribe("ann")
    await until(lambda: world.broker.heads(mine.backend.id) == [0])
    world.broker.refusals = [status]
    world.commit(mine.backend.id)
    await until(lambda: world.broker.heads(mine.backend.id) == [0, 1])
    world.commit(mine.backend.id)
    await until(lambda: world.broker.heads(mine.backend.id) == [0, 1, 2])


@pytest.mark.parametrize("status", [401, 429, 503])
async def test_a_notice_that_cannot_be_taken_now_comes_again(
    world: World, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "FIRST_RETRY_S", 0.01)
    mine = world.subscribe("ann")
    await until(lambda: world.broker.heads(mine.backend.id) == [0])
    world.broker.refusals = [status, status]
    world.commit(mine.backend.id)
    await until(lambda: world.broker.heads(mine.backend.id) == [0, 1, 1, 1])


async def test_a_notice_that_cannot_be_made_is_not_the_last(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = world.subscribe("ann")
    await until(lambda: world.broker.heads(mine.backend.id) == [0])
    failed: list[object] = []

    def poisoned(*given: object) -> Any:
        failed.append(given)
        raise ValueError("poison")

    with monkeypatch.context() as broken:
        broken.setattr(notices, "head_news", poisoned)
        world.commit(mine.backend.id)
        await until(lambda: bool(failed))
    world.commit(mine.backend.id)
    await until(lambda: world.broker.heads(mine.backend.id) == [0, 2])
