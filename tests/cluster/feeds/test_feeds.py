"""A dataset fed from a topic that others fill: each of its records once, whatever is in it."""

from __future__ import annotations

import random
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions
from confluent_kafka.cimpl import TopicPartition
from prometheus_client import REGISTRY

from cluster.feeds.bench import Bench, until
from log.kafka.topic import Topic
from log.media import OnKafka
from tocsin.cluster.feeds import Feeds
from tocsin.cluster.feeds import feed as module
from tocsin.cluster.feeds.topic import ForeignTopic
from tocsin.dev.kafka import Kafka
from tocsin.errors import InvalidInput, NotFound, SettingError
from tocsin.model import Dataset, KafkaSource
from tocsin.settings import Settings
from tocsin.storage.log.kafka import KafkaAddress, topics
from tocsin.storage.store.feeds import Place


async def test_every_partition_is_read_from_its_first_record_in_order(
    kafka: Kafka, tmp_path: Path
) -> None:
    bench = Bench(kafka, tmp_path)
    for partition in range(3):
        bench.write(partition, *range(50))
    async with bench:
        await until(lambda: len(bench.records()) == 150)
        for partition in range(3):
            assert bench.numbers(partition) == list(range(50))
        bench.write(1, 50)
        await until(lambda: bench.numbers(1) == list(range(51)))
        await until(lambda: bench.state == "up to date")
        assert bench.records("dead_letters") == []


async def test_what_is_no_record_is_a_dead_letter_and_stops_nothing(
    kafka: Kafka, tmp_path: Path
) -> None:
    poison = [b"\xff\xfe", b"not json", None, b"[1]", b'{"n":"x"}', b'{"m":1}', b"", b'{"n":1}{']
    bench = Bench(kafka, tmp_path, partitions=2)
    bench.write(1, 0)
    bench.topic.write(poison, partition=1)
    bench.write(1, 1)
    async with bench:
        await until(lambda: bench.numbers(1) == [0, 1])
        await until(lambda: len(bench.records("dead_letters")) == len(poison))
        letters = bench.records("dead_letters")
    assert {(letter["dataset"], letter["publisher"], letter["source"]) for letter in letters} == {
        ("reports", "kafka", f"kafka:{bench.topic.name}/1")
    }
    assert [letter["line"] for letter in letters] == list(range(1, len(poison) + 1))  # the offset
    assert [letter.get("field") for letter in letters] == [None] * 4 + ["n", "m", None, None]
    assert letters[1]["record"] == "not json"
    assert letters[2]["reason"] == "the message has no value"


async def test_csv_has_no_header_and_takes_the_columns_in_order(
    kafka: Kafka, tmp_path: Path
) -> None:
    bench = Bench(kafka, tmp_path, partitions=1, form="csv")
    bench.topic.write([b"1,2", b'"3",4\r\n', b",5", b"p,n", b"1", b"1,2\n3,4", b'"', b"\xff,1"])
    async with bench:
        await until(lambda: len(bench.records("dead_letters")) == 5)
        assert bench.records() == [{"p": 1, "n": 2}, {"p": 3, "n": 4}, {"n": 5}]


async def test_what_an_aborted_transaction_left_is_not_read(kafka: Kafka, tmp_path: Path) -> None:
    bench = Bench(kafka, tmp_path, partitions=1)
    producer = Producer(
        {"bootstrap.servers": kafka.address, "transactional.id": bench.topic.name, "log_level": 0}
    )
    producer.init_transactions(60)
    for number in range(6):
        producer.begin_transaction()
        producer.produce(bench.topic.name, bench.value(0, number), partition=0)
        producer.flush(60)
        if number % 2:
            producer.commit_transaction(60)
        else:
            producer.abort_transaction(60)
    for _ in range(2):  # again from between the gaps
        async with bench:
            await until(lambda: bench.numbers() == [1, 3, 5])
            await until(lambda: bench.state == "up to date")


async def test_partitions_that_come_later_are_read_too(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_INTERVAL_S", 0.2)
    async with Bench(kafka, tmp_path, partitions=1) as bench:
        bench.write(0, 1)
        await until(lambda: bench.numbers() == [1])
        admin = AdminClient({"bootstrap.servers": kafka.address, "log_level": 0})
        admin.create_partitions([NewPartitions(bench.topic.name, 3)])[bench.topic.name].result(60)
        await until(lambda: len(bench.topic.partitions()) == 3)
        bench.write(2, 1, 2)
        bench.write(0, 2)
        await until(lambda: (bench.numbers(0), bench.numbers(2)) == ([1, 2], [1, 2]))


async def test_a_restarted_feed_goes_on_where_it_was(kafka: Kafka, tmp_path: Path) -> None:
    bench = Bench(kafka, tmp_path)
    expected: dict[int, list[int]] = {0: [], 1: [], 2: []}

    def write(*numbers: int) -> None:
        for partition, written in expected.items():
            bench.write(partition, *numbers)
            written += numbers

    for start in (0, 10, 20):
        async with bench:
            write(*range(start, start + 9))
            await until(lambda: {p: bench.numbers(p) for p in expected} == expected)
        write(start + 9)  # while nobody reads
    async with bench:
        await until(lambda: {p: bench.numbers(p) for p in expected} == expected)


async def test_a_topic_that_goes_is_waited_for_and_one_made_anew_is_read_from_its_start(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOOK_INTERVAL_S", 0.2)
    async with Bench(kafka, tmp_path, partitions=1) as bench:
        bench.write(0, *range(20))
        await until(lambda: bench.numbers() == list(range(20)))
        bench.topic.delete()
        await until(lambda: "has no topic" in bench.state)
        assert bench.state.startswith("waits: ")
        assert REGISTRY.get_sample_value("tocsin_feed_waiting", {"dataset": "reports"}) == 1
        bench.topic.create(1)
        bench.write(0, *range(20, 40))
        await until(lambda: bench.numbers() == list(range(40)))
        await until(lambda: bench.state == "up to date")
        assert REGISTRY.get_sample_value("tocsin_feed_waiting", {"dataset": "reports"}) == 0


async def test_kafka_away_is_told_and_waited_for(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topics, "WAIT_S", 0.5)
    bench = Bench(kafka, tmp_path, partitions=1)
    bench.write(0, 1)
    kafka.pause()
    async with bench:
        await until(lambda: "Kafka at kafka://127.0.0.1" in bench.state)
        assert bench.log.append("reports", [b'{"p":9,"n":0}']).result()  # others go on
        kafka.resume()
        await until(lambda: bench.numbers() == [1])


async def test_records_that_were_deleted_before_they_were_taken_are_told(
    kafka: Kafka, tmp_path: Path
) -> None:
    bench = Bench(kafka, tmp_path, partitions=1)
    async with bench:
        bench.write(0, *range(5))
        await until(lambda: len(bench.numbers()) == 5)
    bench.write(0, *range(5, 15))
    admin = AdminClient({"bootstrap.servers": kafka.address, "log_level": 0})
    place = TopicPartition(bench.topic.name, 0, 12)
    admin.delete_records([place])[place].result(60)
    before = REGISTRY.get_sample_value("tocsin_feed_gone_total", {"dataset": "reports"}) or 0
    async with bench:
        await until(lambda: bench.numbers() == [*range(5), *range(12, 15)])
    gone = REGISTRY.get_sample_value("tocsin_feed_gone_total", {"dataset": "reports"})
    assert gone == before + 7


async def test_a_dropped_feed_ends_and_a_new_one_begins_at_the_start(
    kafka: Kafka, tmp_path: Path
) -> None:
    async with Bench(kafka, tmp_path, partitions=1) as bench:
        bench.write(0, 1, 2)
        await until(lambda: bench.numbers() == [1, 2])
        await bench.feeds.drop("reports")
        assert bench.state == "not running"
        bench.write(0, 3)
        bench.log.create_dataset("reports")
        start = bench.log.ends()["reports"]
        bench.feeds.start(bench.dataset)
        await until(lambda: bench.log.ends()["reports"] > start)
        await until(lambda: bench.state == "up to date")
        assert [record["n"] for record in bench.records(start=start)] == [1, 2, 3]


async def test_a_feed_fills_a_log_on_kafka(
    kafka: Kafka, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    bench = Bench(kafka, tmp_path, log_address=OnKafka(request, tmp_path).address)
    for start in (0, 10):
        for partition in range(3):
            bench.write(partition, *range(start, start + 10))
        async with bench:
            await until(lambda end=start + 10: len(bench.records()) == 3 * end)  # type: ignore[misc]
            assert all(bench.numbers(p) == list(range(start + 10)) for p in range(3))


async def test_a_chunk_that_kafka_has_in_part_is_made_whole(
    kafka: Kafka, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    own = OnKafka(request, tmp_path)
    bench = Bench(kafka, tmp_path, log_address=own.address)
    for partition in (2, 0, 1):
        bench.write(partition, 0, 1)
    claims = {partition: Place(0, 2) for partition in (1, 2, 0)}
    async with bench:  # which makes the topics
        await bench.feeds.drop("reports")
        bench.log.create_dataset("reports")
        start = bench.log.ends()["reports"]
        with ForeignTopic(KafkaAddress.parse(kafka.url), bench.topic.name) as topic:
            bench.store.feeds.put("reports", topic.id, claims)
            feed = module.Feed(bench.dataset, *[None] * 5)  # type: ignore[arg-type]
            key = feed._key(topic, claims).encode()
    there = [bench.value(p, n) for p in range(3) for n in range(2)][:3]
    Topic(kafka, own.kafka.topic("reports")).write(
        [b'{"t":1,"r":%b}' % one for one in there],
        [[("k", key), ("n", b"%d" % n), ("o", b"6")] for n in range(3)],
    )
    async with bench:
        await until(lambda: len(bench.records(start=start)) >= 6)
        await until(lambda: bench.state == "up to date")
        found = [(record["p"], record["n"]) for record in bench.records(start=start)]
        assert found == [(p, n) for p in range(3) for n in range(2)]


class Crash(BaseException):
    """As good as kill -9 for the feed's thread."""


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_a_crash_at_any_step_neither_loses_nor_doubles(
    kafka: Kafka, tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a chunk is noted, before it is appended, after that, half of it (its dead letters)."""
    chance = random.Random(seed)
    bench = Bench(kafka, tmp_path)
    written: list[tuple[int, int]] = []
    armed = [True]

    def perhaps_crash(*_: object) -> None:
        if armed[0] and chance.random() < 0.2:
            raise Crash

    for name in ("_put", "_append"):
        plain = getattr(module.Feed, name)

        def risky(self: object, *given: object, plain: object = plain) -> None:
            perhaps_crash()
            plain(self, *given)  # type: ignore[operator]
            perhaps_crash()

        monkeypatch.setattr(module.Feed, name, risky)
    for round_ in range(12):
        for partition in range(3):
            new = [1000 * round_ + n for n in range(chance.randint(0, 4))]
            bench.write(partition, *new)
            written += [(partition, n) for n in new]
        bench.topic.write([b"poison"], partition=0)
        async with bench:
            await until(lambda: bench.crashed or bench.state == "up to date")
    armed[0] = False
    async with bench:
        await until(lambda: len(bench.records()) >= len(written))
        await until(lambda: bench.state == "up to date")
        assert sorted((record["p"], record["n"]) for record in bench.records()) == sorted(written)
        for partition in range(3):
            assert bench.numbers(partition) == [n for p, n in written if p == partition]
        assert len(bench.records("dead_letters")) == 12


def fed(topic: str) -> Dataset:
    return Dataset("reports", (), source=KafkaSource(topic))


def checked(dataset: Dataset, settings: Settings) -> None:
    Feeds(settings, None, None).check(dataset)  # type: ignore[arg-type]  # they are not asked


def test_a_topic_that_is_not_there_is_refused(kafka: Kafka) -> None:
    with pytest.raises(NotFound, match="has no topic 'nothing'") as refused:
        checked(fed("nothing"), Settings(kafka=kafka.url))
    assert refused.value.field == "topic"


def test_a_feed_needs_to_know_which_kafka() -> None:
    checked(Dataset("plain", ()), Settings())
    with pytest.raises(SettingError, match="no Kafka is named") as refused:
        checked(fed("alerts"), Settings())
    assert refused.value.field == "kafka"
    with pytest.raises(SettingError) as wrong:
        checked(fed("alerts"), Settings(kafka="kafka://here"))
    assert wrong.value.field == "kafka"


def test_the_topics_of_the_log_itself_are_refused(kafka: Kafka) -> None:
    own = f"{kafka.url}/mine{uuid.uuid4().hex}"
    prefix = own.rpartition("/")[2]
    for settings in (Settings(log=own), Settings(log=own, kafka=kafka.url)):
        with pytest.raises(InvalidInput, match="own log"):
            checked(fed(f"{prefix}.dataset.reports"), settings)
    with pytest.raises(NotFound):
        checked(fed(f"{prefix}-alerts"), Settings(log=own))
