"""Datasets on Delta tables, as a cluster without Spark sees them: whose they are, what is read of
them, and that a backup has them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from backup.system import PHOTO, REPORTS, ROUTED, back_up, furnish, put, records, restore
from cluster.sparkless import sparkless
from tocsin import durable
from tocsin.cluster.opening import open_store
from tocsin.dev.s3 import S3
from tocsin.errors import SettingError, TocsinError, Unavailable
from tocsin.settings import Settings
from tocsin.storage.identity import read_mark

Place = Callable[[str], str]


@pytest.fixture(params=["file", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Addresses of empty places."""
    if request.param == "file":
        return lambda name: f"file://{tmp_path}/{name}"
    s3: S3 = request.getfixturevalue("s3")

    def in_s3(name: str) -> str:
        bucket, options = s3.fresh().split("?")
        return f"{bucket}/{name}?{options}"

    return in_s3


async def filled(data: Path, tables: str) -> dict[str, list[int]]:
    durable.make_directory(data)
    async with sparkless(data, tables=tables) as cluster:
        await furnish(cluster)
        assert len(cluster.tables.stored(ROUTED).files) == 1
        return {dataset.name: records(cluster, dataset) for dataset in (REPORTS, ROUTED)}


async def start(data: Path, **settings: Any) -> None:
    durable.make_directory(data)
    async with sparkless(data, **settings) as cluster:
        await asyncio.sleep(0)
        assert cluster.tables.stored(ROUTED).files


async def test_records_are_read_from_tables_and_from_the_log(place: Place, tmp_path: Path) -> None:
    tables = place("tables")
    seen = await filled(tmp_path / "data", tables)
    assert seen == {"reports": list(range(25)), "alarms": list(range(5))}
    async with sparkless(tmp_path / "data", tables=tables) as cluster:
        assert records(cluster, REPORTS) == list(range(25))
        put(cluster.attachments, PHOTO)
        assert cluster._mentions.look() == set()  # of datasets without attachments


async def test_tables_belong_to_one_store_and_a_store_to_its_tables(
    place: Place, tmp_path: Path
) -> None:
    tables = place("tables")
    await filled(tmp_path / "data", tables)
    with pytest.raises(SettingError, match=r"belongs to sqlite.*this cluster's store is sqlite"):
        await start(tmp_path / "other", tables=tables)
    with pytest.raises(SettingError, match=r"are tables at .*, not at"):
        await start(tmp_path / "data", tables=place("elsewhere"))
    with pytest.raises(SettingError, match="are tables at") as refused:
        await start(tmp_path / "data")
    assert "start with --tables" in str(refused.value.hint)
    await start(tmp_path / "data", tables=tables)


async def test_tables_that_moved_with_their_mark_are_known_again(tmp_path: Path) -> None:
    await filled(tmp_path / "data", f"file://{tmp_path}/tables")
    (tmp_path / "tables").rename(tmp_path / "moved")
    await start(tmp_path / "data", tables=f"file://{tmp_path}/moved")
    assert read_mark(tmp_path / "moved") is not None


async def test_parquet_in_the_data_directory_does_not_vanish_behind_tables(tmp_path: Path) -> None:
    await filled(tmp_path / "data", "")
    with pytest.raises(SettingError, match="are Parquet files in its data directory"):
        await start(tmp_path / "data", tables=f"file://{tmp_path}/tables")


async def test_what_lies_where_tables_should_be_made_is_not_taken_over(tmp_path: Path) -> None:
    (tmp_path / "tables" / "mine").mkdir(parents=True)
    with pytest.raises(SettingError, match=r"there is something at .* \(mine\)"):
        await start(tmp_path / "data", tables=f"file://{tmp_path}/tables")


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ("gs://bucket/x", "nobody knows how to reach it"),
        ("s3a://", "does not say where"),
        ("file://relative", "does not say where"),
        ("s3a://b/x?pasword=secret", "no option is called 'pasword'"),
    ],
)
async def test_an_address_that_cannot_be_is_refused(tmp_path: Path, tables: str, says: str) -> None:
    with pytest.raises(SettingError, match=says) as refused:
        await start(tmp_path / "data", tables=tables)
    assert refused.value.field == "tables"
    assert "=secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("options", "kind"), [("key=tocsin&secret=wrong", Unavailable), ("", Unavailable)]
)
def test_tables_that_cannot_be_reached_are_waited_for(
    s3: S3, tmp_path: Path, options: str, kind: type[TocsinError]
) -> None:
    address = s3.fresh().partition("?")[0] + "/t?endpoint_url="
    address += f"{s3.endpoint}&{options}" if options else "http://127.0.0.1:9&key=a&secret=b"
    with pytest.raises(kind, match="cannot be reached"):
        open_store(Settings(data=tmp_path, tables=address))


async def test_a_backup_has_the_tables_and_a_restore_makes_them_elsewhere(
    place: Place, tmp_path: Path
) -> None:
    tables, elsewhere = place("tables"), place("elsewhere")
    live, root, data = tmp_path / "live", tmp_path / "backup", tmp_path / "restored"
    seen = await filled(live, tables)
    with pytest.raises(SettingError, match="are tables at") as refused:
        back_up(live, root)
    assert "--tables" in str(refused.value.hint)
    manifest = await asyncio.to_thread(back_up, live, root, tables=tables)
    stored = {cut.name: cut.stored_rows for cut in manifest.datasets}
    assert (stored["reports"], stored["alarms"]) == (17, 5)
    with pytest.raises(SettingError, match="are Delta tables"):
        restore(root, data)
    with pytest.raises(SettingError, match="belongs to"):
        restore(root, data, tables=tables)
    compared = await asyncio.to_thread(restore, root, data, tables=elsewhere)
    assert all(part.equal for part in compared)
    async with sparkless(data, tables=elsewhere) as cluster:
        assert {d.name: records(cluster, d) for d in (REPORTS, ROUTED)} == seen
        await cluster.publish_all("reports", [{"n": 99}])
        cluster.store_away(REPORTS)  # the next version
        assert records(cluster, REPORTS) == [*seen["reports"], 99]


async def test_a_backup_of_parquet_does_not_become_tables(tmp_path: Path) -> None:
    await filled(tmp_path / "live", "")
    await asyncio.to_thread(back_up, tmp_path / "live", tmp_path / "backup")
    with pytest.raises(SettingError, match="do not become Delta tables"):
        restore(tmp_path / "backup", tmp_path / "new", tables=f"file://{tmp_path}/tables")
