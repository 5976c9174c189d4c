"""A Kafka cluster as the medium of a publication log: one producer for all datasets.

Everything is confirmed by all in-sync replicas (`acks=all`) before a publisher gets its answer. The
producer is idempotent and never gives up: however long Kafka is away, what was produced is there
once and in order when it is back, and until then nothing is acknowledged.

Kafka lets anybody produce, so a process that was replaced has to keep itself from it: it produces
and acknowledges under its leadership only, and drops what has not left when that lapses. What is
acknowledged was therefore there before the next process looked. What a process had in its queue
when it was frozen may come later still: nobody was told that it was taken, and who follows finds it
as another's (`KafkaDataset`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tocsin.errors import Unavailable
from tocsin.protocol import log_line
from tocsin.storage.identity import Mark, belongs_to_another
from tocsin.storage.log.kafka.address import FIELD, RECORD_LIMIT_BYTES, KafkaAddress
from tocsin.storage.log.kafka.clients import WAIT_S, chatter, refused_options, unavailable
from tocsin.storage.log.kafka.dataset import KafkaDataset
from tocsin.storage.log.kafka.reader import KafkaReader
from tocsin.storage.log.kafka.topics import Topics
from tocsin.storage.log.port import Leadership

_logger = structlog.get_logger(__name__)

BATCH_BYTES = 16 * 1024 * 1024
REMEMBERED = 100_000  # the newest records stay for the keys in them

Delivered = Callable[[KafkaError | None, Message], None]


class Kafka:
    batch_bytes = BATCH_BYTES

    def __init__(
        self,
        address: KafkaAddress,
        *,
        owner: Mark | None = None,
        leadership: Leadership | None = None,
        record_limit_bytes: int = RECORD_LIMIT_BYTES,
        remembered: int = REMEMBERED,
        deliver_within_s: float = WAIT_S,
    ) -> None:
        """`owner`: whose log this is, refused if it is somebody else's."""
        self.at = address
        self.largest_bytes = 2 * record_limit_bytes + 10_000  # with a key as long as the record
        self.remembered = remembered
        self._deliver_within_s = deliver_within_s
        self._deadline = 0.0
        self._reason = ""  # why Kafka did not answer, as far as the producer knows
        self._fatal = False
        self._risks: dict[str, str] = {}  # what to tell, by setting
        self._leadership = leadership
        address.java()  # an option that Spark does not know is refused before anything is written
        try:
            self.topics = Topics(address)
            self.reader = KafkaReader(address)
            self._producer = self._new_producer()
        except KafkaException as error:
            raise refused_options(address, error) from None
        if leadership is not None:
            leadership.on_lapse = self.abandon
        if owner is not None:
            self._claim(owner)

    @property
    def address(self) -> str:
        return self.at.text

    @property
    def warnings(self) -> Sequence[str]:
        return tuple(self._risks.values())

    def known_us(self) -> int:
        return 0  # the newest record of each topic has it

    def open(self, dataset: str, primary_key: Sequence[str]) -> KafkaDataset:
        opened = KafkaDataset(self, dataset, primary_key)
        self._warn(self.at.topic(dataset))
        return opened

    def _warn(self, topic: str) -> None:
        """Of each way to lose records once, though other topics may have it too."""
        for risk in self.topics.risks(topic):
            if risk.setting not in self._risks:
                self._risks[risk.setting] = (
                    f"Kafka's topic {topic} may lose records that were acknowledged:"
                    f" {risk.setting}, so that {risk.loses}; {risk.fix}"
                )
                _logger.warning(
                    "Kafka may lose records that were acknowledged",
                    topic=topic,
                    setting=risk.setting,
                    because=risk.loses,
                    fix=risk.fix,
                )

    def show(self, ends: Mapping[str, int], last_us: int, *, sync: bool) -> None:
        """Nothing: readers ask Kafka."""

    def close(self) -> None:
        self.flush()
        self._producer.purge()
        self.reader.close()

    def produce(
        self,
        topic: str,
        value: bytes,
        key: bytes | None,
        headers: list[log_line.Header] | None,
        on_delivery: Delivered,
    ) -> None:
        if not len(self._producer):
            self._deadline = time.monotonic() + self._deliver_within_s
        while True:
            try:
                self._producer.produce(
                    topic, value, key, partition=0, headers=headers, on_delivery=on_delivery
                )
            except BufferError:  # the producer's own queue is full: let it send
                self._producer.poll(0.1)
                if time.monotonic() > self._deadline:
                    raise self.unconfirmed() from None
            except KafkaException as error:
                raise self.failure(error.args[0]) from None
            else:
                return

    def flush(self) -> None:
        """Wait until everything produced is confirmed; not longer than was promised for it."""
        self._producer.flush(max(0.0, self._deadline - time.monotonic()))

    def require_leadership(self) -> None:
        if self._leadership is not None:
            self._leadership.require()

    def abandon(self) -> None:
        """Send nothing more of what was produced. Called on any thread."""
        self._fatal = True  # what was on its way leaves a gap, so another producer takes its place
        self._producer.purge()

    def failure(self, error: KafkaError) -> Unavailable:
        self._fatal = self._fatal or error.fatal()
        return unavailable(self.at, error)

    def unconfirmed(self) -> Unavailable:
        waited = f"no confirmation within {self._deliver_within_s:g} s"
        return unavailable(self.at, f"{waited}; {self._reason}" if self._reason else waited)

    def renew_if_fatal(self) -> None:
        if self._fatal:
            _logger.warning("log.producer_renewed", kafka=self.at.shown)
            self._producer.purge()
            self._producer = self._new_producer()
            self._fatal = False

    def _claim(self, owner: Mark) -> None:
        """Two clusters on one prefix would write into, and drop, each other's datasets. The first
        who says that it is theirs has it."""
        topic = self.at.owner_topic
        self.topics.ensure(topic, self.largest_bytes)
        first, end = self.reader.bounds(topic)
        if first == end:
            outcomes: list[KafkaError | None] = []
            mark = owner.now().encode()
            self.produce(topic, mark, None, None, lambda error, _: outcomes.append(error))
            self.flush()
            if outcomes != [None]:
                raise self.failure(outcomes[0]) if outcomes and outcomes[0] else self.unconfirmed()
        (known,) = self.reader.messages(topic, first, first + 1)
        theirs = Mark.decode(known.value() or b"")
        if theirs.id != owner.id:
            what = f"the prefix {self.at.prefix} of Kafka at {self.at.shown}"
            raise belongs_to_another(what, owner, theirs, FIELD)

    def _new_producer(self) -> Producer:
        return Producer(
            self.at.client(
                **{
                    "acks": "all",
                    "enable.idempotence": True,
                    "message.timeout.ms": 0,  # never: what was sent may be there already
                    "linger.ms": 1000,  # the log gathers by itself, and a flush does not wait
                    "compression.type": "lz4",
                    "message.max.bytes": self.largest_bytes,
                    "queue.buffering.max.messages": 1_000_000,
                    "error_cb": self._on_error,
                }
            )
        )

    def _on_error(self, error: KafkaError) -> None:
        chatter(error)
        self._reason = error.str()
