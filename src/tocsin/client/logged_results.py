"""`consumer_log`: a subscription's results from its consumer log in Kafka, in order, once each.

    with consumer_log("kafka://127.0.0.1:9092/tocsin", subscription, after=marker) as results:
        for result in results:
            print(result.value)
            results.ack(result)

Any Kafka client can read such a log; this one also asks for what is missing in it, follows
references into the shared log, and remembers in Kafka what was acknowledged.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from typing import Any, Self

import msgspec
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from msgspec import Struct

from tocsin.client.http import Token, current
from tocsin.client.log_order import LogOrder
from tocsin.errors import InvalidInput, NotFound, Unavailable
from tocsin.protocol import numbers
from tocsin.protocol.consumer_log import LogRecord, MissingResults, decode_log_record, encode
from tocsin.storage.log.kafka import KafkaAddress, unavailable

log = logging.getLogger("tocsin.client")

WAIT_S = 10.0
ASK_AGAIN_S = 3.0
READ_AT_ONCE = 500
TRIES = 5
READ_ON = 200  # values of others that are rather read than jumped over


class LoggedResult(Struct, frozen=True):
    """One result: made `at`, written into the log at `logged_at`, read here at `arrived_at`.
    `filled`: the log lacked it, and it was fetched from the store. `lost` says which positions just
    before it are no longer kept by anybody. `too_large`: the bytes of a value that no log takes;
    it is None here."""

    value: Any
    position: int
    at: float
    lost: tuple[int, int] | None = None
    filled: bool = False
    logged_at: float = 0.0
    arrived_at: float = 0.0
    too_large: int = 0


def consumer_log(
    log: str, subscription: int, after: int | None = None, *, token: Token | None = None
) -> ConsumerLog:
    """Results of the subscription after a position.

    `log` is the cluster's own setting. Without `after` it goes on behind the last result that was
    acknowledged; the first time, give the `marker` that SUBSCRIBE answered with. `token` is the
    subscriber's: where grants decide, what the log lacks is fetched for no one else.
    """
    return ConsumerLog(KafkaAddress.parse(log), subscription, after, token)


class ConsumerLog:
    """Iterate over it, from one thread."""

    def __init__(
        self,
        address: KafkaAddress,
        subscription: int,
        after: int | None,
        token: Token | None = None,
    ) -> None:
        self._address = address
        self._token = token
        self._subscription = subscription
        self._topic = address.consumer_topic(subscription)
        self._consumer = _consumer(address, f"{self._topic}.consumer")
        self._producer = Producer(address.client(**{"linger.ms": 5}))
        self._shared = _SharedValues(address)
        self._stuck_since: float | None = None
        self._heard_at = time.monotonic()
        self._bytes_read = 0
        try:
            self._require()
            self._order = LogOrder(self._resume(after))
        except BaseException:
            self.close()
            raise

    @property
    def bytes_read(self) -> int:
        """Of values, references and marks, needed or not."""
        return self._bytes_read + self._shared.bytes_read

    def take(self, limit_s: float | None = None) -> LoggedResult | None:
        """The next result; None if none came in time."""
        ends_at = None if limit_s is None else time.monotonic() + limit_s
        while True:
            result = self._next()
            if result is not None:
                return result
            left_s = 0.5 if ends_at is None else ends_at - time.monotonic()
            if left_s <= 0:
                return None
            self._read(min(left_s, 0.5))
            self._ask()

    def ack(self, result: LoggedResult) -> None:
        """Everything up to this one is done with: a later `consumer_log` goes on behind it."""
        offset = self._order.acknowledge(result.position)
        place = TopicPartition(self._topic, 0, offset, str(result.position))
        self._consumer.commit(offsets=[place], asynchronous=True)

    def close(self) -> None:
        self._consumer.close()
        self._shared.close()

    def __iter__(self) -> Iterator[LoggedResult]:
        return self

    def __next__(self) -> LoggedResult:
        result = self.take()
        assert result is not None
        return result

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _resume(self, after: int | None) -> int:
        """Begin to read where everything that is wanted is still ahead."""
        try:
            (known,) = self._consumer.committed([TopicPartition(self._topic, 0)], timeout=WAIT_S)
        except KafkaException as error:
            raise unavailable(self._address, error.args[0]) from None
        acknowledged = int(known.metadata) if known.offset >= 0 and known.metadata else None
        if after is None and acknowledged is None:
            raise InvalidInput(
                f"nothing of subscription {self._subscription} was acknowledged yet",
                field="after",
                hint="say after which position to begin: SUBSCRIBE answers with the marker",
            )
        start = OFFSET_BEGINNING
        if acknowledged is not None and (after is None or after >= acknowledged):
            start = known.offset
        self._consumer.assign([TopicPartition(self._topic, 0, start)])
        return after if after is not None else acknowledged or 0

    def _next(self) -> LoggedResult | None:
        taken = self._order.pop()
        if taken is None:
            return None
        record: LogRecord
        record, logged_at, arrived_at = taken.item
        value: Any = record.value
        if record.shared is not None:
            value = self._shared.get(record.channel, record.shared)
            if value is None:
                self._order.put_back(taken)
                return None
        self._stuck_since = None
        return LoggedResult(
            numbers.decode(value),
            record.position,
            record.at,
            taken.lost,
            taken.filled,
            logged_at,
            arrived_at,
            record.too_large,
        )

    def _read(self, wait_s: float) -> None:
        first = self._consumer.poll(wait_s)
        if first is None:
            if time.monotonic() - self._heard_at > WAIT_S:
                self._heard_at = time.monotonic()
                self._require()
            return
        self._heard_at = time.monotonic()
        messages = [first, *self._consumer.consume(READ_AT_ONCE, timeout=0)]
        arrived_at = time.time()
        for message in messages:
            failure = message.error()
            if failure is None:  # any other passes, or is met again
                self._put(message, arrived_at)

    def _put(self, message: Message, arrived_at: float) -> None:
        value, offset = message.value() or b"", message.offset()
        assert offset is not None
        self._bytes_read += len(value)
        try:
            record = decode_log_record(value)
        except msgspec.DecodeError as error:  # a result that is hidden by it is asked for again
            log.warning(
                "%s has a record at %d that is not Tocsin's: %s", self._topic, offset, error
            )
            return
        if record.expired:
            self._order.expired(record.position, offset)
        elif not record.is_result:
            self._order.mark(record.position, offset)
        else:
            logged_at = message.timestamp()[1] / 1000
            self._order.put(record.position, offset, (record, logged_at, arrived_at))

    def _ask(self) -> None:
        """Say what is missing, and say it again while it does not come."""
        now = time.monotonic()
        if self._order.complete:
            self._stuck_since = None
        elif self._stuck_since is None:
            self._stuck_since = now
        elif now - self._stuck_since > ASK_AGAIN_S:
            self._stuck_since = now
            self._order.ask_again()
        for after, upto in self._order.holes():
            token = current(self._token) if self._token is not None else ""
            missing = MissingResults(self._subscription, after, upto, token)
            self._producer.produce(self._address.missing_topic, encode(missing))
        self._producer.poll(0)

    def _require(self) -> None:
        """Kafka's clients wait in silence for a topic that is not there. One that was just made is
        not known everywhere at once."""
        for _ in range(TRIES):
            try:
                topic = self._consumer.list_topics(self._topic, timeout=WAIT_S).topics[self._topic]
            except KafkaException as error:
                raise unavailable(self._address, error.args[0]) from None
            if topic.error is None:
                return
            time.sleep(0.5)
        raise NotFound(
            f"subscription {self._subscription} has no consumer log",
            field="subscription",
            hint="it ended, or its channel does not DELIVER TO CONSUMER LOGS",
        )


class _SharedValues:
    """Values by their offset in a channel's shared log."""

    def __init__(self, address: KafkaAddress) -> None:
        self._address = address
        self._consumer: Consumer | None = None
        self._topic = ""
        self._at = -1  # the offset that is read next
        self._got: tuple[int, bytes] = (-1, b"")
        self.bytes_read = 0

    def get(self, channel: str, offset: int) -> bytes | None:
        """None: it is no longer kept there."""
        if self._got[0] == offset:
            return self._got[1]
        consumer = self._consumer_at(self._address.shared_topic(channel), offset)
        gives_up_at = time.monotonic() + WAIT_S
        while time.monotonic() < gives_up_at:  # the value may be committed a moment after us
            message = consumer.poll(0.5)
            if message is None or message.error() is not None:
                if self._left(consumer, offset):
                    return None
                continue
            message_offset, value = message.offset(), message.value() or b""
            assert message_offset is not None
            self._at = message_offset + 1
            self.bytes_read += len(value)
            if message_offset >= offset:
                self._got = message_offset, value
                return value if message_offset == offset else None
        self._at = -1
        raise Unavailable(f"{self._topic} does not answer", hint="is Kafka running?")

    def _left(self, consumer: Consumer, offset: int) -> bool:
        """Nothing newer may be there to show that it is no longer kept."""
        try:
            first, _ = consumer.get_watermark_offsets(TopicPartition(self._topic, 0), timeout=1.0)
        except KafkaException:
            return False
        return int(first) > offset

    def _consumer_at(self, topic: str, offset: int) -> Consumer:
        if self._consumer is None:
            self._consumer = _consumer(self._address, f"{topic}.consumer")
        if topic != self._topic or not self._at <= offset <= self._at + READ_ON:
            self._consumer.assign([TopicPartition(topic, 0, offset)])
            self._topic, self._at = topic, offset
        return self._consumer

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()


def _consumer(address: KafkaAddress, group: str) -> Consumer:
    return Consumer(
        address.client(
            **{
                "group.id": group,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
            }
        )
    )
