"""What a broker cannot handle is set aside: whoever asked hears so, what is behind it goes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from broker.world import World, take, until
from tocsin.broker.machine.effects import Attached, Fail
from tocsin.errors import NotFound, TocsinError
from tocsin.testing.fake_subscriptions import Backend


def once(failing: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, which fails the first time."""
    failed: list[object] = []

    def first_fails(*args: Any, **options: Any) -> Any:
        if not failed:
            failed.append(args)
            raise ValueError("poison")
        return failing(*args, **options)

    return first_fails


@pytest.mark.parametrize(
    ("method", "frame"),
    [
        ("get", {"op": "get"}),
        ("unsubscribe", {"op": "unsubscribe"}),
        ("subscribe", {"op": "subscribe", "channel": "floods", "arguments": {"type": "b"}}),
    ],
)
async def test_a_frame_that_cannot_be_handled_is_answered_and_the_next_one_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch, method: str, frame: dict[str, Any]
) -> None:
    broker = await world.broker()
    wire = await world.socket(broker, "ann")
    subscribed = await wire.subscribe(type="a")
    machine = broker.driver.machine
    monkeypatch.setattr(machine, method, once(getattr(machine, method)))
    of = {"subscription": subscribed["subscription"]} if "channel" not in frame else {}
    await wire.send(**frame, **of, ref="poison")
    failure = await wire.until("error")
    assert (failure["ref"], failure["error"]["code"]) == ("poison", "internal")
    for number in range(6):  # more than wait for answers at once
        await wire.send(op="get", ref=number, subscription=subscribed["subscription"])
        assert (await wire.until("results"))["ref"] == number


class Asker:
    def __init__(self, failing: bool) -> None:
        self.failing = failing
        self.heard: list[TocsinError] = []

    def answered(self, answer: object) -> None:
        raise AssertionError(answer)

    def failed(self, error: TocsinError) -> None:
        if self.failing:
            self.failing = False
            raise ValueError("poison")
        self.heard.append(error)


async def test_an_effect_that_cannot_be_carried_out_keeps_none_behind_it(world: World) -> None:
    broker = await world.broker()
    askers = [Asker(failing) for failing in (True, False)]
    broker.driver.perform([Fail(asker, NotFound("nothing")) for asker in askers])
    assert [[error.code for error in asker.heard] for asker in askers] == [
        ["internal"],
        ["not_found"],
    ]


async def test_who_waits_for_an_effect_that_fails_hears_of_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await world.broker()
    http = await world.http(broker, "bob")
    performers = broker.driver._performers
    monkeypatch.setitem(performers, Attached, once(performers[Attached]))
    refused = await http.get("/v1/subscriptions")
    assert (refused.status_code, refused.json()["error"]["code"]) == (500, "internal")
    assert (await http.get("/v1/subscriptions")).status_code == 200


async def test_news_that_cannot_be_handled_are_asked_for_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = await world.broker()
    client = await world.client("ann")
    feed = await client.subscribe("floods", type="a")
    monkeypatch.setattr(broker.driver.machine, "news", once(broker.driver.machine.news))
    world.cluster.drop_notices = True
    world.cluster.produce("floods", {"type": "a"}, [{"n": 1}])
    assert [result.value["n"] for result in await take(feed, 1)] == [1]


async def test_results_that_cannot_be_read_harm_no_others_in_the_same_answer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.broker(cache_policy="none")
    client = await world.client("ann")
    good = await client.subscribe("floods", type="good")
    await client.subscribe("floods", type="bad")
    between = Backend.between

    def poisoned(backend: Backend, **bounds: Any) -> dict[str, Any]:
        answer = between(backend, **bounds)
        return answer | {"results": "none"} if backend.arguments["type"] == "bad" else answer

    monkeypatch.setattr(Backend, "between", poisoned)
    world.cluster.fetch_gate.clear()
    for kind in ("bad", "good"):
        world.cluster.produce("floods", {"type": kind}, [{"of": kind}])
    await until(lambda: world.cluster.fetches)
    world.cluster.fetch_gate.set()
    assert [result.value["of"] for result in await take(good, 1)] == ["good"]
