"""A log on Kafka in a backup: under another prefix every record has the position that it had."""

from __future__ import annotations

import uuid
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer

from backup.system import (
    REPORTS,
    ROUTED,
    acknowledge,
    back_up,
    find,
    furnish,
    missed,
    records,
    restore,
    subscribe,
)
from backup.test_interrupted import finished
from backup.test_running_system import send_again
from cluster.sparkless import sparkless
from tocsin.dev.kafka import Kafka as KafkaServer
from tocsin.errors import Gone, SettingError
from tocsin.storage.backup.topic_copies import TopicSource
from tocsin.storage.log.kafka import KafkaAddress, KafkaReader, Topics
from tocsin.storage.store.store import Store


@pytest.fixture(name="prefixes")
def _prefixes(kafka: KafkaServer) -> list[str]:
    return [f"{kafka.url}/t{uuid.uuid4().hex}" for _ in range(3)]


def placed(log: str) -> list[tuple[int, bytes]]:
    reader = KafkaReader(KafkaAddress.parse(log))
    try:
        return list(reader.lines("reports", *reader.positions("reports")))
    finally:
        reader.close()


def write_into(log: str, dataset: str) -> None:
    """What somebody else writes there takes a position, and is no record."""
    address = KafkaAddress.parse(log)
    producer = Producer(address.client())
    producer.produce(address.topic(dataset), b"not ours", partition=0)
    producer.flush(10)


def matches(log: str, *values: bytes) -> list[bytes | None]:
    """What real-time mode has found: these now, and all that is there then."""
    address = KafkaAddress.parse(log)
    Topics(address).ensure(address.matches_topic)
    producer = Producer(address.client())
    for value in values:
        producer.produce(address.matches_topic, value, partition=0)
    assert producer.flush(10) == 0
    with closing(KafkaReader(address)) as reader:
        bounds = reader.bounds(address.matches_topic)
        return [message.value() for message in reader.messages(address.matches_topic, *bounds)]


def taken(data: Path, *logs: str) -> list[int]:
    """Up to where the store knows to have taken the matches of these."""
    topics = [KafkaAddress.parse(log).matches_topic for log in logs]
    with Store.open(f"sqlite:///{data}/store.db") as store:
        return [place.up_to for topic in topics for place in store.matches.places(topic).values()]


async def test_a_log_on_kafka_is_restored_under_another_prefix(
    prefixes: list[str], tmp_path: Path
) -> None:
    first, second, third = prefixes
    live, root = tmp_path / "live", tmp_path / "backup"
    live.mkdir()
    given = {"log": first, "attachments": f"memory://{uuid.uuid4().hex}"}
    async with sparkless(live, **given) as cluster:
        await furnish(cluster)
        ann = subscribe(cluster, "ann")
        await send_again(cluster, "early")
    write_into(first, "reports")
    matches(first, b'{"match":0}', b'{"match":1}', b"not ours", b'{"match":2}')
    async with sparkless(live, **given) as cluster:
        place = cluster.store.matches.begin(KafkaAddress.parse(first).matches_topic)[0]
        cluster.store.matches.commit(place, [], 1)
        find(cluster, ann, b'{"n":1}')
        acknowledge(cluster, ann)
        find(cluster, ann, b'{"n":2}')
        await cluster.publish_all("reports", [{"n": 99}])
        Topics(KafkaAddress.parse(first)).delete_records(
            KafkaAddress.parse(first).topic("reports"), 7
        )
        manifest = back_up(live, root, **given)
        there = records(cluster, REPORTS)
    write_into(first, "reports")
    (cut,) = [cut for cut in manifest.datasets if cut.name == "reports"]
    assert cut.first == 7
    with pytest.raises(SettingError, match="cannot become one of files"):
        restore(root, tmp_path / "refused")
    with pytest.raises(SettingError, match=manifest.source.id[:8]):
        restore(root, tmp_path / "refused", log=first)
    with pytest.raises(SettingError, match="the folder of attachments memory://"):
        restore(root, tmp_path / "refused", log=second, attachments=given["attachments"])
    assert not (tmp_path / "refused" / "store.db").exists()

    elsewhere = tmp_path / "elsewhere"
    new = {"log": second, "attachments": f"memory://{uuid.uuid4().hex}"}
    assert not finished(lambda: restore(root, elsewhere, **new), 6)
    compared = restore(root, elsewhere, **new)  # goes on
    assert all(part.equal for part in compared)
    assert compared[-1].restored_count == 1
    assert placed(second) == placed(first)
    assert matches(second) == [b'{"match":1}', b'{"match":2}']  # what the store had not taken
    assert taken(elsewhere, first, second) == []
    async with sparkless(elsewhere, **new) as cluster:
        assert records(cluster, REPORTS) == there
        assert records(cluster, ROUTED) == list(range(5))
        assert [result.payload for result in missed(cluster, ann)] == [b'{"n":2}']
        await send_again(cluster, "early")
        assert records(cluster, REPORTS) == there
        await cluster.publish_all("reports", [{"n": -1}])
        assert records(cluster, REPORTS) == [*there, -1]
        cluster.store_away(REPORTS)
        assert records(cluster, REPORTS) == [*there, -1]
    async with sparkless(elsewhere, **new) as cluster:  # opened again behind its base
        await cluster.publish_all("reports", [{"n": -2}])
        assert records(cluster, REPORTS) == [*there, -1, -2]

    # A backup of what was restored, and moved from files: positions go on from any base.
    back_up(elsewhere, tmp_path / "again", **new)
    restore(tmp_path / "again", tmp_path / "third", log=third)
    async with sparkless(tmp_path / "third", log=third) as cluster:
        assert records(cluster, REPORTS) == [*there, -1, -2]


async def test_a_log_of_files_moves_to_kafka_when_all_of_it_is_stored(
    prefixes: list[str], tmp_path: Path
) -> None:
    live, log = tmp_path / "live", prefixes[0]
    live.mkdir()
    async with sparkless(live) as cluster:
        await furnish(cluster)
        ann = subscribe(cluster, "ann")
        await send_again(cluster, "early")
        find(cluster, ann, b'{"n":1}')
        there = records(cluster, REPORTS)
    back_up(live, tmp_path / "too early")
    with pytest.raises(SettingError, match=r"\d records of dataset .* are in a log of files"):
        restore(tmp_path / "too early", tmp_path / "refused", log=log)
    async with sparkless(live) as cluster:
        for dataset in cluster.store.catalog.datasets():
            cluster.store_away(dataset)
    back_up(live, tmp_path / "backup")
    compared = restore(tmp_path / "backup", tmp_path / "elsewhere", log=log)
    assert all(part.equal for part in compared)
    with Store.open(f"sqlite:///{tmp_path}/elsewhere/store.db") as store:
        stored_end = store.files.stored_end("reports")
    async with sparkless(tmp_path / "elsewhere", log=log) as cluster:
        assert records(cluster, REPORTS) == there
        await send_again(cluster, "early")
        assert records(cluster, REPORTS) == there
        await cluster.publish_all("reports", [{"n": -1}])
        assert records(cluster, REPORTS) == [*there, -1]
        assert cluster.log.ends()["reports"] > stored_end
        assert [result.payload for result in missed(cluster, ann)] == [b'{"n":1}']


def test_a_backup_that_lacks_matches_begins_another_round(
    prefixes: list[str], tmp_path: Path
) -> None:
    """Whoever stored them has deleted them since the store was copied."""
    matches(prefixes[0], b'{"match":0}', b'{"match":1}', b'{"match":2}')
    address = KafkaAddress.parse(prefixes[0])
    Topics(address).delete_records(address.matches_topic, 2)
    with closing(TopicSource(address)) as source:
        with pytest.raises(Gone, match="has let go"):
            source.copy_matches({address.matches_topic: 1}, tmp_path / "matches")
        assert source.copy_matches({address.matches_topic: 2}, tmp_path / "matches") == 1
