"""Kafka lets anybody produce: who was replaced keeps itself from it, and acknowledges nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable

import pytest

from log.media import OnKafka, records
from tocsin.dev.postgresql import PostgreSQL
from tocsin.errors import Unavailable, Unconfirmed
from tocsin.storage.log import PublicationLog, open_log
from tocsin.storage.log.kafka import Kafka
from tocsin.storage.store.store import Store

PUBLISHER = """
import sys
from tocsin.errors import TocsinError
from tocsin.storage.log import open_log
from tocsin.storage.store.store import Store

store = Store.open(sys.argv[1], lease_s=2.0)
log = open_log(sys.argv[2], segment_bytes=1, owner=store.mark, leadership=store.lease)
log.open_dataset("reports")
number = 0
while True:
    try:
        log.append("reports", [b'{"old": %d}' % number], f"old-{number}").result()
    except TocsinError as error:
        print("refused", error.code, flush=True)
        sys.exit(2)
    print("taken", number, flush=True)
    number += 1
"""


class Leader:
    """Held until a test says otherwise; or for so many questions more."""

    def __init__(self) -> None:
        self.on_lapse: Callable[[], None] = lambda: None
        self.questions: float = float("inf")

    def require(self) -> None:
        self.questions -= 1
        if self.questions < 0:
            raise Unavailable("the lease has lapsed")


@pytest.fixture
def leader() -> Leader:
    return Leader()


def opened(medium: OnKafka, leader: Leader) -> PublicationLog:
    log = PublicationLog(Kafka(medium.kafka, leadership=leader, deliver_within_s=2.0))
    log.open_dataset("reports")
    return log


def test_without_leadership_nothing_is_produced(medium: OnKafka, leader: Leader) -> None:
    with opened(medium, leader) as log:
        log.append("reports", [b'{"n":1}'], "1").result()
        leader.questions = 0
        with pytest.raises(Unavailable, match="lapsed") as refused:
            log.append("reports", [b'{"n":2}'], "2").result()
        assert not isinstance(refused.value, Unconfirmed)
        assert records(log) == [{"n": 1}]
        leader.questions = float("inf")
        log.append("reports", [b'{"n":2}'], "2").result()
        assert records(log) == [{"n": 1}, {"n": 2}]


def test_what_was_confirmed_after_the_leadership_lapsed_is_not_acknowledged(
    medium: OnKafka, leader: Leader
) -> None:
    """Who follows may have looked before it came, and would take a repeat for another."""
    with opened(medium, leader) as log:
        leader.questions = 1  # to stage it
        with pytest.raises(Unconfirmed, match="lapsed"):
            log.append("reports", [b'{"n":1}'], "1").result()
        leader.questions = float("inf")
        log.append("reports", [b'{"n":1}'], "1").result()
        assert records(log) == [{"n": 1}]


def test_what_has_not_left_when_the_leadership_lapses_never_does(
    medium: OnKafka, leader: Leader
) -> None:
    with opened(medium, leader) as log:
        log.append("reports", [b'{"n":1}'], "1").result()
        medium.server.kill()
        waiting = log.append("reports", [b'{"n":2}'], "2")
        with pytest.raises(Unconfirmed):
            waiting.result()
        leader.questions = 0
        leader.on_lapse()
        medium.server.start()
        leader.questions = float("inf")
        while not _taken(log):
            time.sleep(0.05)
        assert records(log) == [{"n": 1}, {"n": 3}]


def _taken(log: PublicationLog) -> bool:
    try:
        log.append("reports", [b'{"n":3}'], "3").result()
    except Unavailable:
        return False
    return True


@pytest.mark.processes
@pytest.mark.timeout(180)
def test_a_frozen_publisher_that_wakes_doubles_and_loses_nothing_acknowledged(
    medium: OnKafka, postgresql: PostgreSQL
) -> None:
    store_url = postgresql.fresh()
    old = subprocess.Popen(
        [sys.executable, "-c", PUBLISHER, store_url, medium.address],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert old.stdout is not None
    said = [old.stdout.readline() for _ in range(20)]
    old.send_signal(signal.SIGSTOP)
    try:
        with (
            Store.open(store_url, lease_s=2.0) as store,
            open_log(
                medium.address, segment_bytes=1, owner=store.mark, leadership=store.lease
            ) as log,
        ):
            log.open_dataset("reports")
            for number in range(5):
                log.append("reports", [b'{"new":%d}' % number], f"new-{number}").result()
            old.send_signal(signal.SIGCONT)
            rest = old.stdout.read()
            assert old.wait(60) == 2
            assert any(f"refused {code}" in rest for code in ("unconfirmed", "not_leading"))
            taken = [*said, *rest.splitlines(keepends=True)]
            acknowledged = {int(line.split()[1]) for line in taken if line.startswith("taken")}
            while True:
                try:
                    log.append("reports", [b'{"new":5}'], "new-5").result()
                    break
                except Unavailable:  # what the old one had under way came between
                    continue
            counts = Counter(
                (name, number) for record in records(log) for name, number in record.items()
            )
            assert {counts["old", number] for number in acknowledged} == {1}
            assert [counts["new", number] for number in range(5)] == [1] * 5
    finally:
        old.kill()
        old.communicate()
