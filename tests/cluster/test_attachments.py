"""Attachments at the cluster: what is uploaded is stored whole or not at all, records mention only
what is there, and bytes go out by ranges to those who may have them."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from cluster.sparkless import SECRET, SparklessCluster, sparkless
from tocsin.client.transport import tls
from tocsin.model import Column, Dataset
from tocsin.service.tokens import mint

PHOTO = b"\x89PNG " + bytes(range(256)) * 40
LIMIT_BYTES = 100_000
REPORTS = Dataset(
    "reports",
    (Column("key", "STRING"), Column("photo", "ATTACHMENT")),
    routed=True,
    created_at=1.0,
)


def id_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def token(*scopes: str, secret: str = SECRET) -> str:
    return mint(secret, "ann", scopes, expires_s=600, now=time.time())


class Site:
    """A cluster, and a way to call it."""

    def __init__(self, cluster: SparklessCluster, http: httpx.AsyncClient, data: Path) -> None:
        self.cluster = cluster
        self.http = http
        self.root = data / "attachments"

    async def put(self, data: bytes, id: str | None = None, **more: Any) -> httpx.Response:
        path = f"/v1/attachments/{id or id_of(data)}"
        headers = {"content-type": "image/png"} | more.pop("headers", {})
        return await self.http.put(path, content=data, headers=headers, **more)

    async def get(self, data: bytes, **headers: str) -> httpx.Response:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.http.get(f"/v1/attachments/{id_of(data)}", headers=names)

    async def publish(self, body: str | list[Any], kind: str = "application/json") -> Any:
        content = body if isinstance(body, str) else msgspec.json.encode(body)
        answer = await self.http.post(
            "/v1/datasets/reports/records", content=content, headers={"content-type": kind}
        )
        return answer.json()

    def records(self, dataset: str) -> list[Any]:
        records = self.cluster.routing.log_range(dataset, 0, None, 100).records
        return [msgspec.json.decode(logged.record) for logged in records]

    @property
    def files(self) -> list[Path]:
        """Of attachments, whole or not."""
        found = [path for path in self.root.rglob("*") if path.is_file()]
        return [path for path in found if path != self.root / "identity"]

    async def nothing_is_left(self) -> None:
        async with asyncio.timeout(10):  # the service hears a moment later that a client has gone
            while self.files:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@pytest.fixture(name="site")
async def _site(tmp_path: Path) -> AsyncIterator[Site]:
    async with sparkless(tmp_path, attachment_limit_bytes=LIMIT_BYTES) as cluster:
        await cluster.create_dataset(REPORTS)
        headers = {"authorization": f"Bearer {token('publish', 'subscribe')}"}
        async with httpx.AsyncClient(base_url=cluster.url, headers=headers, verify=tls()) as http:
            yield Site(cluster, http, tmp_path)


async def test_what_is_uploaded_comes_back(site: Site) -> None:
    made = await site.put(PHOTO)
    assert made.status_code == 201
    assert made.json() == {"id": id_of(PHOTO), "size": len(PHOTO), "type": "image/png"}
    assert (await site.put(PHOTO)).status_code == 200
    posted = await site.http.post("/v1/attachments", content=PHOTO)
    assert posted.json() == {
        "id": id_of(PHOTO),
        "size": len(PHOTO),
        "type": "application/octet-stream",
    }
    found = await site.get(PHOTO)
    assert found.content == PHOTO
    assert found.headers["etag"] == f'"{id_of(PHOTO)}"'
    assert "immutable" in found.headers["cache-control"]
    assert len(site.files) == 1


async def test_a_body_without_a_length_is_streamed(site: Site) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for start in range(0, len(PHOTO), 1000):
            yield PHOTO[start : start + 1000]

    made = await site.http.put(f"/v1/attachments/{id_of(PHOTO)}", content=pieces())
    assert made.status_code == 201
    assert (await site.get(PHOTO)).content == PHOTO


async def test_a_wrong_hash_is_refused(site: Site) -> None:
    refused = await site.put(PHOTO, id=id_of(b"something else"))
    assert refused.status_code == 400
    assert refused.json()["error"]["field"] == "id"
    assert site.files == []


async def test_what_is_too_large_is_refused(site: Site) -> None:
    large = bytes(LIMIT_BYTES + 1)

    async def pieces() -> AsyncIterator[bytes]:
        yield large

    path = f"/v1/attachments/{id_of(large)}"
    for body in (large, pieces()):  # with a length that tells it, and without
        refused = await site.http.put(path, content=body)
        assert refused.status_code == 413
        assert "attachment_limit_bytes" in refused.json()["error"]["hint"]
        assert site.files == []


async def test_the_largest_is_taken(site: Site) -> None:
    assert (await site.put(bytes(LIMIT_BYTES))).status_code == 201


async def _raw(site: Site, *lines: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    url = httpx.URL(site.cluster.url)
    reader, writer = await asyncio.open_connection(url.host, url.port)
    head = [f"PUT /v1/attachments/{id_of(PHOTO)} HTTP/1.1", "host: x", *lines]
    head.append(f"authorization: Bearer {token('publish')}")
    writer.write("\r\n".join(head).encode() + b"\r\n\r\n")
    return reader, writer


async def test_an_upload_that_is_cut_leaves_nothing(site: Site) -> None:
    for head in [f"content-length: {len(PHOTO)}", "transfer-encoding: chunked"]:
        _, writer = await _raw(site, head)
        body = PHOTO[:5000]
        writer.write(body if "length" in head else b"1388\r\n" + body + b"\r\n")
        await writer.drain()
        async with asyncio.timeout(10):
            while not site.files:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        writer.close()
        await site.nothing_is_left()
        assert (await site.get(PHOTO)).status_code == 404


async def test_a_wrong_length_is_refused(site: Site) -> None:
    for length in ["x", "-5", str(len(PHOTO) - 7)]:
        reader, writer = await _raw(site, f"content-length: {length}")
        writer.write(PHOTO)
        answer = await asyncio.wait_for(reader.readline(), 10)
        assert b" 400 " in answer
        writer.close()
        await site.nothing_is_left()


async def test_only_hashes_are_ids(site: Site) -> None:
    for path in [
        "..%2F..%2Fstore.db",
        "%2e%2e%2f" * 4 + "etc%2fpasswd",
        "A" * 64,
        "0" * 63,
        "%00" + "0" * 63,
    ]:
        for method in ("PUT", "GET"):
            refused = await site.http.request(method, f"/v1/attachments/{path}", content=b"x")
            assert refused.status_code in (400, 404)
            assert "hint" in refused.json()["error"]
        assert site.files == []


async def test_who_may_do_what(site: Site) -> None:
    await site.put(PHOTO)
    path = f"/v1/attachments/{id_of(PHOTO)}"

    async def status(method: str, bearer: str) -> int:
        headers = {"authorization": f"Bearer {bearer}"}
        answer = await site.http.request(method, path, headers=headers, content=PHOTO)
        return answer.status_code

    foreign = token("publish", "subscribe", secret="the secret of quite another system")
    assert await status("GET", foreign) == await status("PUT", foreign) == 401
    assert await status("PUT", token("subscribe", "broker", "admin")) == 403
    assert await status("GET", token("publish")) == 403
    assert await status("GET", token("broker")) == 200


async def test_an_unknown_id_is_told(site: Site) -> None:
    missing = await site.get(b"nobody sent this")
    assert missing.status_code == 404
    assert missing.json()["error"]["field"] == "id"


async def test_one_range(site: Site) -> None:
    for asked, start, stop in [
        ("bytes=0-0", 0, 1),
        ("bytes=10-19", 10, 20),
        ("bytes=100-", 100, None),
        ("bytes=-7", -7, None),
        ("bytes=-999999", 0, None),
        ("bytes=5-999999", 5, None),
    ]:
        await site.put(PHOTO)
        part = await site.get(PHOTO, range=asked)
        assert part.status_code == 206
        assert part.content == PHOTO[start:stop]
        first = start % len(PHOTO)
        told = f"bytes {first}-{first + len(part.content) - 1}/{len(PHOTO)}"
        assert part.headers["content-range"] == told


async def test_a_range_without_a_byte(site: Site) -> None:
    for asked in ["bytes=999999-", "bytes=-0"]:
        await site.put(PHOTO)
        refused = await site.get(PHOTO, range=asked)
        assert refused.status_code == 416
        assert refused.headers["content-range"] == f"bytes */{len(PHOTO)}"
        assert refused.json()["error"]["field"] == "range"


async def test_what_is_no_single_range_gets_all(site: Site) -> None:
    for asked in ["bytes=0-1,5-6", "bytes=-", "lines=1-2", "bytes=9-3", "x"]:
        await site.put(PHOTO)
        whole = await site.get(PHOTO, range=asked)
        assert whole.status_code == 200
        assert whole.content == PHOTO


async def test_conditions(site: Site) -> None:
    await site.put(PHOTO)
    tag = f'"{id_of(PHOTO)}"'
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        same = await site.get(PHOTO, if_none_match=known)
        assert same.status_code == 304
        assert same.content == b""
        assert same.headers["etag"] == tag
    assert (await site.get(PHOTO, if_none_match='"other"')).status_code == 200
    assert (await site.get(PHOTO, range="bytes=0-3", if_range=tag)).status_code == 206
    assert (await site.get(PHOTO, range="bytes=0-3", if_range='"other"')).status_code == 200


async def test_head_tells_without_bytes(site: Site) -> None:
    await site.put(PHOTO)
    told = await site.http.head(f"/v1/attachments/{id_of(PHOTO)}?type=image/png")
    assert told.status_code == 200
    assert told.headers["content-length"] == str(len(PHOTO))
    assert told.headers["content-type"] == "image/png"
    assert told.content == b""


async def test_bytes_are_shown_as_asked_and_never_run(site: Site) -> None:
    await site.put(PHOTO)
    path = f"/v1/attachments/{id_of(PHOTO)}"
    found = await site.http.get(path)
    assert found.headers["content-type"] == "application/octet-stream"
    page = await site.http.get(f"{path}?type=text/html")
    assert page.headers["content-type"] == "text/html"
    assert "sandbox" in page.headers["content-security-policy"]
    assert page.headers["x-content-type-options"] == "nosniff"
    assert (await site.http.get(f"{path}?type=a%0d%0ab")).status_code == 400


async def test_damaged_bytes_never_look_whole(site: Site) -> None:
    long = PHOTO * 9
    await site.put(long)
    (file,) = site.files
    file.write_bytes(long[:-1] + b"!")
    with pytest.raises(httpx.RemoteProtocolError):
        await site.get(long)
    assert (await site.get(long)).status_code == 404
    assert site.files == []


# Records


def photo(data: bytes = PHOTO, **changes: Any) -> dict[str, Any]:
    return {"id": id_of(data), "size": len(data), "type": "image/png"} | changes


async def test_a_record_with_an_attachment_that_is_there(site: Site) -> None:
    await site.put(PHOTO)
    named = photo(name="flood.png")
    done = await site.publish([{"key": "a", "photo": named}, {"key": "b"}, {"photo": None}])
    assert done["accepted"] == 3
    told = [{"key": "a", "photo": named}, {"key": "b"}, {}]
    assert site.records("reports") == told
    site.cluster.store_away(REPORTS)
    assert site.records("reports") == told


async def test_a_record_comes_only_after_its_attachment(site: Site) -> None:
    done = await site.publish([{"key": "a", "photo": photo()}])
    (error,) = done["errors"]
    assert error["field"] == "photo"
    assert f"PUT /v1/attachments/{id_of(PHOTO)}" in error["reason"]
    (letter,) = site.records("dead_letters")
    assert letter["field"] == "photo"
    await site.put(PHOTO)
    assert (await site.publish([{"key": "a", "photo": photo()}]))["accepted"] == 1


async def test_what_is_no_attachment_is_a_dead_letter(site: Site) -> None:
    for value in [
        photo(size=3),
        photo(size=-1),
        photo(size="many"),
        photo(id="../../store.db"),
        photo(id=id_of(PHOTO).upper()),
        photo(type="png"),
        photo(type="image/png\r\nx: y"),
        photo(name="../flood.png"),
        photo(name="a\\b"),
        photo(name=".."),
        photo(name=""),
        photo(name="a\nb"),
        photo(name="x" * 256),
        photo(more=1),
        {"id": id_of(PHOTO)},
        id_of(PHOTO),
        7,
    ]:
        await site.put(PHOTO)
        done = await site.publish([{"key": "a", "photo": value}])
        assert done["accepted"] == 0
        assert done["errors"][0]["field"] == "photo"


async def test_csv_has_json_in_a_cell(site: Site) -> None:
    await site.put(PHOTO)
    cell = msgspec.json.encode(photo()).decode().replace('"', '""')
    done = await site.publish(f'key,photo\na,"{cell}"\nb,\nc,nonsense\n', "text/csv")
    assert (done["accepted"], done["rejected"]) == (2, 1)
    assert done["errors"][0]["field"] == "photo"


async def test_filters_ask_whether_there_is_one_and_no_more(site: Site) -> None:
    asked = site.cluster.routing.filter
    assert asked("reports", "photo IS NOT NULL")
    with pytest.raises(Exception, match="IS NULL and IS NOT NULL can be asked"):
        asked("reports", "photo = 'x'")


# A record and its attachments in one request


async def _together(
    site: Site, record: bytes | None, *files: tuple[str, tuple[str, bytes, str]], **headers: str
) -> httpx.Response:
    parts: list[tuple[str, Any]] = [("record", (None, record))] if record is not None else []
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return await site.http.post(
        "/v1/datasets/reports/records", files=[*parts, *files], headers=names
    )


def _photo(data: bytes = PHOTO, name: str = "flood.png") -> tuple[str, tuple[str, bytes, str]]:
    return "photo", (name, data, "image/png")


async def test_a_record_comes_with_its_attachment(site: Site) -> None:
    published = await _together(site, b'{"key": "a"}', _photo())
    assert published.json()["accepted"] == 1
    about = {"id": id_of(PHOTO), "size": len(PHOTO), "type": "image/png", "name": "flood.png"}
    assert site.records("reports") == [{"key": "a", "photo": about}]
    assert (await site.get(PHOTO)).content == PHOTO


async def test_it_comes_once_though_it_is_sent_again(site: Site) -> None:
    for _ in range(2):
        sent = await _together(site, b'{"key": "a"}', _photo(), idempotency_key="k1")
        assert sent.json()["accepted"] == 1
    assert len(site.records("reports")) == 1
    assert len(site.files) == 1


@pytest.mark.parametrize(
    ("record", "files", "field"),
    [
        (None, [_photo()], "record"),
        (b"[1, 2]", [_photo()], "record"),
        (b"{", [_photo()], "body"),
        (b'{"key": "a"}', [("picture", ("p.png", PHOTO, "image/png"))], "picture"),
        (b'{"key": "a"}', [_photo(), _photo()], "photo"),
        (b'{"key": "a", "photo": {"id": "x"}}', [_photo()], "photo"),
        (b'{"key": "a"}', [_photo(bytes(LIMIT_BYTES + 1))], "photo"),
        (b'{"key": "a"}', [("photo", ("p.png", PHOTO, "no type"))], "type"),
    ],
)
async def test_what_makes_no_sense_together_stores_nothing(
    site: Site, record: bytes | None, files: list[Any], field: str
) -> None:
    refused = await _together(site, record, *files)
    assert refused.status_code in (400, 413)
    assert refused.json()["error"]["field"] == field
    assert site.files == []
    assert site.records("reports") == []


async def test_a_record_that_does_not_fit_leaves_no_attachment(site: Site) -> None:
    for record, name in ((b'{"key": [1]}', "a.png"), (b'{"key": "a"}', "..\\a.png")):
        refused = await _together(site, record, _photo(name=name))
        assert refused.status_code == 422
        assert refused.json()["errors"][0]["field"] in ("key", "photo")
        assert site.files == []


async def test_a_form_that_is_cut_short_leaves_nothing(site: Site) -> None:
    whole = httpx.Request(
        "POST", site.cluster.url, files=[("record", (None, b'{"key": "a"}')), _photo()]
    )
    body = whole.read()
    headers = {"content-type": whole.headers["content-type"]}
    for sent in (body[:-100], body[: len(body) // 2], b""):
        refused = await site.http.post(
            "/v1/datasets/reports/records", content=sent, headers=headers
        )
        assert refused.status_code == 400
        assert site.files == []
    assert site.records("reports") == []
