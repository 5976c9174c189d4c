"""Attachments as an application meets them: uploaded, mentioned, read from its broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.test_pages import files
from broker.world import World, take, token
from tocsin.client import Client
from tocsin.errors import InvalidInput, Unavailable

PHOTO = bytes(range(256)) * 3000


async def test_a_file_and_bytes_are_uploaded_under_their_hash(world: World, tmp_path: Path) -> None:
    client = await world.client("ann")
    file = tmp_path / "flood.png"
    file.write_bytes(PHOTO)
    content = world.cluster.content
    content.lost_uploads = 1  # it is sent again, from the beginning
    value = await client.upload(file)
    assert value == content.value(PHOTO) | {"name": "flood.png"}
    assert content.types[value["id"]] == "image/png"
    small = await client.upload(b"a word", type="text/plain")
    assert small == content.value(b"a word") | {"type": "text/plain"}
    with pytest.raises(InvalidInput, match="cannot read"):
        await client.upload(tmp_path / "missing.png")


async def test_a_results_attachment_is_read_and_checked(world: World, tmp_path: Path) -> None:
    broker = await world.broker(page_policy="dc-ta")
    client = await world.client("ann")
    content = world.cluster.content
    async with await client.subscribe("floods", type="flood") as floods:
        value = content.value(PHOTO)
        world.cluster.produce("floods", {"type": "flood"}, [{"n": 1, "photo": value}])
        (result,) = await take(floods, 1)
        assert result.subscription == floods.id
        photo = client.attachment(result, "photo")
        assert photo.about.size == len(PHOTO)
        assert await photo.read() == PHOTO
        assert b"".join([piece async for piece in photo]) == PHOTO
        await photo.save(tmp_path / "photo.png")
        assert (tmp_path / "photo.png").read_bytes() == PHOTO
        known = broker.driver.machine.pages.cache._known[value["id"]]
        assert (known.notified, known.browsed) == (3, 0)  # led there by the result
        with pytest.raises(InvalidInput, match="no attachment in 'n'"):
            client.attachment(result, "n")
        assert files(tmp_path) == ["photo.png"]


async def test_half_an_attachment_raises_and_saves_nothing(world: World, tmp_path: Path) -> None:
    await world.broker()
    client = await world.client("ann")
    async with await client.subscribe("floods", type="flood") as floods:
        value = world.cluster.content.value(PHOTO)
        world.cluster.content.add(PHOTO, wrong=PHOTO[:-1] + b"!")
        world.cluster.produce("floods", {"type": "flood"}, [{"photo": value}])
        (result,) = await take(floods, 1)
        with pytest.raises(Unavailable):
            await client.attachment(result, "photo").save(tmp_path / "photo.png")
        assert files(tmp_path) == []


async def test_a_client_with_a_websocket_address_alone_is_told(world: World) -> None:
    broker = await world.broker()
    async with Client(broker=broker.ws_url, token=token("ann")) as client:
        floods = await client.subscribe("floods", type="flood")
        value = world.cluster.content.value(PHOTO)
        world.cluster.produce("floods", {"type": "flood"}, [{"photo": value}])
        (result,) = await take(floods, 1)
        with pytest.raises(InvalidInput, match="HTTP address"):
            await client.attachment(result, "photo").read()


async def test_a_path_in_a_record_is_uploaded_with_it(world: World, tmp_path: Path) -> None:
    client = await world.client("ann")
    file = tmp_path / "flood.png"
    file.write_bytes(PHOTO)
    await client.publish("reports", [{"n": 1, "photo": file}, {"n": 2}])
    told = world.cluster.content.value(PHOTO) | {"name": "flood.png"}
    assert world.cluster.content.types[told["id"]] == "image/png"
    ((_, records),) = world.cluster.published
    assert records == [{"n": 1, "photo": told}, {"n": 2}]
