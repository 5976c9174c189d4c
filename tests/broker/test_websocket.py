from __future__ import annotations

import asyncio

import msgspec

from broker.world import World, until
from tocsin.protocol import client as frames

FLOOD = {"type": "flood"}


async def test_a_result_is_signalled_got_acknowledged_and_resumed_behind(world: World) -> None:
    broker = await world.broker()
    alice = await world.socket(broker, "alice")
    assert alice.welcome["broker"] == "broker_1"
    made = await alice.subscribe(**FLOOD)
    world.cluster.produce("floods", FLOOD, [{"n": 1}, {"n": 2}])
    signal = await alice.until("signal")
    assert signal == {
        "op": "signal",
        "backend": made["backend"],
        "epoch": made["epoch"],
        "head": 2,
    }
    await alice.send(op="get", ref=3, subscription=made["subscription"])
    answer = await alice.until("results")
    assert (answer["ref"], answer["after"], answer["upto"], answer["head"]) == (3, 0, 2, 2)
    assert answer["gap"] is None
    assert answer["cached"] == 2
    assert [r["value"] for r in answer["results"]] == [{"n": 1}, {"n": 2}]
    await alice.send(op="ack", subscription=made["subscription"], epoch=made["epoch"], position=1)
    acked = await alice.until("acked")
    assert acked == {
        "op": "acked",
        "subscription": made["subscription"],
        "epoch": made["epoch"],
        "position": 1,
    }
    assert world.cluster.marker("alice") == 1
    await alice.socket.close()

    again = await world.socket(broker, "alice")
    (known,) = again.welcome["subscriptions"]
    assert known["marker"] == 1
    await again.send(op="get", ref=1, subscription=made["subscription"])
    answer = await again.until("results")
    assert [r["position"] for r in answer["results"]] == [2]


async def test_every_acknowledgement_is_answered(world: World) -> None:
    alice = await world.socket(await world.broker(), "alice")
    made = await alice.subscribe(**FLOOD)
    number, epoch = made["subscription"], made["epoch"]
    world.cluster.produce("floods", FLOOD, [{"n": 1}, {"n": 2}])
    await alice.until("signal")
    marker = {"op": "acked", "subscription": number, "epoch": epoch}
    for given, position, told in (("another", 1, 0), (epoch, 1, 1), (epoch, 99, 2), (epoch, 1, 2)):
        await alice.send(op="ack", subscription=number, epoch=given, position=position)
        assert await alice.until("acked") == {**marker, "position": told}
    await alice.send(op="ack", subscription=number + 1, epoch=epoch, position=1)
    refusal = await alice.until("error")
    assert (refusal["ref"], refusal["subscription"]) == (None, number + 1)
    assert refusal["error"]["code"] == "not_found"
    await alice.send(op="ping", ref=1)  # and the connection stays
    await alice.until("pong")


async def test_inline_results_come_without_asking(world: World) -> None:
    broker = await world.broker()
    alice = await world.socket(broker, "alice", inline=1)
    made = await alice.subscribe(**FLOOD)
    world.cluster.produce("floods", FLOOD, [{"n": 1}])
    answer = await alice.until("results")
    assert "ref" not in answer
    assert "subscription" not in answer
    assert (answer["backend"], answer["after"], answer["upto"]) == (made["backend"], 0, 1)
    assert answer["results"][0]["value"] == {"n": 1}


async def test_what_one_turn_brings_to_a_client_that_wants_batches_is_one_frame(
    world: World,
) -> None:
    world.cluster.push = True
    broker = await world.broker()
    alice = await world.socket(broker, "alice", inline=1, query="&batch=1")
    bob = await world.socket(broker, "bob", inline=1)
    assert alice.welcome["batch"] is True
    assert "batch" not in bob.welcome
    made = [await who.subscribe(type=kind) for kind in ("flood", "fire") for who in (alice, bob)]
    world.cluster.produce_together("floods", [FLOOD, {"type": "fire"}], {"n": 1})
    batch = await alice.next()
    assert batch["op"] == "batch"
    single = [await bob.next(), await bob.next()]
    assert batch["frames"] == single
    assert [frame["backend"] for frame in single] == [made[0]["backend"], made[2]["backend"]]
    assert frames.decode_answer(msgspec.json.encode(batch)) == frames.Batch(
        [frames.decode_answer(msgspec.json.encode(frame)) for frame in single]
    )


async def test_many_acknowledgements_and_gets_share_a_frame(world: World) -> None:
    alice = await world.socket(await world.broker(), "alice", query="&batch=1")
    made = [await alice.subscribe(type=kind) for kind in ("flood", "fire")]
    for kind in ("flood", "fire"):
        world.cluster.produce("floods", {"type": kind}, [{"n": 1}])
        await alice.until("signal")
    markers = [
        {"subscription": one["subscription"], "epoch": one["epoch"], "position": 1} for one in made
    ]
    gets = [
        {"op": "get", "ref": n, "subscription": one["subscription"]} for n, one in enumerate(made)
    ]
    await alice.send(op="get_many", gets=gets)
    batch = await alice.until("batch")
    assert [(each["op"], each["ref"]) for each in batch["frames"]] == [
        ("results", 0),
        ("results", 1),
    ]
    await alice.send(op="ack_many", markers=markers)
    assert (await alice.until("acked_many"))["markers"] == markers
    assert [frontend.marker for frontend in world.cluster.frontends.values()] == [1, 1]


async def test_pushed_results_are_served_without_a_fetch(world: World) -> None:
    world.cluster.push = True
    broker = await world.broker()
    alice = await world.socket(broker, "alice", inline=1)
    await alice.subscribe(**FLOOD)
    world.cluster.produce("floods", FLOOD, [{"n": 1}])
    assert (await alice.until("results"))["results"][0]["value"] == {"n": 1}
    assert world.cluster.fetches == []


async def test_a_lost_notice_is_made_good_by_news(world: World) -> None:
    broker = await world.broker()
    alice = await world.socket(broker, "alice")
    await alice.subscribe(**FLOOD)
    world.cluster.drop_notices = True
    world.cluster.produce("floods", FLOOD, [{"n": 1}])
    assert (await alice.until("signal"))["head"] == 1


async def test_a_get_that_waits_for_the_cluster_blocks_nobody(world: World) -> None:
    broker = await world.broker(cache_policy="none")
    alice, bob = await world.socket(broker, "alice"), await world.socket(broker, "bob")
    made = await alice.subscribe(**FLOOD)
    world.cluster.produce("floods", FLOOD, [{"n": 1}])
    await alice.until("signal")
    world.cluster.fetch_gate.clear()
    await alice.send(op="get", ref=1, subscription=made["subscription"])
    await until(lambda: world.cluster.fetches)
    await bob.send(op="ping", ref=7)
    assert await bob.next() == {"op": "pong", "ref": 7}
    await alice.send(op="ping", ref=8)
    assert await alice.next() == {"op": "pong", "ref": 8}
    world.cluster.fetch_gate.set()
    assert (await alice.until("results"))["fetched"] == 1


async def test_ranges_wanted_at_once_travel_in_one_call(world: World) -> None:
    broker = await world.broker()
    alice = await world.socket(broker, "alice")
    for kind in ("flood", "fire", "storm"):
        await alice.subscribe(type=kind)
    world.cluster.drop_notices = True
    for kind in ("flood", "fire", "storm"):
        world.cluster.produce("floods", {"type": kind}, [{"n": 1}])
    await until(lambda: world.cluster.fetches)
    assert len(world.cluster.fetches[0]) == 3


async def test_subscribers_of_the_same_share_one_backend_subscription(world: World) -> None:
    broker = await world.broker()
    alice, bob = await world.socket(broker, "alice"), await world.socket(broker, "bob")
    one, two = await alice.subscribe(**FLOOD), await bob.subscribe(**FLOOD)
    assert one["backend"] == two["backend"]
    assert one["subscription"] != two["subscription"]
    world.cluster.produce("floods", FLOOD, [{"n": 1}])
    assert await alice.until("signal") == await bob.until("signal")
    assert len(world.cluster.fetches) == 1


async def test_after_unsubscribing_nothing_is_signalled_and_the_connection_stays(
    world: World,
) -> None:
    broker = await world.broker()
    alice = await world.socket(broker, "alice")
    made = await alice.subscribe(**FLOOD)
    world.cluster.unsubscribe_gate.clear()
    await alice.send(op="unsubscribe", ref=4, subscription=made["subscription"])
    await until(lambda: not world.cluster.frontends)
    sequence = world.cluster.sequence
    await until(
        lambda: broker.driver.core.query_token.sequence == sequence
    )  # news before the answer
    world.cluster.unsubscribe_gate.set()
    assert await alice.next() == {"op": "ended", "subscription": made["subscription"]}
    assert await alice.next() == {"op": "unsubscribed", "ref": 4}
    assert not broker.driver.core.table.backends
    await alice.send(op="ping", ref=5)
    assert await alice.next() == {"op": "pong", "ref": 5}


async def test_somebody_elses_subscription_cannot_be_read_or_ended(world: World) -> None:
    broker = await world.broker()
    alice, mallory = await world.socket(broker, "alice"), await world.socket(broker, "mallory")
    made = await alice.subscribe(**FLOOD)
    for op in ("get", "unsubscribe"):
        await mallory.send(op=op, ref=op, subscription=made["subscription"])
        refused = await mallory.until("error")
        assert refused["ref"] == op
        assert refused["error"]["code"] == "not_found"


async def test_an_unknown_channel_is_refused_by_name(world: World) -> None:
    alice = await world.socket(await world.broker(), "alice")
    await alice.send(op="subscribe", ref=1, channel="nobody", arguments={})
    error = (await alice.until("error"))["error"]
    assert (error["code"], error["field"]) == ("not_found", "channel")


async def test_connecting_elsewhere_closes_the_old_connection(world: World) -> None:
    one, two = await world.broker("one"), await world.broker("two")
    old = await world.socket(one, "alice")
    made = await old.subscribe(**FLOOD)
    new = await world.socket(two, "alice")
    assert await old.next() == {"op": "moved", "broker": "two"}
    assert await old.closed() == 4001
    (moved,) = new.welcome["subscriptions"]
    assert (moved["subscription"], moved["broker"]) == (made["subscription"], "two")
    world.cluster.produce("floods", FLOOD, [{"n": 1}])
    assert (await new.until("signal"))["head"] == 1


async def test_a_subscription_that_another_ended_is_told_and_the_connection_stays(
    world: World,
) -> None:
    broker = await world.broker()
    alice = await world.socket(broker, "alice")
    made = await alice.subscribe(**FLOOD)
    world.cluster.end(made["subscription"])
    assert await alice.next() == {"op": "ended", "subscription": made["subscription"]}
    again = await alice.subscribe(**FLOOD)
    assert again["subscription"] != made["subscription"]
    world.cluster.produce("floods", FLOOD, [{"n": 1}])
    assert (await alice.until("signal"))["backend"] == again["backend"]


async def test_one_subscription_moved_by_statement_sends_the_client_after_it(world: World) -> None:
    one, two = await world.broker("one"), await world.broker("two")
    old = await world.socket(one, "alice")
    made, other = await old.subscribe(**FLOOD), await old.subscribe(type="fire")
    world.cluster.move(made["subscription"], "two")
    assert await old.next() == {"op": "moved", "broker": "two"}
    assert await old.closed() == 4001
    new = await world.socket(two, "alice")
    numbers = [told["subscription"] for told in new.welcome["subscriptions"]]
    assert numbers == [made["subscription"], other["subscription"]]


async def test_subscribing_to_what_is_served_elsewhere_brings_everything_here(
    world: World,
) -> None:
    one, two = await world.broker("one"), await world.broker("two")
    http = await world.http(one, "alice")
    wanted = [{"channel": "floods", "arguments": {"type": kind}} for kind in ("flood", "fire")]
    first = (await http.post("/v1/subscriptions", json=wanted[0])).json()
    there = await world.socket(two, "alice")
    assert world.cluster.frontends[first["subscription"]].broker == "two"
    late = (await http.post("/v1/subscriptions", json=wanted[1])).json()  # split for a moment
    brought = await there.subscribe(type="fire")
    assert brought == late | {"broker": "two"}
    assert {f.broker for f in world.cluster.frontends.values()} == {"two"}
    world.cluster.produce("floods", {"type": "fire"}, [{"n": 1}])
    assert (await there.until("signal"))["backend"] == late["backend"]


async def test_a_subscribe_that_its_client_did_not_wait_for_moves_nobody(world: World) -> None:
    one, two = await world.broker("one"), await world.broker("two")
    old = await world.socket(one, "alice")
    gate = world.cluster.subscribe_gates["one"] = asyncio.Event()
    await old.send(op="subscribe", ref=1, channel="floods", arguments=FLOOD)
    await until(lambda: one.driver.machine.arriving)
    await old.socket.close()
    await until(lambda: not one.driver.connections)
    new = await world.http(two, "alice")
    made = await new.post("/v1/subscriptions", json={"channel": "floods", "arguments": FLOOD})
    gate.set()
    await until(lambda: not one.driver.machine.arriving)
    assert world.cluster.frontends[made.json()["subscription"]].broker == "two"
    assert not one.driver.core.table.frontends


async def test_a_past_that_is_gone_is_told_as_a_gap(world: World) -> None:
    broker = await world.broker(cache_policy="none")
    alice = await world.socket(broker, "alice")
    made = await alice.subscribe(**FLOOD)
    world.cluster.produce("floods", FLOOD, [{"n": n} for n in range(1, 6)])
    await alice.until("signal")
    world.cluster.retire("floods", FLOOD, 3)
    await alice.send(op="get", ref=1, subscription=made["subscription"])
    answer = await alice.until("results")
    assert answer["gap"] == {"from": 1, "to": 3}
    assert [r["position"] for r in answer["results"]] == [4, 5]


async def test_stopping_says_1001_and_stores_what_was_acknowledged(world: World) -> None:
    broker = await world.broker(marker_flush_s=30.0)
    alice = await world.socket(broker, "alice")
    made = await alice.subscribe(**FLOOD)
    world.cluster.produce("floods", FLOOD, [{"n": 1}])
    await alice.until("signal")
    await alice.send(op="ack", subscription=made["subscription"], epoch=made["epoch"], position=1)
    await alice.send(op="ping", ref=1)
    await alice.until("pong")
    await world.stop(broker)
    assert await alice.closed() == 1001
    assert world.cluster.marker("alice") == 1


async def test_a_broker_that_starts_again_knows_its_subscriptions(world: World) -> None:
    broker = await world.broker()
    alice = await world.socket(broker, "alice")
    await alice.subscribe(**FLOOD)
    await world.crash(broker)
    world.cluster.produce("floods", FLOOD, [{"n": 1}])
    again = await world.broker()
    assert again.driver.subscriptions == 1
    back = await world.socket(again, "alice")
    (known,) = back.welcome["subscriptions"]
    assert (known["head"], known["marker"]) == (1, 0)


async def test_a_replaced_store_makes_the_broker_start_anew(world: World) -> None:
    broker = await world.broker()
    alice = await world.socket(broker, "alice")
    await alice.subscribe(**FLOOD)
    world.cluster.wipe()
    assert await alice.closed() == 1001
    back = await world.socket(broker, "alice")
    assert back.welcome["subscriptions"] == []
    await back.subscribe(**FLOOD)
    world.cluster.produce("floods", FLOOD, [{"n": 1}])
    assert (await back.until("signal"))["head"] == 1


async def test_a_backend_subscription_that_vanished_harms_no_other(world: World) -> None:
    broker = await world.broker()
    alice, bob = await world.socket(broker, "alice"), await world.socket(broker, "bob")
    gone, kept = await alice.subscribe(type="gone"), await bob.subscribe(**FLOOD)
    world.cluster.drop_notices = True
    for kind in ("gone", "flood"):
        world.cluster.produce("floods", {"type": kind}, [{"n": 1}])
    world.cluster.fetch_gate.clear()
    await until(lambda: world.cluster.fetches)
    del world.cluster.frontends[gone["subscription"]], world.cluster.backends[gone["backend"]]
    world.cluster.fetch_gate.set()
    assert (await bob.until("signal"))["backend"] == kept["backend"]
    await until(lambda: gone["subscription"] not in broker.driver.core.table.frontends)
