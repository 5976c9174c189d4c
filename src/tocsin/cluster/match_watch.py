"""How far writers of matches are, as the cluster sees it that does not take matches itself."""

from __future__ import annotations

import structlog
from confluent_kafka import Consumer, KafkaException, TopicPartition

from tocsin.cluster.match_topic import begin
from tocsin.cluster.matches import NAME, WAITING
from tocsin.cluster.worker import Worker
from tocsin.errors import TocsinError, Unavailable
from tocsin.service.trouble import Troubles
from tocsin.storage.log.kafka import KafkaAddress
from tocsin.storage.log.kafka.clients import WAIT_S
from tocsin.storage.store.matches import Matches

log = structlog.get_logger()

LOOK_S = 2.0


class MatchWatch(Worker):
    """Matches that wait while nobody takes any are trouble: no result comes, wherever the fault
    is."""

    def __init__(self, address: KafkaAddress, matches: Matches) -> None:
        super().__init__("match-watch")
        self._address = address
        self._matches = matches
        self.troubles = Troubles()
        self.waiting = 0

    def start(self) -> None:
        begin(self._address, self._matches)
        super().start()

    def _report(self, error: Exception) -> None:
        if self.troubles.put(NAME, str(error) or type(error).__name__):
            tell = log.warning if isinstance(error, TocsinError) else log.exception
            tell("nobody can say how many matches wait", reason=str(error))

    def _work(self) -> None:
        topic, before = self._address.matches_topic, -1
        group = {"group.id": f"{self._address.prefix}.watch", "enable.auto.commit": False}
        consumer = Consumer(self._address.client(**group))
        try:
            while not self._stopping.is_set():
                up_to = self._matches.read_up_to(topic)
                self._measure(self._end(consumer, topic) - up_to, moved=up_to != before)
                before = up_to
                self._stopping.wait(LOOK_S)
        finally:
            consumer.close()

    def _end(self, consumer: Consumer, topic: str) -> int:
        try:
            _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=WAIT_S)
        except KafkaException as error:
            raise Unavailable(f"Kafka at {self._address.shown}: {error}") from None
        return int(end)

    def _measure(self, waiting: int, *, moved: bool) -> None:
        self.waiting = max(0, waiting)
        WAITING.set(self.waiting)
        if self.waiting == 0 or moved:
            self.troubles.clear(NAME)
        else:
            self.troubles.put(NAME, "no writer takes them: see that tocsin writer runs")
