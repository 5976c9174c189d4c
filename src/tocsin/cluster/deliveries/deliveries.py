"""All deliveries of a cluster: one for each channel that asks for it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

import structlog

from tocsin.cluster.deliveries.delivery import Delivery
from tocsin.cluster.deliveries.to_topic import ToTopic
from tocsin.cluster.deliveries.topics import Topics, require_kafka
from tocsin.errors import TocsinError
from tocsin.model import Channel, Subscription
from tocsin.model import Delivery as Asked
from tocsin.settings import Settings
from tocsin.storage.store import Store

log = structlog.get_logger()


class Deliveries:
    def __init__(self, settings: Settings, store: Store) -> None:
        self._settings = settings
        self._store = store
        self._running: dict[str, Delivery] = {}

    def check(self, asked: Asked) -> None:
        """Before the channel is made: can its results be delivered as it says?"""
        address = require_kafka(self._settings.log)
        if asked.topic:
            Topics(address).require(asked.topic)

    def start(self, channels: Iterable[Channel]) -> None:
        for channel in channels:
            try:
                self.add(channel)
            except TocsinError as error:  # the others go on
                log.error("a channel is not delivered", channel=channel.name, reason=str(error))

    def add(self, channel: Channel) -> None:
        if channel.delivery is None:
            return
        address = require_kafka(self._settings.log)
        way = ToTopic(channel.name, channel.delivery.topic)
        delivery = self._running[channel.name] = Delivery(channel, address, self._store, way)
        delivery.start()

    def drop(self, channel: str) -> None:
        delivery = self._running.pop(channel, None)
        if delivery is not None:
            delivery.stop()

    def subscribed(self, made: Subscription) -> None:
        """Somebody subscribed to a channel."""

    def committed(self, channel: str) -> None:
        """The channel has new results. Called on any thread."""
        with contextlib.suppress(KeyError):
            self._running[channel].wake()

    def describe(self, channel: Channel) -> list[tuple[str, str]]:
        """For DESCRIBE CHANNEL."""
        if channel.delivery is None:
            return []
        delivery = self._running.get(channel.name)
        state = delivery.describe() if delivery else [("delivery's trouble", "it does not run")]
        return [("delivers to", told(channel.delivery)), *state]

    def stop(self) -> None:
        for name in list(self._running):
            self.drop(name)


def told(asked: Asked) -> str:
    """A delivery as people read of it."""
    return f"Kafka topic {asked.topic}"
