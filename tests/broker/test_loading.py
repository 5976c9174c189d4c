"""A broker of many subscriptions loads them by pages, whatever changes meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from broker.world import World, take, until
from cluster.sparkless import sparkless
from tocsin.broker.server import Broker, cluster_link
from tocsin.model import Channel, Parameter
from tocsin.settings import Settings
from tocsin.storage.store.subscribing import Wish
from tocsin.testing.fake_cluster import FakeCluster

MANY = 2500


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_link, "SUBSCRIPTIONS_PER_CALL", 3)


@pytest.mark.usefixtures("small_pages")
async def test_what_changes_between_pages_is_not_missed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await world.broker()
    client = await world.client("ann")
    for number in range(10):
        await client.subscribe("floods", type=str(number))
    await client.close()
    numbers = sorted(world.cluster.frontends)
    await world.crash(first)

    loading, pages = cluster_link.ClusterLink.load, 0

    async def changing(link: cluster_link.ClusterLink, after: int) -> Any:
        """Behind the second page one of each page has results, and another is over."""
        nonlocal pages
        page = await loading(link, after)
        pages += 1
        if pages == 2:
            for number in (0, 4, 7):
                world.cluster.produce("floods", {"type": str(number)}, [{"of": number}])
            for number in (1, 5, 8):
                world.cluster.end(numbers[number])
        return page

    monkeypatch.setattr(cluster_link.ClusterLink, "load", changing)
    second = await world.broker()
    assert pages == 3
    table = second.driver.core.table
    await until(lambda: set(table.frontends) == {numbers[at] for at in (0, 2, 3, 4, 6, 7, 9)})
    again = await world.client("ann")
    for number in (0, 4, 7):
        feed = await again.subscribe("floods", type=str(number))
        assert [result.value["of"] for result in await take(feed, 1)] == [number]


async def test_a_subscription_that_cannot_be_read_keeps_no_other_from_being_served(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await world.broker()
    client = await world.client("ann")
    for number in range(3):
        await client.subscribe("floods", type=str(number))
    await client.close()
    await world.crash(first)
    numbers = sorted(world.cluster.frontends)
    told = FakeCluster._json

    def poisoned(cluster: FakeCluster, frontend: Any) -> dict[str, Any]:
        info = told(cluster, frontend)
        return info | {"filter": {"dataset": 3}} if frontend.id == numbers[1] else info

    monkeypatch.setattr(FakeCluster, "_json", poisoned)
    second = await world.broker()
    assert set(second.driver.core.table.frontends) == {numbers[0], numbers[2]}


async def test_a_broker_of_many_subscriptions_starts_over_a_real_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind = (Parameter("kind", "STRING"),)
    async with sparkless(tmp_path) as cluster:
        store = cluster.store
        store.catalog.create_channel(Channel("c", "continuous", kind, "", (), ()))
        store.catalog.put_broker("edge", "http://127.0.0.1:9")
        wishes = [Wish(f"p{n % 50}", "c", {"kind": f"k{n}"}, "edge") for n in range(MANY)]
        made = store.subscriptions.subscribe_all(wishes)
        loading, sizes = cluster_link.ClusterLink.load, []

        async def counted(link: cluster_link.ClusterLink, after: int) -> Any:
            page = await loading(link, after)
            sizes.append(len(page.subscriptions))
            return page

        monkeypatch.setattr(cluster_link.ClusterLink, "load", counted)
        settings = Settings(
            secret=cluster.secret,
            broker_name="edge",
            broker_port=0,
            broker_ws_port=0,
            cluster_url=cluster.url,
            coordinator_url="http://127.0.0.1:9",
        )
        async with Broker(settings) as broker:
            frontends = broker.driver.core.table.frontends
            assert set(frontends) == {subscription.id for subscription, _ in made}
        assert sizes == [1000, 1000, 500]
