"""All deliveries of a cluster: one for each channel that asks for it, and one poller for all.

Whatever speaks with Kafka is imported when the first channel asks for it: most clusters have none.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

import structlog

from tocsin.cluster.deliveries.ownership import RequireOwner, believe
from tocsin.errors import SettingError, TocsinError
from tocsin.model import Channel, Subscription
from tocsin.model import Delivery as DeliverySpec
from tocsin.service.trouble import Troubles
from tocsin.settings import Settings
from tocsin.storage.log.kafka import KafkaAddress, is_kafka
from tocsin.storage.store.store import Store

if TYPE_CHECKING:
    from tocsin.cluster.deliveries.delivery import Delivery
    from tocsin.cluster.deliveries.poller import Poller
    from tocsin.cluster.deliveries.to_consumer_logs import ConsumerLogs
    from tocsin.cluster.deliveries.to_topic import ToTopic

log = structlog.get_logger()


class Deliveries:
    def __init__(
        self, settings: Settings, store: Store, require_owner: RequireOwner = believe
    ) -> None:
        """`require_owner`: of consumers that ask for what their logs lack."""
        self._settings = settings
        self._store = store
        self._require_owner = require_owner
        self._running: dict[str, Delivery] = {}
        self._logs: dict[str, ConsumerLogs] = {}
        self._poller: Poller | None = None
        self.troubles = Troubles()  # by channel

    def check(self, delivery: DeliverySpec) -> None:
        """Before the channel is made: can its results be delivered as it says?"""
        address = require_kafka(self._settings.log)
        if delivery.topic:
            from tocsin.cluster.deliveries.topics import Topics

            Topics(address).require(delivery.topic)

    def start(self, channels: Iterable[Channel]) -> None:
        for channel in channels:
            try:
                self.add(channel)
            except TocsinError as error:  # the others go on
                self.troubles.put(channel.name, str(error))
                log.error("a channel is not delivered", channel=channel.name, reason=str(error))

    def add(self, channel: Channel) -> None:
        if channel.delivery is None:
            return
        address = require_kafka(self._settings.log)
        from tocsin.cluster.deliveries.delivery import Delivery
        from tocsin.cluster.deliveries.poller import Poller
        from tocsin.cluster.deliveries.to_consumer_logs import ConsumerLogs
        from tocsin.cluster.deliveries.to_topic import ToTopic

        way: ToTopic | ConsumerLogs
        if channel.delivery.topic:
            way = ToTopic(channel.name, channel.delivery.topic)
        else:
            way = self._logs[channel.name] = ConsumerLogs(
                channel,
                address,
                self._store,
                mark_s=self._settings.consumer_log_mark_s,
                keep_s=self._settings.result_retention_s,
            )
            if self._poller is None:
                self._poller = Poller(
                    address, self._store, self._logs.__contains__, self._require_owner
                )
                self._poller.start()
        delivery = self._running[channel.name] = Delivery(
            channel, address, self._store, way, self.troubles
        )
        delivery.start()

    def drop(self, channel: str) -> None:
        delivery = self._running.pop(channel, None)
        if delivery is not None:
            delivery.stop()
        logs = self._logs.pop(channel, None)
        if logs is not None:
            logs.end()
        self.troubles.clear(channel)

    def subscribed(self, subscription: Subscription) -> None:
        """Its log is there when this returns."""
        logs = self._logs.get(subscription.backend.channel)
        if logs is not None:
            logs.make_log(subscription.id)

    def unsubscribed(self, gone: Subscription) -> None:
        logs = self._logs.get(gone.backend.channel)
        if logs is not None:
            logs.leave(gone.id)
            self.committed(gone.backend.channel)

    def committed(self, channel: str) -> None:
        """The channel has new results. Called on any thread."""
        with contextlib.suppress(KeyError):
            self._running[channel].wake()

    def describe(self, channel: Channel) -> list[tuple[str, str]]:
        """For DESCRIBE CHANNEL."""
        if channel.delivery is None:
            return []
        delivery = self._running.get(channel.name)
        trouble = self.troubles.of(channel.name)
        state = delivery.describe() if delivery else []
        return [
            ("delivers to", describe(channel.delivery)),
            *state,
            ("delivery's trouble", "none" if trouble is None else trouble.reason),
        ]

    def stop(self) -> None:
        for delivery in self._running.values():
            delivery.stop()
        if self._poller is not None:
            self._poller.stop()


def require_kafka(log: str) -> KafkaAddress:
    if not is_kafka(log):
        raise SettingError(
            "DELIVER needs a publication log on Kafka",
            field="log",
            hint="start the cluster with --set log=kafka://host:9092/tocsin",
        )
    return KafkaAddress.parse(log)


def describe(delivery: DeliverySpec) -> str:
    """A delivery as people read of it."""
    if delivery.topic:
        return f"Kafka topic {delivery.topic}"
    kept = f", each keeps {delivery.keep_bytes} bytes" if delivery.keep_bytes else ""
    shared = ", values shared" if delivery.shared else ""
    return f"consumer logs, admit {delivery.admit}{kept}{shared}"
