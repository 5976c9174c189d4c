"""Following datasets at their ends: what comes next is here before it is asked for.

One consumer stays where reading stopped and lets Kafka answer when there is something, so that an
idle stream asks a few times a second and a new record is not waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from tocsin.protocol import log_line
from tocsin.storage.log.kafka.address import KafkaAddress
from tocsin.storage.log.kafka.clients import consumer, fetched, offset_of, unavailable
from tocsin.storage.log.port import News, gone

WAIT_S = 0.1
_MOST_AT_ONCE = 10_000
_QUEUE_KB = 16 * 1024
_OUT_OF_RANGE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
_PASSING = (KafkaError.UNKNOWN_TOPIC_OR_PART,)  # perhaps it comes yet: librdkafka goes on looking


class Follower:
    """For one thread."""

    def __init__(self, address: KafkaAddress, base: Callable[[str], int]) -> None:
        """`base`: of a dataset's positions."""
        self._address = address
        self._base = base
        self._datasets: dict[str, str] = {}  # by topic
        self._positions: dict[str, int] = {}  # what comes next of each dataset
        self._left: list[Message] = []  # fetched, and not returned yet
        self._consumer = consumer(address, **{"queued.max.messages.kbytes": _QUEUE_KB})

    def news(self, starts: Mapping[str, int], most_bytes: int) -> dict[str, News]:
        """As `Reader.news`; waits a moment if there is nothing."""
        if starts != self._positions:
            self._go_to(starts)
        news: dict[str, News] = {}
        if not self._left:
            self._left = self._fetched()
        taken = 0
        for message in self._left:
            value = message.value()
            most_bytes -= len(value or b"")
            if most_bytes < 0 and news:
                break
            taken += 1
            dataset = self._datasets[message.topic() or ""]
            position = self._base(dataset) + offset_of(message)
            line = log_line.message_body(position, value)
            lines = news[dataset].lines if dataset in news else []
            if line is not None:
                lines.append((position, line))
            news[dataset] = News(lines, position + 1)
            self._positions[dataset] = position + 1
        del self._left[:taken]
        return news

    def close(self) -> None:
        self._consumer.close()

    def _go_to(self, starts: Mapping[str, int]) -> None:
        moved = {name for name, at in self._positions.items() if starts.get(name) != at}
        places = {name: TopicPartition(self._address.topic(name), 0) for name in moved}
        if moved:
            self._consumer.incremental_unassign(list(places.values()))
            gone = {place.topic for place in places.values()}
            self._left = [message for message in self._left if message.topic() not in gone]
            for name in moved:
                del self._positions[name]
        new = {name: at for name, at in starts.items() if name not in self._positions}
        if new:
            self._consumer.incremental_assign(
                [
                    TopicPartition(self._address.topic(name), 0, at - self._base(name))
                    for name, at in new.items()
                ]
            )
        self._positions |= new
        self._datasets = {self._address.topic(name): name for name in self._positions}

    def _fetched(self) -> list[Message]:
        try:
            messages = fetched(self._consumer, _MOST_AT_ONCE, WAIT_S)
        except KafkaException as broken:
            raise unavailable(self._address, broken.args[0]) from None
        for message in messages:
            error = message.error()
            if error is not None and error.code() not in _PASSING:
                # What else was fetched is not returned, so everything is fetched again.
                starts = dict(self._positions)
                self._consumer.unassign()
                self._positions.clear()
                dataset = self._datasets[message.topic() or ""]
                if error.code() in _OUT_OF_RANGE:
                    raise gone(dataset, starts[dataset])
                raise unavailable(self._address, error)
        return [message for message in messages if message.error() is None]
