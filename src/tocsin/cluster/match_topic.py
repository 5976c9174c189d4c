"""The topic of matches as its reader keeps it: what was stored long ago is deleted, and what
somebody else has deleted is told."""

from __future__ import annotations

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from tocsin.errors import Gone, TocsinError
from tocsin.storage.log.kafka import KafkaAddress, Topics
from tocsin.storage.log.kafka.clients import WAIT_S
from tocsin.storage.store.match_progress import Place
from tocsin.storage.store.matches import Matches

log = structlog.get_logger()

KEPT_S = 3600.0  # behind what was stored: a backup that began before must still find what it needs
TIDY_EVERY_S = 600.0
OUT_OF_RANGE = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)


def begin(address: KafkaAddress, matches: Matches) -> Place:
    """For the cluster that has the store: the topic is there, and so is its row."""
    Topics(address).ensure(address.matches_topic)
    return matches.begin(address.matches_topic)[0]


class MatchTopic:
    """Deletes what was stored, an hour later."""

    def __init__(self, address: KafkaAddress, consumer: Consumer) -> None:
        self._topics = Topics(address)
        self._consumer = consumer
        self._next_at = 0.0

    def tidy(self, place: Place, now: float) -> None:
        """Now and then. What cannot be deleted now is deleted another time."""
        if now < self._next_at:
            return
        self._next_at = now + TIDY_EVERY_S
        try:
            before = min(place.up_to, self._offset_at(place, now - KEPT_S))
            first, _ = self._consumer.get_watermark_offsets(_of(place), timeout=WAIT_S)
            if before > first:
                self._topics.delete_records(place.topic, before, place.partition)
        except (KafkaException, TocsinError) as error:
            log.warning("matches that were stored are not deleted yet", reason=str(error))

    def _offset_at(self, place: Place, at: float) -> int:
        """Of the first message that was written then or later; without any, of what comes next."""
        asked = TopicPartition(place.topic, place.partition, int(at * 1000))
        (answer,) = self._consumer.offsets_for_times([asked], timeout=WAIT_S)
        return place.up_to if answer.offset < 0 else int(answer.offset)


def hole(consumer: Consumer, place: Place) -> Gone:
    """What is to be read next is not there: somebody has deleted it, or the whole topic."""
    first, end = consumer.get_watermark_offsets(_of(place), timeout=WAIT_S)
    return Gone(
        f"matches from offset {place.up_to} of {place.topic} are to be stored next, and Kafka has"
        f" those from {first} up to {end}: the others were deleted, and nobody was told of them",
        hint="docs/how-to/repair.md says how to go on",
    )


def _of(place: Place) -> TopicPartition:
    return TopicPartition(place.topic, place.partition)
