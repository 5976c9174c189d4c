"""Attachments on a real S3 server: what may go wrong there, what others do behind our back, and
that no more is fetched than somebody reads."""

from __future__ import annotations

import asyncio
import hashlib
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import structlog
import uvloop

from content.media import Bucket
from tocsin.dev.s3 import S3
from tocsin.errors import NotFound, SettingError, Unavailable
from tocsin.storage.content import ContentStore, open_content
from tocsin.storage.content.opening import CONFIG, PART_BYTES
from tocsin.storage.content.remote import FETCH_BYTES

SECRET_VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL")


def id_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def bucket(s3: S3) -> Bucket:
    return Bucket(s3)


@pytest.fixture
def store(bucket: Bucket, tmp_path: Path) -> ContentStore:
    return open_content(bucket.address, tmp_path)


@pytest.fixture(autouse=True)
def _impatient_and_without_an_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whoever runs the tests may have one."""
    monkeypatch.setitem(CONFIG, "retries", {"mode": "standard", "total_max_attempts": 1})
    for name in SECRET_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


# Settings


def test_endpoint_and_key_come_from_the_environment(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in bucket.server.environment.items():
        monkeypatch.setenv(name, value)
    id = open_content(f"s3://{bucket.root}", tmp_path).put(b"a flood")
    assert bucket.other.cat_file(bucket.path(id)) == b"a flood"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("s3://tocsin-", "s3://no-such-"), "there is no bucket"),
        (("key=tocsin", "key=nobody"), "AWS_ACCESS_KEY_ID"),
        (("secret=", "secret=0"), "AWS_SECRET_ACCESS_KEY"),
        (("key=tocsin&", ""), "AWS_ACCESS_KEY_ID"),
        (("key=", "kee="), "one of endpoint_url, key, secret"),
        (("endpoint_url=http://", "endpoint_url=nonsense"), "s3://bucket/folder"),
        (("s3://", "s3:///"), "s3://bucket/folder"),
        (("s3://", "s3://UPPER "), "s3://bucket/folder"),
        (("s3://", "gopher://"), "gopher"),
    ],
)
def test_what_no_waiting_mends_is_a_setting_to_mend(
    bucket: Bucket, tmp_path: Path, change: tuple[str, str], told: str
) -> None:
    with pytest.raises(SettingError) as refused:
        open_content(bucket.address.replace(*change), tmp_path)
    assert refused.value.field == "attachments"
    assert told in str(refused.value)
    secret = bucket.server.environment["AWS_SECRET_ACCESS_KEY"]
    assert secret not in str(refused.value)
    assert bucket.objects == []


# Outages


def unreachable(bucket: Bucket, call: Any) -> None:
    """As a person reads it: which store, and why."""
    with pytest.raises(Unavailable) as refused:
        call()
    assert bucket.root in refused.value.message
    assert str(bucket.server.port) in refused.value.message
    assert bucket.server.environment["AWS_SECRET_ACCESS_KEY"] not in str(refused.value)
    assert refused.value.field == "attachments"


def test_a_server_that_is_away_at_start_is_not_waited_for(bucket: Bucket, tmp_path: Path) -> None:
    bucket.server.kill()
    with structlog.testing.capture_logs() as logs:
        store = open_content(bucket.address, tmp_path)
    assert [entry["event"] for entry in logs] == ["attachments cannot be reached yet"]
    unreachable(bucket, lambda: store.put(b"a flood"))
    bucket.server.start()
    id = store.put(b"a flood")
    assert b"".join(store.read(id)) == b"a flood"


def test_every_call_of_an_outage_names_the_store_and_all_goes_on_afterwards(
    bucket: Bucket, store: ContentStore
) -> None:
    known, new = store.put(b"a flood"), id_of(b"a fire")
    kept = store.info(known)
    assert kept is not None
    reading = store.read(known)
    bucket.server.kill()
    for call in (
        lambda: store.put(b"a fire"),
        lambda: store.info(known),
        lambda: store.info(new),
        lambda: list(reading),
        lambda: list(store.read_kept(kept, 1, 2)),
        lambda: store.drop(known),
        lambda: list(store.kept()),
    ):
        unreachable(bucket, call)
    assert list(store.incoming.iterdir()) == []
    bucket.server.start()
    assert [one.id for one in store.kept()] == [known]
    assert store.put(b"a fire") == new
    assert b"".join(store.read(known)) == b"a flood"


def test_a_server_that_hangs_is_not_waited_for_without_end(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(CONFIG, "read_timeout", 0.3)
    store = open_content(bucket.address, tmp_path)
    id = store.put(b"a flood")
    bucket.server.pause()
    unreachable(bucket, lambda: store.put(b"a fire"))
    unreachable(bucket, lambda: store.info(id))
    bucket.server.resume()
    assert b"".join(store.read(id)) == b"a flood"


def test_a_bucket_that_is_gone_is_no_missing_attachment_to_an_upload(
    bucket: Bucket, store: ContentStore
) -> None:
    name = bucket.root.partition("/")[0]
    bucket.other.call_s3("delete_bucket", Bucket=name)
    for call in (lambda: store.put(b"a flood"), lambda: list(store.kept())):
        with pytest.raises(Unavailable, match="bucket"):
            call()
    assert not (bucket.server.data / name).exists()  # nor made by us


# Others


def test_what_others_make_and_drop_is_seen_at_once(bucket: Bucket, store: ContentStore) -> None:
    ours, theirs = store.put(b"ours"), id_of(b"theirs")
    for _ in range(2):
        assert [one.id for one in store.kept()] == [ours]
        assert store.info(theirs) is None
        bucket.other.pipe_file(bucket.path(theirs), b"theirs")
        assert store.info(theirs) is not None
        assert {one.id for one in store.kept()} == {ours, theirs}
        assert b"".join(store.read(theirs)) == b"theirs"
        bucket.other.rm_file(bucket.path(theirs))


def test_what_is_deleted_while_somebody_is_about_to_read_it_is_told(
    bucket: Bucket, store: ContentStore
) -> None:
    reading = store.read(store.put(b"a flood"))
    bucket.other.rm_file(bucket.path(id_of(b"a flood")))
    with pytest.raises(NotFound, match="there is no attachment"):
        list(reading)


def test_what_is_no_attachment_is_left_alone(bucket: Bucket, store: ContentStore) -> None:
    bucket.other.pipe_file(f"{bucket.root}/README", b"x")
    bucket.other.pipe_file(f"{bucket.root}-too/{id_of(b'x')}", b"x")
    assert list(store.kept()) == []


# Much of it


class Requests:
    """What is asked of the server, and how many bytes of it."""

    def __init__(self, store: ContentStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[str] = []
        self.fetched: list[int] = []
        medium: Any = store._medium
        self._call_s3 = medium._files._call_s3
        monkeypatch.setattr(medium._files, "_call_s3", self._called)

    async def _called(self, method: str, *given: Any, **named: Any) -> Any:
        self.made.append(method)
        answer = await self._call_s3(method, *given, **named)
        if method == "get_object":
            self.fetched.append(answer["ContentLength"])
        return answer


@pytest.fixture
def requests(store: ContentStore, monkeypatch: pytest.MonkeyPatch) -> Requests:
    return Requests(store, monkeypatch)


LARGE = random.Random(7).randbytes(2 * PART_BYTES + 1_000_003)


def test_large_content_goes_in_parts_and_comes_back_by_ranges(
    store: ContentStore, requests: Requests
) -> None:
    id = store.put(LARGE)
    assert requests.made.count("upload_part") == 3
    assert b"".join(store.read(id)) == LARGE
    assert max(requests.fetched) == FETCH_BYTES
    assert sum(requests.fetched) == len(LARGE)
    requests.fetched.clear()
    middle = len(LARGE) // 2
    assert b"".join(store.read(id, middle, middle + 10)) == LARGE[middle : middle + 10]
    assert requests.fetched == [10]
    requests.fetched.clear()
    pieces = store.read(id)
    assert LARGE.startswith(next(pieces))
    del pieces  # its reader goes
    assert requests.fetched == [FETCH_BYTES]


def test_no_request_is_made_in_vain(store: ContentStore, requests: Requests) -> None:
    id = store.put(b"a flood")
    assert requests.made == ["head_object", "list_objects_v2", "put_object"]
    requests.made.clear()
    store.put(b"a flood")
    assert requests.made == ["head_object", "put_object"]
    requests.made.clear()
    kept = store.info(id)
    assert kept is not None
    assert b"".join(store.read_kept(kept, 0, kept.size_bytes)) == b"a flood"
    assert requests.made == ["head_object", "get_object"]


def test_many_threads_read_and_write_at_once_beside_an_event_loop(
    bucket: Bucket, store: ContentStore
) -> None:
    """The file system has a loop of its own in a thread; the service has another."""
    some = [store.put(f"content {number}".encode() * 1000) for number in range(8)]

    def work(number: int) -> bool:
        mine = f"written {number % 16}".encode() * 1000
        id = store.put(mine)
        asked = some[number % len(some)]
        whole = b"".join(store.read(asked)), b"".join(store.read(id))
        return (id_of(whole[0]), id_of(whole[1])) == (asked, id)

    async def service() -> list[bool]:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, uvloop.Loop)
        with ThreadPoolExecutor(24) as pool:
            return await asyncio.gather(
                *(loop.run_in_executor(pool, work, number) for number in range(96)),
                *(asyncio.to_thread(work, number) for number in range(32)),
            )

    assert all(uvloop.run(asyncio.wait_for(service(), 120)))
    assert len(bucket.objects) == len(some) + 16


def test_a_server_that_dies_during_a_large_upload_shows_none_of_it(
    bucket: Bucket, store: ContentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    incoming = store.receive()
    incoming.write(LARGE)
    medium: Any = store._medium
    call_s3 = medium._files._call_s3

    async def dies(method: str, *given: Any, **named: Any) -> Any:
        done = await call_s3(method, *given, **named)
        if method == "upload_part":
            bucket.server.kill()
        return done

    monkeypatch.setattr(medium._files, "_call_s3", dies)
    unreachable(bucket, incoming.commit)
    assert list(store.incoming.iterdir()) == []
    monkeypatch.undo()
    bucket.server.start()
    assert store.info(id_of(LARGE)) is None
    assert list(store.kept()) == []
    assert store.put(LARGE) == id_of(LARGE)
    assert b"".join(store.read(id_of(LARGE))) == LARGE
