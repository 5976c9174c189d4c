"""One identity binds store, data directory, log and attachments: nobody starts with what is another
store's, and nothing is deleted that this identity did not write."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from cluster.sparkless import SECRET, SparklessCluster, store_away
from cluster.test_attachments import PHOTO, REPORTS, id_of
from content.media import Bucket
from log.media import OnKafka
from tocsin.dev.postgresql import PostgreSQL
from tocsin.dev.s3 import S3
from tocsin.errors import Conflict, SettingError, Unavailable
from tocsin.settings import Settings
from tocsin.storage.content import ContentStore, open_content
from tocsin.storage.data_directory import DataDirectory
from tocsin.storage.identity import Mark, read_mark, write_mark
from tocsin.storage.store.store import Store

AGED = 1_000_000_000.0


def sqlite(path: Path) -> str:
    return f"sqlite:///{path}"


def start(data: Path, store: str, **settings: Any) -> None:
    """A cluster starts, takes some records, stores some of them, and stops."""
    asyncio.run(_run(data, store, settings))


async def _run(data: Path, address: str, settings: dict[str, Any]) -> None:
    wanted = Settings(data=data, secret=SECRET, store=address, **settings)
    with Store.open(address) as store:
        cluster = SparklessCluster(wanted, store)
        async with cluster:
            if "reports" not in [dataset.name for dataset in store.catalog.datasets()]:
                await cluster.create_dataset(REPORTS)
            await cluster.publish_all("reports", [{"key": "a"}, {"key": "b"}])
            store_away(store, cluster.log, data / "datasets", REPORTS, keep=1)


def files(*directories: Path) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes()
        for directory in directories
        for path in sorted(directory.rglob("*"))
        if path.is_file() and path.name not in ("lock", "heads") and "store.db" not in path.name
    }


def forget_marks(*directories: Path) -> None:
    """As they were before there were any."""
    for directory in directories:
        for mark in directory.rglob("identity"):
            mark.unlink()


def test_a_store_and_its_directory_start_again_and_again(tmp_path: Path) -> None:
    for _ in range(3):
        start(tmp_path / "data", sqlite(tmp_path / "a.db"))
    with Store.open(sqlite(tmp_path / "a.db")) as store:
        for directory in ("data", "data/log", "data/attachments"):
            mark = read_mark(tmp_path / directory)
            assert mark is not None
            assert (mark.id, mark.store) == (store.id, sqlite(tmp_path / "a.db"))


@pytest.mark.parametrize("marked", [True, False])
@pytest.mark.parametrize("used", [True, False])
def test_a_second_store_on_the_same_directory_is_refused_and_touches_nothing(
    tmp_path: Path, marked: bool, used: bool
) -> None:
    """Also if the directory is from before there were marks."""
    data, ours, theirs = tmp_path / "data", sqlite(tmp_path / "a.db"), sqlite(tmp_path / "b.db")
    start(data, ours)
    if used:
        start(tmp_path / "other", theirs)
    if not marked:
        forget_marks(data)
    before = files(data)
    with pytest.raises(SettingError) as told:
        start(data, theirs)
    assert theirs in told.value.message
    assert told.value.hint
    if marked:
        assert f"data directory {data} belongs to {ours}" in told.value.message
    assert files(data) == before
    start(data, ours)


def test_a_database_server_beside_sqlite_is_refused_and_shows_no_password(
    tmp_path: Path, postgresql: PostgreSQL
) -> None:
    server = postgresql.fresh()
    start(tmp_path / "data", server)
    before = files(tmp_path / "data")
    with pytest.raises(SettingError) as told:
        start(tmp_path / "data", sqlite(tmp_path / "data" / "store.db"))
    password = server.split(":")[2].split("@")[0]
    assert password not in str(told.value)
    assert "postgresql" in told.value.message
    assert "sqlite" in told.value.message
    assert files(tmp_path / "data") == before
    start(tmp_path / "data", server)


def test_a_directory_from_before_marks_is_taken_over_by_its_own_store(tmp_path: Path) -> None:
    data, ours = tmp_path / "data", sqlite(tmp_path / "a.db")
    start(data, ours)
    forget_marks(data)
    # What a crash left between a file and its manifest says nothing against it.
    known = next((data / "datasets" / "reports").glob("*.parquet"))
    stray = known.with_name("left-by-a-crash.parquet")
    stray.write_bytes(known.read_bytes())
    start(data, ours)
    assert stray.exists()
    assert read_mark(data) is not None


def test_a_used_store_with_a_new_directory_is_refused(tmp_path: Path) -> None:
    ours = sqlite(tmp_path / "a.db")
    start(tmp_path / "data", ours)
    with pytest.raises(SettingError, match="does not have") as told:
        start(tmp_path / "new", ours)
    assert "datasets" in told.value.message
    assert read_mark(tmp_path / "new") is None
    shutil.rmtree(tmp_path / "data" / "log")
    with pytest.raises(SettingError, match="has no dataset") as told:
        start(tmp_path / "data", ours)
    assert told.value.field == "log"


def test_a_log_that_lies_elsewhere_is_bound_as_well(tmp_path: Path) -> None:
    log = tmp_path / "log"
    start(tmp_path / "data", sqlite(tmp_path / "a.db"), log=str(log))
    before = files(log)
    for marked in (True, False):
        if not marked:
            forget_marks(log)
            before = files(log)
        with pytest.raises(SettingError) as told:
            start(tmp_path / "other", sqlite(tmp_path / "b.db"), log=str(log))
        assert told.value.field == "log"
        assert files(log) == before


def test_topics_of_another_store_are_refused(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    log = OnKafka(request, tmp_path).address
    start(tmp_path / "data", sqlite(tmp_path / "a.db"), log=log)
    with pytest.raises(SettingError) as told:
        start(tmp_path / "other", sqlite(tmp_path / "b.db"), log=log)
    assert told.value.field == "log"
    assert sqlite(tmp_path / "a.db") in told.value.message
    assert sqlite(tmp_path / "b.db") in told.value.message


def test_the_directory_is_locked_while_in_use(tmp_path: Path) -> None:
    """Two stores, and logs elsewhere: nothing else would keep them apart before there is a mark."""
    data = tmp_path / "data"
    with (
        Store.open(sqlite(tmp_path / "a.db")) as ours,
        Store.open(sqlite(tmp_path / "b.db")) as theirs,
    ):
        held = DataDirectory(data, "kafka://h:1", ours)
        with pytest.raises(Conflict) as told:
            DataDirectory(data, "kafka://h:1", theirs, patience_s=0.1)
        assert f"process {os.getpid()}" in told.value.message
        assert sqlite(tmp_path / "a.db") in told.value.message
        held.close()
        with pytest.raises(SettingError):  # and not again "another cluster uses"
            DataDirectory(data, "kafka://h:1", theirs)
        DataDirectory(data, "kafka://h:1", ours).close()


OURS, THEIRS = Mark("0" * 32, "sqlite:///ours.db"), Mark("1" * 32, "sqlite:///theirs.db")


@pytest.fixture(params=["directory", "s3"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty folder for attachments."""
    if request.param == "directory":
        return str(tmp_path / "photos")
    server: S3 = request.getfixturevalue("s3")
    return Bucket(server).address


def opened(folder: str, tmp_path: Path, owner: Mark, **options: Any) -> ContentStore:
    return open_content(folder, tmp_path, owner=owner, **options)


def test_a_folder_of_attachments_belongs_to_one_store(folder: str, tmp_path: Path) -> None:
    id = opened(folder, tmp_path, OURS).put(PHOTO)
    with pytest.raises(SettingError) as told:
        opened(folder, tmp_path, THEIRS)
    assert told.value.field == "attachments"
    assert OURS.store in told.value.message
    assert THEIRS.store in told.value.message
    assert [one.id for one in opened(folder, tmp_path, OURS).kept()] == [id]


def test_content_from_before_the_mark_is_served_and_never_collected(
    folder: str, tmp_path: Path
) -> None:
    old = open_content(folder, tmp_path).put(PHOTO)
    with pytest.raises(SettingError, match="another store"):
        opened(folder, tmp_path, THEIRS, expected=False)
    store = opened(folder, tmp_path, OURS)
    assert b"".join(store.read(old)) == PHOTO
    assert list(store.kept()) == []
    again = opened(folder, tmp_path, OURS)
    assert list(again.kept()) == []


def test_nothing_is_collected_once_the_folder_is_anothers(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    store = opened(str(photos), tmp_path, OURS)
    id = store.put(PHOTO)
    os.utime(photos / id[:2] / id[2:4] / id, (AGED, AGED))
    assert [one.id for one in store.kept()] == [id_of(PHOTO)]
    write_mark(photos, THEIRS)
    with pytest.raises(Unavailable, match=r"belongs to sqlite:///theirs\.db"):
        list(store.kept())


def test_a_bucket_that_is_away_is_asked_whose_it_is_when_it_is_back(s3: S3, tmp_path: Path) -> None:
    bucket = Bucket(s3)
    opened(bucket.address, tmp_path, OURS).put(PHOTO)
    s3.kill()
    store = opened(bucket.address, tmp_path, THEIRS)
    with pytest.raises(Unavailable):
        store.put(b"a fire")
    s3.start()
    with pytest.raises(Unavailable, match="belongs to"):
        store.put(b"a fire")
    assert bucket.objects == [bucket.path(id_of(PHOTO))]


def test_files_that_the_store_does_not_know_are_anothers_though_the_log_is_elsewhere(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "data" / "datasets" / "reports"
    folder.mkdir(parents=True)
    (folder / "some.parquet").write_bytes(b"records")
    with (
        Store.open(sqlite(tmp_path / "a.db")) as store,
        pytest.raises(SettingError, match=r"reports/some\.parquet.*knows nothing") as told,
    ):
        DataDirectory(tmp_path / "data", "kafka://h:1", store)
    assert told.value.field == "data"
    assert read_mark(tmp_path / "data") is None
