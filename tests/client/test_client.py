"""The client against real brokers that come, go and crash."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from broker.world import PATIENCE_S, World, cut, take, token, until
from tocsin.client import Client
from tocsin.errors import (
    Conflict,
    InvalidInput,
    NotFound,
    RecordError,
    Unauthenticated,
    Unavailable,
)
from tocsin.service.tokens import mint
from tocsin.testing.fake_cluster import SECRET

FLOOD = {"type": "flood"}


async def test_five_lines_subscribe_and_iterate(world: World) -> None:
    broker = await world.broker()
    await until(lambda: broker.driver.machine.store_id)
    client = await world.client("alice")
    async with await client.subscribe("floods", type="flood") as floods:
        world.cluster.produce("floods", FLOOD, [{"n": 1}, {"n": 2}])
        results = await take(floods, 2)
        assert [r.value for r in results] == [{"n": 1}, {"n": 2}]
        assert [r.position for r in results] == [1, 2]
        assert results[0].channel == "floods"
        assert results[0].gap is None
        assert abs(results[0].at - time.time()) < 60
    assert world.cluster.marker("alice") == 2  # leaving the block acknowledged the last one


async def test_listen_subscribes_and_iterates_in_one_step(world: World) -> None:
    await world.broker()
    client = await world.client("alice")
    stream = client.listen("floods", type="flood")
    first = asyncio.ensure_future(anext(stream))
    await until(lambda: world.cluster.frontends)
    world.cluster.produce("floods", FLOOD, [{"n": 1}])
    async with asyncio.timeout(PATIENCE_S):
        assert (await first).value == {"n": 1}


@pytest.mark.parametrize("inline", [True, False])
async def test_the_next_session_resumes_behind_the_last_acknowledged_result(
    world: World, inline: bool
) -> None:
    await world.broker()
    first = await world.client("alice", inline=inline)
    floods = await first.subscribe("floods", type="flood")
    world.cluster.produce("floods", FLOOD, [{"n": n} for n in range(1, 5)])
    await take(floods, 3)  # asking for the third acknowledges the second
    await until(lambda: world.cluster.marker("alice") == 2)
    await first.close()
    world.cluster.produce("floods", FLOOD, [{"n": 5}])

    second = await world.client("alice", inline=inline)
    floods = await second.subscribe("floods", type="flood")
    assert [r.position for r in await take(floods, 3)] == [3, 4, 5]


async def test_leaving_with_an_exception_does_not_acknowledge_the_last_result(
    world: World,
) -> None:
    await world.broker()
    client = await world.client("alice")

    async def application() -> None:
        async with await client.subscribe("floods", type="flood") as floods:
            world.cluster.produce("floods", FLOOD, [{"n": 1}, {"n": 2}])
            await take(floods, 2)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await application()
    assert world.cluster.marker("alice") == 1


async def test_manual_acknowledgement_is_the_applications_own(world: World) -> None:
    await world.broker()
    client = await world.client("alice", ack="manual")
    async with await client.subscribe("floods", type="flood") as floods:
        world.cluster.produce("floods", FLOOD, [{"n": n} for n in range(3)])
        results = await take(floods, 3)
        assert world.cluster.marker("alice") == 0
        floods.ack(results[1])
        await floods.settle()
        assert world.cluster.marker("alice") == 2
    assert world.cluster.marker("alice") == 2


async def test_when_a_broker_crashes_the_client_moves_and_sees_each_result_once_in_order(
    world: World,
) -> None:
    brokers = {name: await world.broker(name) for name in ("one", "two")}
    client = await world.client("alice")
    floods = await client.subscribe("floods", type="flood")
    made = 0
    seen: list[int] = []
    for _ in range(4):
        world.cluster.produce("floods", FLOOD, [{"n": made + 1}, {"n": made + 2}])
        made += 2
        seen += [r.value["n"] for r in await take(floods, 1)]
        served_by = client.broker
        assert served_by is not None
        await world.crash(brokers[served_by])
        world.cluster.produce("floods", FLOOD, [{"n": made + 1}])
        made += 1
        seen += [r.value["n"] for r in await take(floods, made - len(seen))]
        await until(lambda: client.broker)
        assert client.broker != served_by
        brokers[served_by] = await world.broker(served_by)
    assert seen == list(range(1, made + 1))
    assert floods.gaps == []


async def test_a_broker_that_stops_sends_its_clients_elsewhere(world: World) -> None:
    brokers = {name: await world.broker(name) for name in ("one", "two")}
    client = await world.client("alice")
    floods = await client.subscribe("floods", type="flood")
    served_by = client.broker
    assert served_by is not None
    await world.stop(brokers[served_by])
    world.cluster.produce("floods", FLOOD, [{"n": 1}])
    assert [r.position for r in await take(floods, 1)] == [1]
    assert client.broker != served_by


async def test_a_cluster_that_is_away_delays_but_loses_nothing(world: World) -> None:
    broker = await world.broker()
    client = await world.client("alice")
    floods = await client.subscribe("floods", type="flood")
    world.cluster.down = True
    world.cluster.produce("floods", FLOOD, [{"n": 1}])
    await cut(broker)  # it must attach again, which nobody answers
    world.cluster.down = False
    assert [r.position for r in await take(floods, 1)] == [1]


async def test_a_slow_application_bounds_what_is_prefetched(world: World) -> None:
    await world.broker()
    client = await world.client("alice", prefetch=4)
    floods = await client.subscribe("floods", type="flood")
    for n in range(30):
        world.cluster.produce("floods", FLOOD, [{"n": n}])
    first = await take(floods, 1)
    assert floods._listener.feed.buffered <= 4
    rest = await take(floods, 29)
    assert [r.value["n"] for r in first + rest] == list(range(30))


async def test_several_subscriptions_share_one_connection(world: World) -> None:
    broker = await world.broker()
    client = await world.client("alice")
    feeds = {kind: await client.subscribe("floods", type=kind) for kind in ("a", "b", "c")}
    assert len(broker.sockets.connections) == 1
    for kind in feeds:
        world.cluster.produce("floods", {"type": kind}, [{"kind": kind}])
    for kind, feed in feeds.items():
        assert (await take(feed, 1))[0].value == {"kind": kind}


async def test_a_lost_past_is_told_with_the_next_result(world: World) -> None:
    broker = await world.broker(cache_policy="none")
    client = await world.client("alice")
    floods = await client.subscribe("floods", type="flood")
    await client.close()
    await until(lambda: not broker.driver.connections)
    world.cluster.produce("floods", FLOOD, [{"n": n} for n in range(1, 6)])
    world.cluster.retire("floods", FLOOD, 3)
    again = await world.client("alice")
    floods = await again.subscribe("floods", type="flood")
    first, second = await take(floods, 2)
    assert first.gap is not None
    assert (first.gap.first, first.gap.last) == (1, 3)
    assert (first.position, second.position, second.gap) == (4, 5, None)


async def test_unsubscribing_ends_the_subscription_for_good(world: World) -> None:
    await world.broker()
    client = await world.client("alice")
    async with await client.subscribe("floods", type="flood") as floods:
        await floods.unsubscribe()
        assert world.cluster.frontends == {}
        assert [r async for r in floods] == []


async def test_errors_are_typed(world: World) -> None:
    await world.broker()
    client = await world.client("alice")
    with pytest.raises(NotFound) as unknown:
        await client.subscribe("nobody_made_this")
    assert unknown.value.field == "channel"
    with pytest.raises(InvalidInput):
        await client.subscribe("floods", colour="red")
    with pytest.raises(InvalidInput):
        await client.subscribe("floods", "flood", type="flood")
    await client.subscribe("floods", "flood")  # by place
    with pytest.raises(Conflict):
        await client.subscribe("floods", type="flood")


async def test_a_bad_token_is_an_error_not_an_endless_retry(world: World) -> None:
    await world.broker()
    async with Client(world.coordinator_url, token="nonsense") as client:
        with pytest.raises(Unauthenticated):
            await client.subscribe("floods", type="flood")


async def test_an_expiring_token_is_renewed_by_the_function_that_gives_tokens(
    world: World,
) -> None:
    broker = await world.broker()
    lifetimes_s = [2.0]

    def renew() -> str:
        expires_s = lifetimes_s[-1]
        return mint(SECRET, "alice", ["subscribe"], expires_s=expires_s, now=time.time())

    async with Client(world.coordinator_url, token=renew, reconnect_most_s=0.1) as client:
        floods = await client.subscribe("floods", type="flood")
        lifetimes_s.append(600.0)
        (first,) = broker.sockets.connections
        await until(lambda: first not in broker.sockets.connections and client.broker)
        world.cluster.produce("floods", FLOOD, [{"n": 1}])
        assert [r.position for r in await take(floods, 1)] == [1]


async def test_an_expired_token_reaches_whoever_iterates(world: World) -> None:
    await world.broker()
    expiring = token("alice", expires_s=2)
    async with Client(world.coordinator_url, token=expiring) as client:
        floods = await client.subscribe("floods", type="flood")
        with pytest.raises(Unauthenticated):
            await take(floods, 1)


async def test_without_any_broker_subscribing_gives_up_in_time(world: World) -> None:
    client = await world.client("alice", open_timeout_s=0.2)
    with pytest.raises(Unavailable):
        await client.subscribe("floods", type="flood")


async def test_statements_and_publications_go_to_the_cluster(world: World, tmp_path: Any) -> None:
    client = await world.client("alice")
    (done,) = await client.sql("SELECT 1")
    assert done.message == "SELECT 1"
    assert (await client.publish("reports", {"a": 1})).accepted == 1
    assert (await client.publish("reports", [{"a": 2}, {"a": 3}])).accepted == 2
    file = tmp_path / "more.jsonl"
    file.write_text('{"a": 4}\n{"a": 5}\n')
    assert (await client.publish_file("reports", file)).accepted == 2
    records = [record for _, many in world.cluster.published for record in many]
    assert [record["a"] for record in records] == [1, 2, 3, 4, 5]
    with pytest.raises(InvalidInput):
        await client.publish_file("reports", tmp_path / "mystery.bin")


async def test_records_of_which_none_fits_are_refused_with_line_and_field(world: World) -> None:
    client = await world.client("alice")
    with pytest.raises(RecordError) as refused:
        await client.publish("reports", [{"bad": 1}, {"bad": 2}])
    assert "line 1" in refused.value.message
    assert refused.value.field == "bad"


async def test_statements_are_not_sent_twice(world: World) -> None:
    client = await world.client("alice")
    world.cluster.down = True
    with pytest.raises(Unavailable):
        await client.sql("CREATE DATASET d (a INT)")


async def test_publishing_waits_for_a_cluster_that_is_just_away(world: World) -> None:
    client = await world.client("alice")
    world.cluster.down = True
    publishing = asyncio.ensure_future(client.publish("reports", {"a": 1}))
    await asyncio.sleep(0)
    world.cluster.down = False
    assert (await publishing).accepted == 1


async def test_records_whose_answer_was_lost_are_sent_again_and_taken_once(
    world: World, tmp_path: Path
) -> None:
    client = await world.client("alice")
    file = tmp_path / "more.jsonl"
    file.write_text('{"a": 2}\n')
    world.cluster.lost_answers = 2
    assert (await client.publish("reports", {"a": 1})).accepted == 1
    world.cluster.lost_answers = 1
    assert (await client.publish_file("reports", file)).accepted == 1
    assert (await client.publish_file("reports", file)).accepted == 1  # meant to be there twice
    records = [record["a"] for _, many in world.cluster.published for record in many]
    assert records == [1, 2, 2]


async def test_a_get_that_the_cluster_cannot_answer_now_is_asked_again(world: World) -> None:
    broker = await world.broker(cache_policy="none")
    client = await world.client("alice", inline=False)
    floods = await client.subscribe("floods", type="flood")
    (connection,) = broker.sockets.connections
    world.cluster.fetch_gate.clear()
    world.cluster.produce("floods", FLOOD, [{"n": 1}])
    await until(lambda: world.cluster.fetches)
    world.cluster.failing_fetches = 2
    world.cluster.fetch_gate.set()
    assert [r.position for r in await take(floods, 1)] == [1]
    assert world.cluster.failing_fetches == 0
    assert connection in broker.sockets.connections  # it did not need a new connection for that
