"""Of a request only the first records arrived: it is made whole under its key, and only then."""

from __future__ import annotations

import pytest

from log.kafka.topic import Headers, Topic
from log.media import OnKafka, lines, records
from tocsin.storage.log import PublicationLog
from tocsin.storage.log.kafka import requests

COUNT = 4
RECORDS = [b'{"n":%d}' % n for n in range(COUNT)]


def arrived(topic: Topic, count: int, key: str = "5e1f") -> None:
    """What a writer leaves that died when so many records of a request had been sent."""
    values = [b'{"t":%d,"r":%b}' % (1000 + n, record) for n, record in enumerate(RECORDS)]
    headers: list[Headers] = [
        [("k", key.encode()), ("n", b"%d" % n), ("o", b"%d" % COUNT)] for n in range(COUNT)
    ]
    topic.write(values[:count], headers[:count])


def opened(medium: OnKafka) -> PublicationLog:
    log = medium.open()
    log.open_dataset("reports")
    return log


@pytest.mark.parametrize("others", [False, True])
@pytest.mark.parametrize("count", range(COUNT + 1))
def test_what_is_missing_of_a_request_is_added_when_it_is_sent_again(
    medium: OnKafka, topic: Topic, count: int, others: bool
) -> None:
    opened(medium).close()
    arrived(topic, count)
    with opened(medium) as log:
        if others:
            log.append("reports", [b'{"n":99}'], "other").result()
        before = log.ends()["reports"]
        done = log.append("reports", RECORDS, "5e1f").result()
        assert done.again == (count == COUNT)
        assert log.ends()["reports"] == before + COUNT - count
        assert log.append("reports", RECORDS, "5e1f").result() == (*done[:2], True)
        found = lines(log)
        assert [body["r"]["n"] for _, body in found if body["r"]["n"] != 99] == list(range(COUNT))
        own = [p for p, body in found if body["r"]["n"] != 99]
        assert done[:2] == (own[0], own[-1] + 1)
    with opened(medium) as log:  # as the topic alone tells
        assert log.append("reports", RECORDS, "5e1f").result() == (*done[:2], True)
        assert len(records(log)) == COUNT + others


def test_a_request_is_not_made_whole_by_others(medium: OnKafka, topic: Topic) -> None:
    opened(medium).close()
    arrived(topic, 2)
    with opened(medium) as log:
        for key in ("other", None):
            assert not log.append("reports", RECORDS, key).result().again
        assert len(records(log)) == 2 + 2 * COUNT


def test_two_requests_may_be_in_parts_at_once(medium: OnKafka, topic: Topic) -> None:
    opened(medium).close()
    arrived(topic, 3, "one")
    arrived(topic, 1, "two")
    with opened(medium) as log:
        waiting = [log.append("reports", RECORDS, key) for key in ("two", "one", "two")]
        assert [future.result().again for future in waiting] == [False, False, True]
        assert len(records(log)) == 2 * COUNT


def test_a_request_whose_beginning_is_no_longer_kept_is_new(medium: OnKafka, topic: Topic) -> None:
    with medium.open(forgetful=True) as log:
        log.open_dataset("reports")
        arrived(topic, 2)
    with medium.open(forgetful=True) as log:
        log.open_dataset("reports")
        log.retire("reports", 1)
    with opened(medium) as log:
        done = log.append("reports", RECORDS, "5e1f").result()
        assert done == (2, 2 + COUNT, False)


def test_a_request_without_a_key_has_no_headers(log: PublicationLog, topic: Topic) -> None:
    for key in (None, "5e1f"):
        log.append("reports", RECORDS, key).result()
    found = topic.read(2 * COUNT)
    assert [one.headers() for one in found[:COUNT]] == [None] * COUNT
    assert found[-1].headers() == [("k", b"5e1f"), ("n", b"3"), ("o", b"4")]


def test_the_oldest_keys_are_forgotten_first(
    medium: OnKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "MOST_KEYS", 3)
    with opened(medium) as log:
        for n in range(4):
            log.append("reports", RECORDS, f"key-{n}").result()
    with opened(medium) as log:
        again = [log.append("reports", RECORDS, f"key-{n}").result().again for n in (3, 2, 1)]
        assert again == [True] * 3
        assert not log.append("reports", RECORDS, "key-0").result().again


def test_a_beginning_that_is_there_twice_is_not_taken_for_the_whole(
    medium: OnKafka, topic: Topic
) -> None:
    opened(medium).close()
    for _ in range(2):
        arrived(topic, COUNT // 2)
    with opened(medium) as log:
        assert not log.append("reports", RECORDS, "5e1f").result().again
        assert [record["n"] for record in records(log)] == [0, 1, 0, 1, 2, 3]
