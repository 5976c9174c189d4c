"""All datasets that are fed from topics: which run, what they wait for."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tocsin import extras
from tocsin.cluster.intake import Intake
from tocsin.errors import InvalidInput, SettingError
from tocsin.model import Dataset
from tocsin.service.trouble import Troubles
from tocsin.settings import Settings
from tocsin.storage.log.kafka import KafkaAddress, is_kafka
from tocsin.storage.store.feeds import Feeds as Places

if TYPE_CHECKING:
    from tocsin.cluster.feeds.feed import Feed

FIELD = "kafka"


class Feeds:
    def __init__(self, settings: Settings, intake: Intake, places: Places) -> None:
        self._settings = settings
        self._intake = intake
        self._places = places
        self._feeds: dict[str, Feed] = {}
        self.troubles = Troubles()  # by dataset

    def check(self, dataset: Dataset) -> None:
        """Whether a new dataset can be fed as it asks; NotFound if there is no such topic."""
        if dataset.source is None:
            return
        kafka, topic = self._kafka(), dataset.source.topic
        if is_kafka(self._settings.log):
            own = KafkaAddress.parse(self._settings.log)
            if own.servers == kafka.servers and topic.startswith(f"{own.prefix}."):
                raise InvalidInput(
                    f"topic {topic} belongs to this cluster's own log",
                    field="topic",
                    hint="read the dataset itself, or name a topic that others fill",
                )
        extras.require("kafka")
        from tocsin.cluster.feeds.topic import ForeignTopic

        ForeignTopic.check(kafka, topic)

    def start(self, dataset: Dataset) -> None:
        """Goes on where it was left. To be called from the event loop."""
        if dataset.source is not None:
            extras.require("kafka")
            from tocsin.cluster.feeds.feed import Feed

            loop = asyncio.get_running_loop()
            feed = Feed(dataset, self._kafka, self._intake, self._places, loop, self.troubles)
            self._feeds[dataset.name] = feed
            feed.start()

    async def drop(self, name: str) -> None:
        """End a dataset's feed and forget how far it was."""
        feed = self._feeds.pop(name, None)
        if feed is not None:
            await asyncio.to_thread(feed.stop)
        await asyncio.to_thread(self._places.drop, name)

    async def stop(self) -> None:
        await asyncio.gather(*(asyncio.to_thread(feed.stop) for feed in self._feeds.values()))
        self._feeds.clear()

    def state(self, name: str) -> str:
        feed = self._feeds.get(name)
        return feed.state if feed is not None else "not running"

    def _kafka(self) -> KafkaAddress:
        if self._settings.kafka:
            return KafkaAddress.parse(self._settings.kafka, FIELD)
        if is_kafka(self._settings.log):
            return KafkaAddress.parse(self._settings.log)
        raise SettingError(
            "no Kafka is named that datasets could be fed from",
            field=FIELD,
            hint="set kafka=kafka://host:port",
        )
