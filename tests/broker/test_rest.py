from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
import pytest

from broker.world import World, until
from tocsin.service.tokens import sign_notice
from tocsin.testing.fake_cluster import SECRET

FLOOD = {"type": "flood"}
NEW = {"channel": "floods", "arguments": FLOOD}


async def test_rest_alone_is_enough(world: World) -> None:
    http = await world.http(await world.broker(), "alice")
    made = (await http.post("/v1/subscriptions", json=NEW)).json()
    path = f"/v1/subscriptions/{made['subscription']}"
    assert (await http.get("/v1/subscriptions")).json()["subscriptions"] == [made]
    world.cluster.produce("floods", FLOOD, [{"n": 1}, {"n": 2}])
    answer = (await http.get(path + "/results?wait_s=20")).json()
    assert [r["value"]["n"] for r in answer["results"]] == [1, 2]
    assert (answer["subscription"], answer["after"], answer["upto"]) == (
        made["subscription"],
        0,
        2,
    )
    body = {"epoch": answer["epoch"], "position": 1}
    assert (await http.post(path + "/ack", json=body)).json() == {"marker": 1}
    assert world.cluster.marker("alice") == 1
    rest = (await http.get(path + "/results")).json()
    assert [r["position"] for r in rest["results"]] == [2]
    query = f"/results?after=0&epoch={answer['epoch']}&limit=1"
    first = (await http.get(path + query)).json()
    assert [r["position"] for r in first["results"]] == [1]
    assert (await http.delete(path)).json() == {}
    assert (await http.delete(path)).status_code == 404
    assert (await http.get(path + "/results")).status_code == 404


async def test_an_acknowledgement_never_goes_backwards(world: World) -> None:
    http = await world.http(await world.broker(), "alice")
    made = (await http.post("/v1/subscriptions", json=NEW)).json()
    path = f"/v1/subscriptions/{made['subscription']}"
    world.cluster.produce("floods", FLOOD, [{"n": 1}, {"n": 2}])
    await http.get(path + "/results?wait_s=20")
    for position, marker in ((2, 2), (1, 2)):
        body = {"epoch": made["epoch"], "position": position}
        assert (await http.post(path + "/ack", json=body)).json() == {"marker": marker}


async def test_a_long_poll_waits_for_results_and_gives_up_empty(world: World) -> None:
    http = await world.http(await world.broker(), "alice")
    made = (await http.post("/v1/subscriptions", json=NEW)).json()
    path = f"/v1/subscriptions/{made['subscription']}/results?wait_s="
    empty = (await http.get(path + "0.05")).json()
    assert (empty["results"], empty["upto"]) == ([], 0)
    poll = asyncio.create_task(http.get(path + "20"))
    await until(lambda: any(b.polls for b in _backends(world)))
    assert not poll.done()
    world.cluster.produce("floods", FLOOD, [{"n": 1}])
    assert [r["position"] for r in (await poll).json()["results"]] == [1]


def _backends(world: World) -> list[Any]:
    return [b for one in world._brokers for b in one.driver.core.table.backends.values()]


async def test_a_broker_that_stops_lets_long_polls_go(world: World) -> None:
    broker = await world.broker()
    http = await world.http(broker, "alice")
    made = (await http.post("/v1/subscriptions", json=NEW)).json()
    poll = asyncio.create_task(
        http.get(f"/v1/subscriptions/{made['subscription']}/results?wait_s=60")
    )
    await until(lambda: any(b.polls for b in _backends(world)))
    await world.stop(broker)
    assert (await poll).status_code == 503


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("after=3", "epoch"),
        ("after=-1&epoch=e", "after"),
        ("limit=0", "limit"),
        ("limit=many", "limit"),
        ("wait_s=3600", "wait_s"),
    ],
)
async def test_wrong_query_parameters_are_named(world: World, query: str, field: str) -> None:
    http = await world.http(await world.broker(), "alice")
    answer = await http.get(f"/v1/subscriptions/1/results?{query}")
    assert answer.status_code == 400
    assert answer.json()["error"]["field"] == field


async def test_a_subscriber_without_a_connection_is_moved_by_its_first_question(
    world: World,
) -> None:
    one, two = await world.broker("one"), await world.broker("two")
    made = (await (await world.http(one, "alice")).post("/v1/subscriptions", json=NEW)).json()
    http = await world.http(two, "alice")
    answer = await http.get(f"/v1/subscriptions/{made['subscription']}/results")
    assert answer.status_code == 200
    assert world.cluster.frontends[made["subscription"]].broker == "two"
    mallory = await world.http(two, "mallory")
    refused = await mallory.get(f"/v1/subscriptions/{made['subscription']}/results")
    assert refused.status_code == 404


async def test_a_notice_without_a_good_signature_is_refused(world: World) -> None:
    broker = await world.broker()
    http = await world.http(broker, "x")
    body = msgspec.json.encode({"store_id": world.cluster.store, "sequence": 9, "heads": []})
    good = sign_notice(SECRET, body, time.time())
    old = sign_notice(SECRET, body, time.time() - 3600)
    for header, status in ((None, 401), ("t=1,v1=00", 401), (old, 401), (good, 200)):
        headers = {"tocsin-signature": header} if header else {}
        answer = await http.post("/v1/notices", content=body, headers=headers)
        assert answer.status_code == status


async def test_the_cache_can_be_seen_and_its_policy_changed(world: World) -> None:
    broker = await world.broker()
    alice, admin = await world.http(broker, "alice"), await world.http(broker, "root", "admin")
    seen = (await alice.get("/v1/cache")).json()
    assert (seen["policy"], seen["size_bytes"]) == ("lsc", 0)
    assert (await alice.put("/v1/cache", json={"policy": "lru"})).status_code == 403
    assert (await admin.put("/v1/cache", json={"policy": "lru"})).json()["policy"] == "lru"
    refused = await admin.put("/v1/cache", json={"policy": "magic"})
    assert refused.status_code == 400
    assert (await alice.get("/v1/cache")).json()["policy"] == "lru"


async def test_the_message_cache_can_be_seen_and_changed(world: World) -> None:
    broker = await world.broker()
    alice, admin = await world.http(broker, "alice"), await world.http(broker, "root", "admin")
    path = "/v1/overlay/messages"
    assert (await alice.put(path, json={"policy": "leaf"})).status_code == 403
    told = (await admin.put(path, json={"policy": "leaf", "slots": 4})).json()
    assert (told["policy"], told["slots"], told["held"]) == ("leaf-sub-fifo", 4, 0)
    told = (await admin.put(path, json={"policy": "basic"})).json()
    assert (told["policy"], told["slots"]) == ("sel-sub-fifo", 4)
    told = (await admin.put(path, json={"slots": 3})).json()
    assert (told["policy"], told["slots"]) == ("sel-sub-fifo", 3)
    for wrong in ({"policy": "basic", "slots": -1}, {"policy": "magic", "slots": 9}, {"slot": 9}):
        assert (await admin.put(path, json=wrong)).status_code == 400
    seen = (await alice.get("/v1/overlay")).json()["messages"]
    assert (seen["policy"], seen["slots"]) == ("sel-sub-fifo", 3)


async def test_metrics_tell_what_the_broker_does(world: World) -> None:
    broker = await world.broker("measured")
    alice = await world.socket(broker, "alice")
    await alice.subscribe(**FLOOD)
    world.cluster.produce("floods", FLOOD, [{"n": 1}])
    await alice.until("signal")
    text = (await (await world.http(broker, "x")).get("/metrics")).text
    assert 'tocsin_broker_connections{broker="measured"} 1.0' in text
    assert 'tocsin_broker_subscriptions{broker="measured"} 1.0' in text
    assert 'tocsin_broker_signals_total{broker="measured"} 1.0' in text
    assert "tocsin_broker_notice_lag_seconds_count" in text
