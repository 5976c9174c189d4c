"""Attachments from a broker: fetched once for all who ask, whole or not at all, kept as the page
cache decides, and found again after a crash."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from broker.world import World, small_socket, token, until
from full_disk import fill, make_room, small_disk
from tocsin.broker.machine.effects import Effect
from tocsin.broker.machine.pages import Pages
from tocsin.broker.server import Broker
from tocsin.broker.server.pages import Coming, PageBytes
from tocsin.broker.server.pages.shelf import DirectoryShelf
from tocsin.broker.server.pages.sums import BLOCK_BYTES
from tocsin.client import Client
from tocsin.policies.page import parse_page_policy
from tocsin.service.tokens import mint
from tocsin.testing.fake_cluster import FakeCluster

PHOTO = b"\x89PNG " + bytes(range(256)) * 400  # about 100 kB
NOBODYS = b"nobody has this"
MAP = b"a map " * 4000  # 24 kB: more than a piece


def id_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def path_of(data: bytes) -> str:
    return f"/v1/attachments/{id_of(data)}"


@contextlib.contextmanager
def halted(cluster: FakeCluster) -> Iterator[None]:
    """The cluster stops in the middle of every attachment."""
    cluster.content.gate.clear()
    try:
        yield
    finally:
        cluster.content.gate.set()


def files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.rglob("*") if path.is_file())


async def test_the_first_asker_brings_it_and_the_next_finds_it(world: World) -> None:
    broker = await world.broker(page_policy="lru")
    http = await world.http(broker, "ann")
    id = world.cluster.content.add(PHOTO)
    for path in (path_of(PHOTO), f"/attachments/{id}?subscription=3&position=7"):
        found = await http.get(path)
        assert found.status_code == 200
        assert found.content == PHOTO
        assert found.headers["etag"] == f'"{id}"'
        assert "immutable" in found.headers["cache-control"]
    assert world.cluster.content.asked == [id]
    told = (await http.get("/v1/pages")).json()
    assert (told["counters"]["hits"], told["counters"]["miss_stored"]) == (1, 1)
    assert told["saved_bytes"] == told["served_bytes"] - told["fetched_bytes"] == len(PHOTO)
    metrics = (await http.get("/metrics")).text
    assert 'tocsin_broker_page_hits_total{broker="broker_1"} 1.0' in metrics
    assert f'tocsin_broker_page_saved_bytes{{broker="broker_1"}} {len(PHOTO)}.0' in metrics


async def test_ranges_and_conditions_are_the_clusters(world: World) -> None:
    broker = await world.broker(page_policy="lru")
    http = await world.http(broker, "ann")
    world.cluster.content.add(PHOTO)

    async def get(**headers: str) -> httpx.Response:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return await http.get(path_of(PHOTO), headers=names)

    for _ in range(2):  # on the way, and from the cache
        part = await get(range="bytes=-5")
        assert (part.status_code, part.content) == (206, PHOTO[-5:])
        assert (await get(range=f"bytes={len(PHOTO)}-")).status_code == 416
        assert (await get(if_none_match=f'"{id_of(PHOTO)}"')).status_code == 304
    told = await http.head(path_of(PHOTO))
    assert told.headers["content-length"] == str(len(PHOTO))


async def test_who_asks_for_no_bytes_fetches_none(world: World) -> None:
    broker = await world.broker(page_policy="lru")
    http = await world.http(broker, "ann")
    world.cluster.content.add(PHOTO)
    told = await http.head(path_of(PHOTO))
    assert told.headers["content-length"] == str(len(PHOTO))
    known = {"if-none-match": f'"{id_of(PHOTO)}"'}
    assert (await http.get(path_of(PHOTO), headers=known)).status_code == 304
    assert (await http.head(path_of(NOBODYS))).status_code == 404
    known = {"if-none-match": f'"{id_of(NOBODYS)}"'}
    assert (await http.get(path_of(NOBODYS), headers=known)).status_code == 404
    assert world.cluster.content.asked == []
    assert broker.driver.machine.pages.cache.counters.requests == 0


@pytest.mark.parametrize("in_memory", [False, True])
async def test_a_full_disk_is_told_to_readers_and_outlived(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: bool
) -> None:
    large = PHOTO * 3  # more than waits in memory until all has come
    with small_disk(tmp_path / "disk", "2m") as disk:
        monkeypatch.setattr("tempfile.tempdir", str(disk))
        pages = "" if in_memory else str(disk / "pages")
        broker = await world.broker(page_policy="lru", page_cache=pages)
        http = await world.http(broker, "ann")
        world.cluster.content.add(large)
        fill(disk)
        refused = await http.get(path_of(large))
        assert refused.status_code == 503
        assert refused.json()["error"]["hint"] == "free disk space and ask again"
        health = await http.get("/healthz")
        assert (f"{disk}/pages is full" in health.text) is not in_memory
        assert files(disk) == ["ballast"]
        make_room(disk)
        for _ in range(2):  # from the cluster, and from the cache
            assert (await http.get(path_of(large))).content == large
        assert (await http.get("/healthz")).status_code == 200
        assert len(world.cluster.content.asked) == 2


async def _plain_get(broker: Broker, bearer: str, path: str) -> bytes:
    """As cheap as two thousand of them must be."""
    url = httpx.URL(broker.url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    head = f"GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {bearer}\r\n"
    writer.write(f"{head}connection: close\r\n\r\n".encode())
    answer = await reader.read(-1)
    writer.close()
    return answer.partition(b"\r\n\r\n")[2]


async def test_two_thousand_askers_are_one_fetch(world: World) -> None:
    first, second = await world.broker("first"), await world.broker("second", page_policy="none")
    world.cluster.content.add(MAP)
    bearer = token("ann")
    with halted(world.cluster):
        asking = [
            asyncio.create_task(_plain_get(broker, bearer, path_of(MAP)))
            for broker in (first, second)
            for _ in range(1000)
        ]
        counters = [one.driver.machine.pages.cache.counters for one in (first, second)]
        await until(lambda: [one.requests for one in counters] == [1000, 1000])
    digests = {hashlib.sha256(body).hexdigest() for body in await asyncio.gather(*asking)}
    assert digests == {id_of(MAP)}
    assert world.cluster.content.asked == [id_of(MAP)] * 2  # one for each broker


@pytest.mark.parametrize("directory", [True, False])
async def test_who_stops_reading_slows_nobody(
    world: World, tmp_path: Path, directory: bool
) -> None:
    large = PHOTO * 50
    place = str(tmp_path) if directory else ""
    broker = await world.broker(stall_s=2.0, connection_bytes=8192, page_cache=place)
    world.cluster.content.add(large)
    lazy = small_socket(broker.url)
    head = f"GET {path_of(large)} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {token('lazy')}"
    lazy.sendall(f"{head}\r\n\r\n".encode())
    pages = broker.driver.machine.pages
    await until(lambda: pages.cache.counters.requests == 1)
    http = await world.http(broker, "ann")
    found = await http.get(path_of(large))
    assert hashlib.sha256(found.content).hexdigest() == id_of(large)
    assert world.cluster.content.asked == [id_of(large)]
    await until(lambda: broker.driver.counts.stalled == 1)
    lazy.settimeout(20)
    taken = 0
    with contextlib.suppress(ConnectionError):
        while piece := await asyncio.to_thread(lazy.recv, 1 << 16):
            taken += len(piece)
    assert taken < len(large)  # it was hung up on
    lazy.close()


async def test_what_cannot_be_had_is_told(world: World, tmp_path: Path) -> None:
    broker = await world.broker(page_cache=str(tmp_path))
    http = await world.http(broker, "ann")
    missing = await http.get(path_of(NOBODYS))
    assert missing.status_code == 404
    assert missing.json()["error"]["field"] == "id"
    for wrong in ("..%2f..%2fetc%2fpasswd", "A" * 64, "0" * 63):
        assert (await http.get(f"/v1/attachments/{wrong}")).status_code in (400, 404)
    alone = await http.get(path_of(PHOTO), params={"position": 3})
    assert alone.json()["error"]["field"] == "position"
    world.cluster.down = True
    assert (await http.get(path_of(PHOTO))).status_code == 503
    await until(lambda: not broker.driver.machine.pages.filling)
    assert files(tmp_path) == []
    assert len(broker.driver.machine.pages.cache) == 0


async def test_a_foreign_token_gets_nothing(world: World) -> None:
    broker = await world.broker()
    world.cluster.content.add(PHOTO)
    foreign = mint(
        "the secret of quite another system", "ann", ["subscribe"], expires_s=60, now=9e9
    )
    for bearer, status in ((foreign, 401), ("x", 401), (token("ann", "publish"), 403)):
        async with httpx.AsyncClient(base_url=broker.url) as http:
            headers = {"authorization": f"Bearer {bearer}"}
            assert (await http.get(path_of(PHOTO), headers=headers)).status_code == status
    assert world.cluster.content.asked == []


@pytest.mark.parametrize("wrong", [PHOTO[:-1] + b"!", PHOTO[:-1], b"!" + PHOTO])
async def test_what_comes_damaged_never_looks_whole(
    world: World, tmp_path: Path, wrong: bytes
) -> None:
    broker = await world.broker(page_cache=str(tmp_path), page_policy="lru")
    http = await world.http(broker, "ann")
    world.cluster.content.add(PHOTO, wrong=wrong)
    with pytest.raises(httpx.RemoteProtocolError):
        await http.get(path_of(PHOTO))
    await until(lambda: not broker.driver.machine.pages.filling)
    assert files(tmp_path) == []
    world.cluster.content.add(PHOTO)
    assert (await http.get(path_of(PHOTO))).content == PHOTO


@pytest.mark.parametrize("damage", [PHOTO[:-1] + b"!", PHOTO[:500], b""])
async def test_a_damaged_file_is_dropped_at_the_start_and_fetched_again(
    world: World, tmp_path: Path, damage: bytes
) -> None:
    world.cluster.content.add(PHOTO)
    place = tmp_path / "broker_1" / id_of(PHOTO)[:2] / id_of(PHOTO)
    place.parent.mkdir(parents=True)
    place.write_bytes(damage)
    broker = await world.broker(page_cache=str(tmp_path), page_policy="lru")
    assert files(tmp_path) == []
    http = await world.http(broker, "ann")
    assert (await http.get(path_of(PHOTO))).content == PHOTO
    assert place.read_bytes() == PHOTO


async def test_a_file_that_vanishes_or_shrinks_is_fetched_again(
    world: World, tmp_path: Path
) -> None:
    world.cluster.content.add(PHOTO)
    broker = await world.broker(page_cache=str(tmp_path), page_policy="lru")
    http = await world.http(broker, "ann")
    place = tmp_path / "broker_1" / id_of(PHOTO)[:2] / id_of(PHOTO)
    assert (await http.get(path_of(PHOTO))).content == PHOTO
    place.unlink()
    assert (await http.get(path_of(PHOTO))).content == PHOTO
    place.write_bytes(PHOTO[:100])
    assert (await http.get(path_of(PHOTO))).content == PHOTO
    assert world.cluster.content.asked == [id_of(PHOTO)] * 3


async def test_a_file_that_changes_is_dropped_and_fetched_again(
    world: World, tmp_path: Path
) -> None:
    """Whoever begins to read where it is wrong does not notice; who comes upon it later is cut
    off. Parts that are right are served as ever."""
    data = PHOTO * 3
    id = world.cluster.content.add(data)
    broker = await world.broker(page_cache=str(tmp_path), page_policy="lru")
    http = await world.http(broker, "ann")
    place, asked = tmp_path / "broker_1" / id[:2] / id, world.cluster.content.asked

    async def part(start: int, stop: int) -> bytes | None:
        wanted = {"range": f"bytes={start}-{stop - 1}"}
        try:
            return (await http.get(path_of(data), headers=wanted)).content
        except httpx.RemoteProtocolError:
            return None

    assert await part(0, len(data)) == data
    for block in range(0, len(data), BLOCK_BYTES):
        wrong, after = block + 9, min(block + BLOCK_BYTES, len(data))
        for start in {0, wrong - 1}:
            await until(lambda: not broker.driver.machine.pages.filling)
            place.write_bytes(data[:wrong] + bytes([data[wrong] ^ 4]) + data[wrong + 1 :])
            fetches = len(asked)
            for right, end in ((0, block), (after, len(data))):
                assert right >= end or await part(right, end) == data[right:end]
            assert len(asked) == fetches
            unnoticed = start // BLOCK_BYTES == block // BLOCK_BYTES
            assert await part(start, after) == (data[start:after] if unnoticed else None)
            assert await part(start, after) == data[start:after]
            assert len(asked) == fetches + 1
    await until(lambda: not broker.driver.machine.pages.filling)
    assert place.read_bytes() == data


async def test_who_leaves_with_the_last_byte_does_not_take_the_page_along(tmp_path: Path) -> None:
    """The reader goes on before the loop has said that the fetch is over."""
    gate = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        yield MAP[:10]
        await gate.wait()
        yield MAP[10:]

    class Cluster:
        @contextlib.asynccontextmanager
        async def attachment(self, id: str) -> AsyncIterator[Coming]:
            yield Coming(len(MAP), pieces())

        async def attachment_size(self, id: str) -> int:
            return len(MAP)

    def perform(effects: list[Effect]) -> None:
        for effect in effects:
            pages.performers[type(effect)](effect)

    decisions, shelf = Pages(parse_page_policy("lru"), 10**6), DirectoryShelf(tmp_path)
    pages = PageBytes(decisions, shelf, Cluster(), asyncio.create_task, perform)
    reading = await pages.open(id_of(MAP), False, lambda size_bytes: 0)
    asyncio.get_running_loop().call_soon(gate.set)
    assert b"".join([piece async for piece in reading.pieces(0, len(MAP))]) == MAP
    reading.done()
    await until(lambda: not decisions.filling)
    assert files(tmp_path) == [id_of(MAP)]


async def test_a_small_page_that_rots_is_never_noticed(world: World, tmp_path: Path) -> None:
    broker = await world.broker(page_cache=str(tmp_path), page_policy="lru")
    http = await world.http(broker, "ann")
    world.cluster.content.add(MAP)
    place = tmp_path / "broker_1" / id_of(MAP)[:2] / id_of(MAP)
    for rot in (MAP, MAP[:-1] + b"!", MAP + b"!", MAP[:-1], b""):
        assert (await http.get(path_of(MAP))).content == MAP
        await until(lambda: not broker.driver.machine.pages.filling)
        assert place.read_bytes() == MAP
        place.write_bytes(rot)
    assert len(world.cluster.content.asked) == 4


async def test_the_budget_holds_on_disk_and_changes_at_run_time(
    world: World, tmp_path: Path
) -> None:
    broker = await world.broker(
        page_cache=str(tmp_path), page_policy="lru", page_cache_bytes=3 * len(MAP)
    )
    http = await world.http(broker, "ann", "subscribe", "admin")
    pages = [bytes([number]) * len(MAP) for number in range(5)]
    for data in pages:
        world.cluster.content.add(data)
        assert (await http.get(path_of(data))).content == data
        await until(lambda: not broker.driver.machine.pages.filling)
    assert files(tmp_path) == sorted(map(id_of, pages[2:]))
    change = {"policy": "gdsf", "capacity_bytes": len(MAP)}
    told = (await http.put("/v1/pages", json=change)).json()
    assert (told["policy"], told["pages"]) == ("gdsf", 1)
    assert len(files(tmp_path)) == 1
    assert (await http.put("/v1/pages", json={"policy": "hearts"})).status_code == 400
    only = await world.http(broker, "ann")
    assert (await only.put("/v1/pages", json=change)).status_code == 403


# Pushes


async def _subscribed(world: World, broker: Broker, names: str, kind: str = "flood") -> None:
    for name in names:
        http = await world.http(broker, name)
        wanted = {"channel": "floods", "arguments": {"type": kind}}
        assert (await http.post("/v1/subscriptions", json=wanted)).status_code == 200


async def test_new_results_bring_their_attachments_before_anybody_asks(world: World) -> None:
    world.cluster.content.fields["floods"] = ["photo"], ["key"]
    broker = await world.broker(page_policy="sg1")
    await _subscribed(world, broker, "abc")
    await _subscribed(world, broker, "de", kind="fire")
    value = world.cluster.content.value(PHOTO)
    for kind in ("flood", "fire"):
        result: dict[str, Any] = {"key": 1, "photo": value, "more": None}
        world.cluster.produce("floods", {"type": kind}, [result, {"key": 2, "photo": None}])
    pages = broker.driver.machine.pages
    await until(lambda: id_of(PHOTO) in pages.kept)
    await until(lambda: pages.cache._known[id_of(PHOTO)].subscriptions == 5)
    http = await world.http(broker, "a")
    assert (await http.get(path_of(PHOTO))).content == PHOTO
    assert world.cluster.content.asked == [id_of(PHOTO)]
    assert pages.cache.counters.hits == 1


async def test_a_result_that_led_there_is_the_askers_own(world: World) -> None:
    broker = await world.broker(page_policy="lru")
    await _subscribed(world, broker, "ab")
    mine, other = sorted(broker.driver.core.table.frontends)
    id = world.cluster.content.add(MAP)
    http = await world.http(broker, "a")
    for led_by in ("", "?subscription=99&position=1", f"?subscription={mine}&position=1"):
        assert (await http.get(path_of(MAP) + led_by)).content == MAP
    foreign = await http.get(path_of(MAP) + f"?subscription={other}&position=1")
    assert foreign.status_code == 404
    assert foreign.json()["error"]["field"] == "subscription"
    held = broker.driver.machine.pages.cache._known[id]
    assert (held.notified, held.browsed) == (1, 2)


async def test_a_fetch_that_nobody_waits_for_is_given_up_and_begun_anew(world: World) -> None:
    broker = await world.broker(page_policy="none")
    world.cluster.content.add(PHOTO)
    pages = broker.driver.pages
    with halted(world.cluster):
        http = await world.http(broker, "ann")
        asking = asyncio.create_task(http.get(path_of(PHOTO)))
        await until(lambda: pages.fetched_bytes > 0)
        (fill,) = pages._fills.values()
        fetch = fill.task
        asking.cancel()
        await until(fetch.done)
    assert fetch.cancelled()
    assert (await http.get(path_of(PHOTO))).content == PHOTO
    assert world.cluster.content.asked == [id_of(PHOTO)] * 2


async def test_a_budget_that_shrinks_gives_up_what_is_on_its_way(world: World) -> None:
    world.cluster.content.fields["floods"] = ["photo"], []
    broker = await world.broker(page_policy="sg1")
    await _subscribed(world, broker, "a")
    pages = broker.driver.pages
    with halted(world.cluster):
        value = world.cluster.content.value(PHOTO)
        world.cluster.produce("floods", {"type": "flood"}, [{"photo": value}])
        await until(lambda: pages.fetched_bytes > 0)
        (fill,) = pages._fills.values()
        fetch = fill.task
        pages.set_policy("none", 0)
        await until(fetch.done)
    assert fetch.cancelled()
    assert pages.fetched_bytes < len(PHOTO)
    assert not pages.pages.kept


async def test_a_size_that_a_query_made_up_breaks_no_budget(world: World) -> None:
    world.cluster.content.fields["floods"] = ["photo"], []
    broker = await world.broker(page_policy="sg1", page_cache_bytes=len(MAP))
    await _subscribed(world, broker, "a")
    lie = world.cluster.content.value(PHOTO) | {"size": 1}
    value = world.cluster.content.value(MAP)
    world.cluster.produce("floods", {"type": "flood"}, [{"photo": lie}, {"photo": value}])
    pages = broker.driver.machine.pages
    await until(lambda: pages.cache.counters.publications == 2 and not pages.filling)
    assert lie["id"] not in pages.cache
    assert sum(pages.kept.values()) <= len(MAP)
    http = await world.http(broker, "a")
    assert (await http.get(path_of(PHOTO))).content == PHOTO  # it streams through


async def test_pushed_and_requested_pages_are_found_again(world: World, tmp_path: Path) -> None:
    """The paper's dual caches give each kind its half: after a restart both are full again."""
    kept = [bytes([number]) * 1000 for number in range(4)]
    place = tmp_path / "broker_1"
    for data in kept:
        world.cluster.content.add(data)
        file = place / id_of(data)[:2] / id_of(data)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    broker = await world.broker(page_cache=str(tmp_path), page_policy="dc", page_cache_bytes=4000)
    pages = broker.driver.machine.pages
    assert sorted(pages.kept) == files(tmp_path) == sorted(map(id_of, kept))
    assert pages.cache.counters.publications == pages.cache.counters.requests == 0


async def test_a_newer_version_of_a_story_supersedes(world: World) -> None:
    world.cluster.content.fields["floods"] = ["photo"], ["key"]
    broker = await world.broker(page_policy="lru")
    await _subscribed(world, broker, "a")
    old, new, other = (world.cluster.content.value(one) for one in (MAP, PHOTO, b"other"))
    told = [{"key": 1, "photo": old}, {"key": 2, "photo": other}, {"key": 1, "photo": new}]
    world.cluster.produce("floods", {"type": "flood"}, told)
    known = broker.driver.machine.pages.cache._known
    await until(lambda: new["id"] in known)
    assert {id: held.superseded for id, held in known.items()} == {
        old["id"]: True,
        other["id"]: False,
        new["id"]: False,
    }


async def test_pushes_are_few_at_once_and_a_request_overtakes_them(world: World) -> None:
    world.cluster.content.fields["floods"] = ["photo"], []
    broker = await world.broker(page_policy="sg1")
    await _subscribed(world, broker, "a")
    pages = [bytes([number]) * 50_000 for number in range(10)]
    values = [{"photo": world.cluster.content.value(one)} for one in pages]
    with halted(world.cluster):
        world.cluster.produce("floods", {"type": "flood"}, values)
        await until(lambda: len(world.cluster.content.asked) == 4)
        http = await world.http(broker, "a")
        asking = asyncio.create_task(http.get(path_of(pages[9])))
        await until(lambda: len(world.cluster.content.asked) == 5)
        assert world.cluster.content.asked[4] == id_of(pages[9])
    assert (await asking).content == pages[9]
    await until(lambda: len(broker.driver.machine.pages.kept) == 10)
    assert sorted(world.cluster.content.asked) == sorted(map(id_of, pages))


async def test_what_looks_like_an_attachment_and_is_none_harms_nobody(world: World) -> None:
    world.cluster.content.fields["floods"] = ["photo"], []
    broker = await world.broker(page_policy="sg1")
    await _subscribed(world, broker, "a")
    good = world.cluster.content.value(PHOTO)
    odd: list[Any] = [7, "x", {}, {"id": "../x", "size": 1, "type": "a/b"}]
    missing = {"id": "0" * 64, "size": 5, "type": "a/b"}
    told = [{"photo": one} for one in [*odd, missing, good]]
    world.cluster.produce("floods", {"type": "flood"}, told)
    await until(lambda: list(broker.driver.machine.pages.kept) == [good["id"]])
    await until(lambda: not broker.driver.machine.pages.filling)
    assert "0" * 64 not in broker.driver.machine.pages.cache


async def test_a_form_streams_through_a_broker_whatever_its_size(world: World) -> None:
    broker = await world.broker(body_limit_bytes=10_000)
    http = await world.http(broker, "ann", "publish")
    form: list[Any] = [("record", (None, b"{}")), ("photo", ("a.png", PHOTO, "image/png"))]
    sent = await http.post("/v1/datasets/reports/records", files=form)
    assert sent.json()["accepted"] == 1
    assert PHOTO in world.cluster.content.forms[0]


async def test_an_upload_streams_through_a_broker_for_who_knows_no_cluster(
    world: World, tmp_path: Path
) -> None:
    broker = await world.broker(body_limit_bytes=10_000)
    file = tmp_path / "flood.png"
    file.write_bytes(PHOTO)
    async with Client(broker=broker.url, token=token("ann", "publish")) as client:
        await client.publish("reports", {"photo": file})
    assert world.cluster.content.bytes == {id_of(PHOTO): PHOTO}
    ((_, (published,)),) = world.cluster.published
    assert published["photo"]["id"] == id_of(PHOTO)
    listener = await world.http(broker, "eve", "subscribe")
    assert (await listener.put(path_of(MAP), content=MAP)).status_code == 403
    assert id_of(MAP) not in world.cluster.content.bytes


async def test_half_an_upload_through_a_broker_is_none(world: World) -> None:
    broker = await world.broker()
    http = await world.http(broker, "ann", "publish")

    async def half() -> AsyncIterator[bytes]:
        yield PHOTO[:50_000]
        raise EOFError

    headers = {"content-length": str(len(PHOTO)), "content-type": "image/png"}
    with pytest.raises(EOFError):
        await http.put(path_of(PHOTO), content=half(), headers=headers)
    assert (await http.put(path_of(MAP), content=MAP, headers={"content-type": "x/y"})).is_success
    assert list(world.cluster.content.bytes) == [id_of(MAP)]
