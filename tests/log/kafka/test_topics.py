"""Topics are the log's own, made as it needs them; what others do to them is told and healed."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from log.kafka.topic import Topic
from log.media import OnKafka, records
from tocsin.errors import SettingError, TooLarge, Unavailable
from tocsin.storage.identity import Mark
from tocsin.storage.log import PublicationLog, open_log, open_reader
from tocsin.storage.log.kafka import KafkaAddress, topics
from tocsin.system.ports import free_port

ALIEN = [b'{"n":7}', b"", None, b"\xff\xfe", b'{"t":1}', b'{"t":1,"r":7}', b"{" * 100]


def append(log: PublicationLog, n: int, key: str | None = None) -> Any:
    return log.append("reports", [b'{"n":%d}' % n], key).result()


def test_what_somebody_else_writes_is_told_and_passed_over(
    log: PublicationLog, topic: Topic
) -> None:
    append(log, 0)
    topic.write(ALIEN)
    with pytest.raises(Unavailable, match="somebody else wrote to topic"):
        append(log, 1, "5e1f")
    place = len(ALIEN) + 1
    assert append(log, 1, "5e1f") == (place, place + 1, True)
    assert append(log, 2) == (place + 1, place + 2, False)
    assert [record["n"] for record in records(log)] == [0, 1, 2]
    reader = open_reader(log.address)
    seen, start = [], 0
    while start < place + 2:
        for new in reader.news({"reports": start}, 100).values():
            seen += [position for position, _ in new.lines]
            start = new.end
    reader.close()
    assert seen == [0, place, place + 1]


def test_a_topic_that_lost_records_is_not_written_to(log: PublicationLog, topic: Topic) -> None:
    for n in range(5):
        append(log, n)
    topic.delete()
    topic.create()
    for _ in range(2):
        with pytest.raises(Unavailable):
            append(log, 5, "5e1f")
    with pytest.raises(Unavailable, match=r"ends at \d and had 5 records"):
        append(log, 5, "5e1f")


def test_topics_of_another_cluster_are_refused(medium: OnKafka) -> None:
    ours, theirs = Mark("0" * 32, "sqlite:///ours.db"), Mark("1" * 32, "sqlite:///theirs.db")
    for _ in range(2):
        open_log(medium.address, segment_bytes=1, owner=ours).close()
    with pytest.raises(SettingError, match=r"belongs to sqlite:///ours\.db") as refused:
        open_log(medium.address, segment_bytes=1, owner=theirs)
    assert refused.value.field == "log"
    assert "sqlite:///theirs.db" in refused.value.message
    open_log(medium.address + "2", segment_bytes=1, owner=theirs).close()


def test_topics_that_were_marked_by_an_id_alone_are_known(medium: OnKafka) -> None:
    kafka = KafkaAddress.parse(medium.address)
    owner = Topic(medium.server, kafka.owner_topic)
    owner.create()
    owner.write([b"0" * 32])
    open_log(medium.address, segment_bytes=1, owner=Mark("0" * 32)).close()
    with pytest.raises(SettingError, match="identity 00000000"):
        open_log(medium.address, segment_bytes=1, owner=Mark("1" * 32))


def test_the_primary_key_is_the_key_of_the_message(
    medium: OnKafka, log: PublicationLog, topic: Topic
) -> None:
    log.open_dataset("users", ("id", "at"))
    log.append("users", [b'{"n":1,"at":null,"id":"a\\"b"}', b'{"id":2}']).result()
    append(log, 0)
    users = Topic(medium.server, medium.kafka.topic("users"))
    assert [one.key() for one in users.read(2)] == [b'["a\\"b",null]', b"[2,null]"]
    assert [one.key() for one in topic.read(1)] == [None]


def test_a_record_as_large_as_allowed_is_taken_and_a_larger_one_told(medium: OnKafka) -> None:
    limit_bytes = 3_000_000
    with open_log(medium.address, segment_bytes=1, record_limit_bytes=limit_bytes) as log:
        log.open_dataset("reports", ("s",))
        largest = b'{"s":"%b"}' % (b"x" * (limit_bytes - 8))
        assert len(largest) == limit_bytes
        beyond = b'{"s":"%b"}' % (b"x" * 2 * limit_bytes)
        with medium.held():  # all are in one commit
            first = log.append("reports", [b"{}"])
            small, large = log.append("reports", [b"{}"]), log.append("reports", [largest])
            larger = log.append("reports", [b"{}", beyond])
            last = log.append("reports", [b"{}"])
        assert [one.result(30).first for one in (first, small, large, last)] == [0, 1, 2, 3]
        with pytest.raises(TooLarge, match="record_limit_bytes"):
            larger.result(30)
        assert len(records(log)) == 4


def test_a_topic_made_for_smaller_records_is_made_to_take_larger_ones(
    medium: OnKafka, topic: Topic
) -> None:
    topic.create(max_message_bytes="5000")
    with medium.open() as log:
        log.open_dataset("reports")
        log.append("reports", [b'{"s":"%b"}' % (b"x" * 100_000)]).result()
    assert int(topic.config("max.message.bytes")) > 2**20


def test_a_topic_is_kept_until_tocsin_deletes(log: PublicationLog, topic: Topic) -> None:
    assert topic.config("retention.ms") == "-1"
    assert topic.config("cleanup.policy") == "delete"


@pytest.mark.parametrize("options", ["no.such.option=1", "security.protocol=nonsense"])
def test_options_that_kafkas_client_does_not_know_are_refused(options: str) -> None:
    with pytest.raises(SettingError, match="refuses") as refused:
        open_log(f"kafka://h:1?{options}&sasl.password=hush", segment_bytes=1)
    assert refused.value.field == "log"
    assert "hush" not in str(refused.value)


def test_a_kafka_that_is_not_there_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "WAIT_S", 0.5)
    address = f"kafka://127.0.0.1:{free_port()}"
    with (
        open_log(address, segment_bytes=1) as log,
        pytest.raises(Unavailable, match=f"Kafka at {address} cannot answer"),
    ):
        log.open_dataset("reports")


QUIET = """
import sys
from tocsin.storage.log import open_log
from tocsin.storage.log.kafka import topics
topics.WAIT_S = 1.5
try:
    open_log(sys.argv[1], segment_bytes=1).open_dataset("reports")
except Exception as error:
    print(error)
"""


@pytest.mark.processes
def test_librdkafka_writes_nothing_past_us() -> None:
    address = KafkaAddress.parse(f"kafka://ann:hush@127.0.0.1:{free_port()}")
    done = subprocess.run(
        [sys.executable, "-c", QUIET, address.text], capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    assert "cannot answer" in done.stdout
    assert "hush" not in done.stdout
