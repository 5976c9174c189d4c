"""One dataset's topic as the writer sees it.

A commit that Kafka does not confirm in time is not over: the producer goes on trying. Until it is
through, nothing more is staged; then the topic itself shows what it holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
from confluent_kafka import KafkaError, Message

from tocsin.errors import TooLarge, Unavailable, Unconfirmed
from tocsin.protocol import log_line
from tocsin.storage.log.kafka.clients import offset_of
from tocsin.storage.log.kafka.requests import Request, Requests
from tocsin.storage.log.port import Appended, Stamped

if TYPE_CHECKING:
    from tocsin.storage.log.kafka.medium import Kafka


class KafkaDataset:
    def __init__(self, kafka: Kafka, dataset: str, primary_key: Sequence[str]) -> None:
        self.dataset = dataset
        self.last_us = 0
        self.poisoned = False
        self._kafka = kafka
        self._topic = kafka.at.topic(dataset)
        self._primary_key = tuple(primary_key)
        self._requests = Requests()
        self._unconfirmed = 0
        self._failure: Exception | None = None
        self._unsure = False  # a confirmation did not say where
        self._largest_bytes = kafka.topics.ensure(self._topic, kafka.largest_bytes)
        self._base = kafka.reader.base(dataset)
        first, end = kafka.reader.positions(dataset)
        self.durable_end = self.written_end = max(first, end - kafka.remembered)
        self._catch_up()

    def find(self, key: str | None) -> Appended | None:
        known = self._requests.find(key)
        if known is None or not known.whole:
            return None
        return Appended(known.first, known.end, again=True)

    def make_room(self) -> None:
        pass

    def stage(self, key: str | None, lines: Sequence[Stamped]) -> Appended:
        self._kafka.require_leadership()
        known = self._requests.find(key)
        there = known.there if known is not None else 0
        first = known.first if known is not None else self.written_end
        messages = [self._message(key, number, lines) for number in range(there, len(lines))]
        for value, message_key, headers in messages:
            try:
                self._kafka.produce(self._topic, value, message_key, headers, self._on_delivery)
            except Unavailable as error:  # those before it may be on their way
                raise Unconfirmed.after(error) from None
            self._unconfirmed += 1
            self.written_end += 1
        if key is not None and lines:
            request = Request(first, self.written_end, len(lines), len(lines))
            self._requests.stage(key, request)
        return Appended(first, self.written_end)

    def commit(self) -> None:
        try:
            self._confirm()
        except Unavailable as error:
            raise Unconfirmed.after(error) from None
        self._unsure = False
        self.durable_end = self.written_end
        self._requests.commit()

    def _confirm(self) -> None:
        self._kafka.flush()
        if self._failure is not None:
            raise self._failure
        if self._unconfirmed:
            raise self._kafka.unconfirmed()
        if self._unsure and self._kafka.reader.positions(self.dataset)[1] != self.written_end:
            raise self._foreign()
        self._kafka.require_leadership()  # only then nobody has looked for it in vain

    def cut_back(self) -> None:
        """Find out what the topic has, of what was staged."""
        self.poisoned = True
        self._kafka.flush()
        if self._unconfirmed:
            raise self._kafka.unconfirmed()
        self._kafka.renew_if_fatal()
        self._requests.cut_back()
        self._catch_up()
        self._failure = None
        self._unsure = self.poisoned = False

    def roll(self) -> None:
        pass

    def retire(self, below: int) -> None:
        self._kafka.require_leadership()
        below = min(below, self.durable_end - self._kafka.remembered)
        if below > self._kafka.reader.positions(self.dataset)[0]:
            self._kafka.topics.delete_records(self._topic, below - self._base)

    def drop(self) -> None:
        self._kafka.require_leadership()
        self._kafka.topics.delete_records(self._topic, self.durable_end - self._base)
        self._requests.clear()

    def close(self) -> None:
        pass

    def _catch_up(self) -> None:
        """Read what follows the durable end, and take it as durable: Kafka has confirmed it."""
        first, end = self._kafka.reader.positions(self.dataset)
        if end < self.durable_end:
            raise Unavailable(
                f"topic {self._topic} ends at {end} and had {self.durable_end} records: Kafka has"
                " lost some, or somebody made the topic anew",
                hint="restore the topic, or drop the dataset and create it again",
            )
        begin = max(first, self.durable_end)
        for position, message in self._kafka.reader.placed(self.dataset, begin, end):
            part = log_line.decode_headers(message.headers())
            self.last_us = max(self.last_us, log_line.message_taken_us(message.value()))
            if part is not None:
                self._requests.learn(part, position)
        self._requests.commit()
        self.durable_end = self.written_end = end

    def _message(
        self, key: str | None, number: int, lines: Sequence[Stamped]
    ) -> tuple[bytes, bytes | None, list[log_line.Header] | None]:
        line = lines[number]
        value, message_key = log_line.encode_message(*line), self._key_of(line.record)
        size_bytes = len(value) + len(message_key or b"") + len(key or "")
        if size_bytes + log_line.MESSAGE_OVERHEAD_BYTES > self._largest_bytes:
            raise TooLarge(
                f"a record of {size_bytes} bytes is larger than topic {self._topic} takes"
                f" ({self._largest_bytes})",
                field=self.dataset,
                hint="raise max.message.bytes of the topic, or lower record_limit_bytes",
            )
        if key is None:
            return value, message_key, None
        part = log_line.RequestPart(key, number, len(lines))
        return value, message_key, log_line.encode_headers(part)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        expected = self.written_end - self._unconfirmed
        self._unconfirmed -= 1
        if error is not None:
            self._failure = self._failure or self._kafka.failure(error)
        elif message.offset() is None:  # a repeat that Kafka knew, from too long ago
            self._unsure = True
        elif self._base + offset_of(message) != expected:
            self._failure = self._failure or self._foreign()

    def _foreign(self) -> Unavailable:
        return Unavailable(
            f"somebody else wrote to topic {self._topic}",
            hint="publish again; others must publish through Tocsin, or into a topic of their own"
            " that a dataset is made FROM",
        )

    def _key_of(self, record: bytes) -> bytes | None:
        """What Kafka keeps in order, and compacts, by: the dataset's primary key."""
        if not self._primary_key:
            return None
        fields = msgspec.json.decode(record)
        return msgspec.json.encode([fields.get(name) for name in self._primary_key])
