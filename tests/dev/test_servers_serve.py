"""The shared servers of a test run really serve, and come back from what tests do to them."""

from __future__ import annotations

import uuid

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from sqlalchemy import create_engine, text

from tocsin.dev.kafka import Kafka
from tocsin.dev.mariadb import MariaDB
from tocsin.dev.postgresql import PostgreSQL

pytestmark = pytest.mark.processes


@pytest.fixture(params=["postgresql", "mariadb"])
def database(request: pytest.FixtureRequest) -> PostgreSQL | MariaDB:
    found: PostgreSQL | MariaDB = request.getfixturevalue(request.param)
    return found


def one_value(url: str, statement: str) -> object:
    engine = create_engine(url)
    try:
        with engine.begin() as connection:
            return connection.execute(text(statement)).scalar()
    finally:
        engine.dispose()


def run(url: str, statement: str) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text(statement))
    engine.dispose()


def test_fresh_databases_are_empty_and_do_not_see_each_other(
    database: PostgreSQL | MariaDB,
) -> None:
    one, other = database.fresh(), database.fresh()
    for url in (one, other):
        run(url, "CREATE TABLE t (a INT)")
    run(one, "INSERT INTO t VALUES (1)")
    assert one_value(one, "SELECT count(*) FROM t") == 1
    assert one_value(other, "SELECT count(*) FROM t") == 0
    database.drop(one)
    database.drop(other)


def test_a_killed_database_comes_back_with_its_address_and_its_commits(
    database: PostgreSQL | MariaDB,
) -> None:
    url = database.fresh()
    run(url, "CREATE TABLE t (a INT)")
    run(url, "INSERT INTO t VALUES (7)")
    database.kill()
    assert not database.alive
    database.start()
    assert one_value(url, "SELECT a FROM t") == 7
    database.drop(url)


def produce(kafka: Kafka, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": kafka.address, "log_level": 0})
    failed = list[object]()
    producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(60) == 0
    assert failed == [None]


def consume(kafka: Kafka, topic: str) -> bytes | None:
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.address,
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    message = consumer.poll(60)
    consumer.close()
    assert message is not None
    assert message.error() is None
    return message.value()


def test_a_killed_kafka_comes_back_with_its_address_and_its_messages(kafka: Kafka) -> None:
    topic, address = f"t-{uuid.uuid4()}", kafka.address
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(60)
    produce(kafka, topic, b"before")
    kafka.kill()
    kafka.start()
    assert kafka.address == address
    assert consume(kafka, topic) == b"before"
