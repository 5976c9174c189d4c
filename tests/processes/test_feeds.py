"""CREATE DATASET … FROM KAFKA, through a live system whose own log is files."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

import httpx
import pytest

from log.kafka.topic import Topic
from tocsin.client import SyncClient
from tocsin.dev.kafka import Kafka
from tocsin.errors import NotFound
from tocsin.system import System

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.1)


def test_a_dataset_is_fed_from_a_topic_until_it_is_dropped(kafka: Kafka, live: System) -> None:
    topic = Topic(kafka, f"alerts-{uuid.uuid4().hex}").create(2)
    topic.write([b"a,1", b"b,two", b"c,3"], partition=1)
    create = f"CREATE DATASET fed (id STRING, n INT) FROM KAFKA '{topic.name}' FORMAT CSV"
    with SyncClient(cluster=live.cluster_url, token=live.token("ann", "admin", "publish")) as ann:

        def ids() -> list[str]:
            (found,) = ann.sql("SELECT id FROM fed ORDER BY id")
            return [str(row[0]) for row in found.rows]

        def described() -> dict[str, str]:
            (found,) = ann.sql("DESCRIBE DATASET fed")
            return {row[0]: row[1] for row in found.rows}

        with pytest.raises(NotFound, match="has no topic 'nowhere'"):
            ann.sql("CREATE DATASET fed (id STRING) FROM KAFKA 'nowhere'")
        ann.sql(create)
        (again,) = ann.sql(create.replace("fed", "IF NOT EXISTS fed"))
        assert again.message == "dataset fed was there already"
        until(lambda: ids() == ["a", "c"])
        (letters,) = ann.sql("SELECT source, line FROM dead_letters WHERE dataset = 'fed'")
        assert letters.rows == [[f"kafka:{topic.name}/1", 1]]
        assert described()["fed from"] == f"Kafka topic {topic.name} (CSV)"
        until(lambda: described()["feed"] == "up to date")
        ann.sql("INSERT INTO fed VALUES ('d', 4)")  # by hand is allowed
        until(lambda: ids() == ["a", "c", "d"])
        metrics = httpx.get(f"{live.cluster_url}/metrics").text
        assert 'tocsin_feed_waiting{dataset="fed"} 0.0' in metrics
        shown = httpx.get(
            f"{live.cluster_url}/v1/datasets/fed",
            headers={"Authorization": f"Bearer {live.token('bob', 'publish')}"},
        ).json()
        assert shown["source"] == {"topic": topic.name, "format": "csv"}
        ann.sql("DROP DATASET fed")
        topic.write([b"e,5"])
        assert "tocsin_feed_waiting" not in [
            line.partition("{")[0]
            for line in httpx.get(f"{live.cluster_url}/metrics").text.splitlines()
            if 'dataset="fed"' in line
        ]
        ann.sql(create)
        until(lambda: ids() == ["a", "c", "e"])
        ann.sql("DROP DATASET fed")
