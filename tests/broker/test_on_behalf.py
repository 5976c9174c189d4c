"""A broker passes on the token that a subscriber showed with whatever it asks in their name."""

from __future__ import annotations

from broker.world import World


async def test_the_cluster_hears_who_asks_whichever_way_they_come(world: World) -> None:
    broker = await world.broker()
    wire = await world.socket(broker, "alice")
    await wire.subscribe(type="fire")
    http = await world.http(broker, "bob")
    wanted = {"channel": "floods", "arguments": {"type": "fire"}}
    assert (await http.post("/v1/subscriptions", json=wanted)).status_code == 200
    assert (await http.get("/v1/subscriptions")).status_code == 200
    async with http.stream("GET", "/v1/events") as events:
        assert events.status_code == 200
    askers = [None if asker is None else asker.subject for asker in world.cluster.askers]
    assert askers == ["alice", "alice", "bob", "bob", "bob"]
