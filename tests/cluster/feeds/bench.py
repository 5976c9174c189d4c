"""A feed without Spark around it: a foreign topic, a store, a log and the door to it."""

from __future__ import annotations

import asyncio
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from log.kafka.topic import Topic
from tocsin.cluster.feeds import Feeds
from tocsin.cluster.intake import Intake
from tocsin.dev.kafka import Kafka
from tocsin.intake.dead_letters import DEAD_LETTERS
from tocsin.model import Column, Dataset, KafkaSource, MessageFormat
from tocsin.settings import Settings
from tocsin.storage.log import open_log, open_reader
from tocsin.storage.store.store import Store

PATIENCE_S = 60.0


class Bench:
    """Use as an async context manager; `restart` as often as you like."""

    def __init__(
        self,
        kafka: Kafka,
        directory: Path,
        *,
        partitions: int = 3,
        form: MessageFormat = "json",
        log_address: str | None = None,
    ) -> None:
        self.topic = Topic(kafka, f"foreign-{uuid.uuid4().hex}")
        self.settings = Settings(kafka=kafka.url, log=log_address or "")
        self.dataset = Dataset(
            "reports",
            (Column("p", "INT"), Column("n", "INT")),
            created_at=time.time(),
            source=KafkaSource(self.topic.name, form),
        )
        self._directory = directory
        if partitions:
            self.topic.create(partitions)

    async def __aenter__(self) -> Bench:
        self.store = Store.open(f"sqlite:///{self._directory}/store.db")
        address = self.settings.log or str(self._directory / "log")
        self.log = open_log(address, segment_bytes=1 << 20)
        datasets = {one.name: one for one in (self.dataset, DEAD_LETTERS)}
        for name in datasets:
            self.log.open_dataset(name)
        intake = Intake(self.log, datasets.__getitem__, 10_000)
        self.feeds = Feeds(self.settings, intake, self.store.feeds)
        self.feeds.start(self.dataset)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.feeds.stop()
        self.log.close()
        self.store.close()

    def write(self, partition: int, *numbers: int) -> None:
        self.topic.write([self.value(partition, n) for n in numbers], partition=partition)

    def value(self, partition: int, number: int) -> bytes:
        return b'{"p":%d,"n":%d}' % (partition, number)

    def records(self, dataset: str = "reports", start: int = 0) -> list[dict[str, Any]]:
        reader = open_reader(self.log.address)
        lines = list(reader.lines(dataset, start, self.log.ends()[dataset]))
        reader.close()
        return [msgspec.json.decode(body)["r"] for _, body in lines]

    @property
    def crashed(self) -> bool:
        return not any(one.name == "feed-reports" for one in threading.enumerate())

    def numbers(self, partition: int = 0) -> list[int]:
        return [record["n"] for record in self.records() if record["p"] == partition]

    @property
    def state(self) -> str:
        return self.feeds.state("reports")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
