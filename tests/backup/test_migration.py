"""A system of files moves to Kafka and a database: whole, once, and to be noticed on the way."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from backup.system import (
    REPORTS,
    Silent,
    acknowledge,
    find,
    furnish,
    missed,
    records,
    subscribe,
)
from backup.test_interrupted import finished
from backup.test_running_system import send_again
from cluster.sparkless import sparkless, store_away
from tocsin.cluster.migration import Migration
from tocsin.cluster.opening import open_store
from tocsin.dev.kafka import Kafka as KafkaServer
from tocsin.dev.postgresql import PostgreSQL
from tocsin.errors import Conflict, SettingError
from tocsin.model import Dataset, KafkaSource
from tocsin.settings import Settings
from tocsin.storage.log import PublicationLog
from tocsin.storage.store.store import Store


def flush(settings: Settings, store: Store, log: PublicationLog, _: Any) -> None:
    """As Spark does it, for records of one number."""
    for dataset in store.catalog.datasets():
        store_away(store, log, Path(settings.data) / "datasets", dataset)


def migrate(source: Path, target: Settings) -> bool:
    compared = Migration(Settings(data=source), target, Silent(), flush).run()
    return all(part.equal for part in compared)


async def test_a_system_moves_to_kafka_and_postgresql(
    kafka: KafkaServer, postgresql: PostgreSQL, tmp_path: Path
) -> None:
    live, log = tmp_path / "live", f"{kafka.url}/t{uuid.uuid4().hex}"
    live.mkdir()
    async with sparkless(live) as cluster:
        await furnish(cluster)
        ann = subscribe(cluster, "ann")
        find(cluster, ann, b'{"n":1}')
        acknowledge(cluster, ann)
        find(cluster, ann, b'{"n":2}')
        await send_again(cluster, "early")
        there = records(cluster, REPORTS)
        with pytest.raises(Conflict, match="another cluster"):
            migrate(live, Settings(data=tmp_path / "new", log=log, store=postgresql.fresh()))
    target = Settings(data=tmp_path / "new", log=log, store=postgresql.fresh())

    steps = 0
    while not finished(lambda: migrate(live, target), steps):
        if (live / "moved").exists():
            with pytest.raises(Conflict, match="is moving"):
                open_store(Settings(data=live))
        else:
            open_store(Settings(data=live)).close()
        steps += 25
    assert steps > 25
    with pytest.raises(Conflict, match="has moved"):
        migrate(live, target)
    assert not (tmp_path / "new" / "migrating").exists()

    async with sparkless(tmp_path / "new", log=log, store=target.store) as cluster:
        assert records(cluster, REPORTS) == there
        assert [result.payload for result in missed(cluster, ann)] == [b'{"n":2}']
        await send_again(cluster, "early")
        assert records(cluster, REPORTS) == there
        await cluster.publish_all("reports", [{"n": -1}])
        assert records(cluster, REPORTS) == [*there, -1]
        find(cluster, ann, b'{"n":3}')
        assert [result.payload for result in missed(cluster, ann)] == [b'{"n":2}', b'{"n":3}']


async def test_what_cannot_move_is_told_before_anything_is_done(
    kafka: KafkaServer, tmp_path: Path
) -> None:
    live, new = tmp_path / "live", tmp_path / "new"
    live.mkdir()
    log = f"{kafka.url}/t{uuid.uuid4().hex}"
    async with sparkless(live) as cluster:
        await furnish(cluster)
    (live / "inbox" / "reports" / "more.jsonl").write_text("{}\n")
    before = {path: path.stat().st_mtime_ns for path in live.rglob("*.parquet")}
    given: dict[str, Any] = {"data": new, "store": f"sqlite:///{tmp_path}/s.db"}
    with pytest.raises(SettingError, match="name none"):
        migrate(live, Settings(**given))
    with pytest.raises(SettingError, match="a directory of its own"):
        migrate(live, Settings(data=live, log=log))
    with pytest.raises(Conflict, match=r"wait in the inbox, such as .*more\.jsonl"):
        migrate(live, Settings(**given, log=log))
    (live / "inbox" / "reports" / "more.jsonl").unlink()
    with Store.open(f"sqlite:///{live}/store.db") as store:
        fed = Dataset("fed", (), source=KafkaSource("topic"))
        store.catalog.create_dataset(fed)
    (live / "log" / "fed").mkdir()
    (live / "log" / "fed" / f"{0:020d}.log").touch()
    with pytest.raises(SettingError, match="fed from topic topic"):
        migrate(live, Settings(**given, log=log))
    Store.open(given["store"]).close()
    with pytest.raises(SettingError, match="is there already"):
        migrate(live, Settings(**given, log=log, kafka=kafka.url))
    assert {path: path.stat().st_mtime_ns for path in live.rglob("*.parquet")} == before
    assert not new.exists() or not any(new.rglob("*.jsonl"))
