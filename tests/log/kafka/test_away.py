"""Kafka hangs, dies and comes back: what was acknowledged is there once and in order, and the log
goes on by itself."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from log.media import OnKafka, records
from tocsin.dev.kafka import Kafka as KafkaServer
from tocsin.errors import NotFound, Unavailable, Unconfirmed
from tocsin.storage.log import PublicationLog, Reader, open_reader
from tocsin.storage.log.kafka import Kafka, KafkaAddress

PUBLISHERS = 5
SECRET = "?security.protocol=PLAINTEXT&sasl.username=ann&sasl.password=hush"


@pytest.fixture
def impatient(medium: OnKafka) -> Iterator[PublicationLog]:
    """A log that tells its publishers soon that Kafka is away."""
    address = KafkaAddress.parse(medium.address + SECRET)
    with PublicationLog(Kafka(address, deliver_within_s=0.5)) as log:
        log.open_dataset("reports")
        log.open_dataset("first")
        until(partial(succeeds, log))  # a new producer has to introduce itself
        yield log


def succeeds(log: PublicationLog) -> bool:
    try:
        return log.append("first", [b"{}"], "5e1f").result().end == 1
    except Unavailable:
        return False


class Publisher(threading.Thread):
    """Publishes without pause; what failed is sent again under its key."""

    def __init__(self, log: PublicationLog, who: int) -> None:
        super().__init__(daemon=True)
        self.done = 0
        self.errors: list[str] = []
        self.stopping = False
        self._log = log
        self._who = who

    def run(self) -> None:
        while not self.stopping:
            batch = [b'{"w":%d,"n":%d}' % (self._who, self.done + i) for i in range(3)]
            try:
                self._log.append("reports", batch, f"{self._who}-{self.done}").result()
            except Unavailable as error:
                self.errors.append(str(error))
                time.sleep(0.05)
            else:
                self.done += 3

    def reached(self, goal: int) -> bool:
        return self.done >= goal

    def failed(self, times: int) -> bool:
        return len(self.errors) >= times


def hang(server: KafkaServer) -> None:
    server.pause()


def hang_shortly(server: KafkaServer) -> None:
    server.pause()
    time.sleep(0.2)
    server.resume()


def die(server: KafkaServer) -> None:
    server.kill()


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def test_nothing_is_lost_doubled_or_reordered_when_kafka_goes_and_comes_back(
    medium: OnKafka, impatient: PublicationLog
) -> None:
    publishers = [Publisher(impatient, who) for who in range(PUBLISHERS)]

    def publishing() -> None:
        """Until everybody has got on."""
        for one in publishers:
            until(partial(one.reached, one.done + 10))

    for one in publishers:
        one.start()
    for leave in (hang_shortly, hang, die, hang):
        publishing()
        failed = [len(publisher.errors) for publisher in publishers]
        leave(medium.server)
        if leave is not hang_shortly:
            for one, before in zip(publishers, failed, strict=True):
                until(partial(one.failed, before + 1))
            medium.server.heal()
    publishing()
    for one in publishers:
        one.stopping = True
    for one in publishers:
        one.join()
    found = records(impatient)
    for who, one in enumerate(publishers):
        assert [r["n"] for r in found if r["w"] == who] == list(range(one.done))
        assert all("Kafka at kafka://127.0.0.1" in error for error in one.errors)
        assert all("hush" not in error for error in one.errors)


def test_while_kafka_is_away_nothing_is_certain_and_then_it_is(
    medium: OnKafka, impatient: PublicationLog
) -> None:
    impatient.open_dataset("users")
    until(lambda: impatient.append("reports", [b'{"n":0}'], "0").exception() is None)
    medium.server.pause()
    for dataset in ("reports", "users"):
        with pytest.raises(Unconfirmed, match=r"no confirmation within 0\.5 s") as doubt:
            impatient.append(dataset, [b'{"n":1}'], "5e1f").result()
        assert "not known whether it was taken" in doubt.value.message
        assert "same Idempotency-Key" in str(doubt.value.hint)
        with pytest.raises(Unavailable) as refusal:  # of this one nothing was sent
            impatient.append(dataset, [b'{"n":2}']).result()
        assert not isinstance(refusal.value, Unconfirmed)
    with pytest.raises(Unavailable):  # it may be there already, and was stamped before
        impatient.cut()
    assert impatient.ends() == {"first": 1, "reports": 1, "users": 0}
    medium.server.resume()

    def cut() -> bool:
        try:
            return impatient.cut().ends == {"first": 1, "reports": 2, "users": 1}
        except Unavailable:
            return False

    until(cut)
    assert impatient.append("reports", [b'{"n":1}'], "5e1f").result() == (1, 2, True)
    assert records(impatient) == [{"n": 0}, {"n": 1}]


def test_a_dataset_is_not_taken_for_missing_while_kafka_is_away(
    medium: OnKafka, impatient: PublicationLog
) -> None:
    reader = open_reader(medium.address)
    assert reader.first_position("reports") == 0
    medium.server.kill()
    away_until = time.monotonic() + 8  # then its client no longer trusts what it knew of topics
    while time.monotonic() < away_until:
        with pytest.raises(Unavailable):
            reader.first_position("reports")
    medium.server.heal()
    until(partial(knows, reader, "reports"))
    with pytest.raises(NotFound):
        reader.first_position("nobody_made_this")
    reader.close()


def knows(reader: Reader, dataset: str) -> bool:
    try:
        return reader.first_position(dataset) == 0
    except Unavailable:
        return False


def test_a_log_can_be_closed_while_kafka_is_away(medium: OnKafka) -> None:
    log = PublicationLog(Kafka(medium.kafka, deliver_within_s=0.2))
    log.open_dataset("reports")
    medium.server.pause()
    waiting = log.append("reports", [b"{}"])
    log.close()
    with pytest.raises(Unavailable):
        waiting.result()
