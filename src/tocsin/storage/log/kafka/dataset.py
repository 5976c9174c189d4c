"""One dataset's topic as the writer sees it.

Kafka cannot take back what it holds, so nothing is ever cut: a request of which a crash or a lost
answer left only the first records is *made whole* when its publisher sends it again under its key.
For that every record of a request with a key says in its headers the key, its number and how many
there are; an idempotent producer keeps them in order, so what is there is always a beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from confluent_kafka import KafkaError, Message

from tocsin.errors import Unavailable
from tocsin.storage.log.port import Appended, Stamped

if TYPE_CHECKING:
    from tocsin.storage.log.kafka.medium import Kafka

MOST_KEYS = 100_000
SCANNED = 20_000  # the newest records whose keys are known after a restart


class _Request(NamedTuple):
    """What the topic holds of a request."""

    first: int
    end: int
    there: int
    of: int


class KafkaDataset:
    def __init__(self, kafka: Kafka, dataset: str, primary_key: Sequence[str]) -> None:
        self.dataset = dataset
        self.last_us = 0
        self._kafka = kafka
        self._topic = kafka.at.topic(dataset)
        self._primary_key = tuple(primary_key)
        self._requests: dict[str, _Request] = {}  # oldest first
        self._before: dict[str, _Request | None] = {}  # as they were before this commit
        self._failure: KafkaError | Unavailable | None = None
        self._delivered = 0
        kafka.ensure_topic(self._topic)
        first, end = kafka.reader.bounds(dataset)
        self.durable_end = self.written_end = self._delivered = max(first, end - SCANNED)
        self.poisoned = False
        self._catch_up()

    def find(self, key: str | None) -> Appended | None:
        known = self._requests.get(key) if key is not None else None
        if known is None or known.there < known.of:
            return None
        return Appended(known.first, known.end, again=True)

    def make_room(self) -> None:
        pass

    def stage(self, key: str | None, lines: Sequence[Stamped]) -> Appended:
        known = self._requests.get(key) if key is not None else None
        there = known.there if known is not None else 0
        first = known.first if known is not None else self.written_end
        for number, one in enumerate(lines[there:], there):
            headers = _headers(key, number, len(lines)) if key is not None else None
            self._kafka.produce(
                self._topic, _value(one), self._key_of(one.record), headers, self._on_delivery
            )
            self.written_end += 1
        if key is not None and lines:
            self._before.setdefault(key, known)
            self._know(key, _Request(first, self.written_end, len(lines), len(lines)))
        return Appended(first, self.written_end)

    def commit(self) -> None:
        self._kafka.flush()
        if self._failure is not None:
            raise self._unavailable()
        if self._delivered != self.written_end:
            raise Unavailable(
                f"Kafka did not confirm every record of {self.dataset} in time",
                hint="publish again",
            )
        self.durable_end = self.written_end
        self._before.clear()

    def cut_back(self) -> None:
        """Find out what the topic has, of what was staged."""
        self.poisoned = True
        self._kafka.renew_if_fatal()
        for key, known in self._before.items():
            del self._requests[key]
            if known is not None:
                self._requests[key] = known
        self._before.clear()
        self._failure = None
        self._catch_up()
        self.poisoned = False

    def roll(self) -> None:
        pass

    def retire(self, below: int) -> None:
        self._kafka.delete_records(self._topic, min(below, self.durable_end))

    def drop(self) -> None:
        self.retire(self.durable_end)
        self._requests.clear()

    def close(self) -> None:
        pass

    def _catch_up(self) -> None:
        """Read what follows the durable end, and take it as durable: Kafka has confirmed it."""
        first, end = self._kafka.reader.bounds(self.dataset)
        start = max(first, self.durable_end)
        for message in self._kafka.reader.messages(self.dataset, start, end):
            offset = message.offset()
            assert offset is not None
            self.last_us = max(self.last_us, _stamp(message.value()))
            self._learn(offset, dict(message.headers() or ()))
        self.durable_end = self.written_end = self._delivered = max(end, self.durable_end)

    def _learn(self, offset: int, headers: dict[str, bytes | str | None]) -> None:
        if "k" not in headers:
            return
        key, number, of = (_text(headers[name]) for name in "kno")
        known = self._requests.get(key)
        if known is None and number != "0":
            return  # its beginning was not looked at: too old to be sent again
        there = known.there if known is not None else 0
        if int(number) == there:  # else it was sent twice, which the writer never does
            first = known.first if known is not None else offset
            self._know(key, _Request(first, offset + 1, there + 1, int(of)))

    def _know(self, key: str, request: _Request) -> None:
        self._requests[key] = request
        while len(self._requests) > MOST_KEYS:
            del self._requests[next(iter(self._requests))]

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failure = self._failure or error
        elif message.offset() != self._delivered:
            self._failure = self._failure or Unavailable(
                f"somebody else wrote to topic {self._topic}",
                hint="let others publish through Tocsin, or into a topic of their own that a"
                " dataset is made FROM",
            )
        else:
            self._delivered += 1

    def _unavailable(self) -> Exception:
        failure = self._failure
        assert failure is not None
        return failure if isinstance(failure, Unavailable) else self._kafka.failure(failure)

    def _key_of(self, record: bytes) -> bytes | None:
        """What Kafka keeps in order, and compacts, by: the dataset's primary key."""
        if not self._primary_key:
            return None
        fields = msgspec.json.decode(record)
        return msgspec.json.encode([fields.get(name) for name in self._primary_key])


def _value(one: Stamped) -> bytes:
    if one.extra is None:
        return b'{"t":%d,"r":%b}' % (one.at_us, one.record)
    return b'{"t":%d,"r":%b,"x":%b}' % (one.at_us, one.record, one.extra)


def _headers(key: str, number: int, of: int) -> list[tuple[str, str | bytes | None]]:
    return [("k", key.encode()), ("n", b"%d" % number), ("o", b"%d" % of)]


def _stamp(value: bytes | str | None) -> int:
    text = value if isinstance(value, bytes) else b""
    if not text.startswith(b'{"t":'):
        return 0
    digits = text[5:].split(b",", 1)[0]
    return int(digits) if digits.isdigit() else 0


def _text(value: bytes | str | None) -> str:
    return value.decode() if isinstance(value, bytes) else value or ""
