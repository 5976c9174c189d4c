"""The shared servers of a test run really serve, and come back from what tests do to them."""

from __future__ import annotations

import socket
import uuid

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from s3fs import S3FileSystem
from sqlalchemy import create_engine, text

from real_servers import RealServers, skip_or_fail
from tocsin.dev.kafka import Kafka
from tocsin.dev.mariadb import MariaDB
from tocsin.dev.postgresql import PostgreSQL
from tocsin.dev.s3 import S3
from tocsin.dev.throwaway import Throwaway
from tocsin.errors import Conflict, InvalidInput, Unavailable
from tocsin.system.launching import Detached
from tocsin.system.processes import processes_in

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


def test_a_paused_server_says_nothing_and_healing_resumes_it(
    mariadb: MariaDB, real_servers: RealServers
) -> None:
    mariadb.pause()
    with socket.create_connection(("127.0.0.1", mariadb.port), timeout=0.3) as connection:
        with pytest.raises(TimeoutError):
            connection.recv(1)
        real_servers.heal()
        connection.settimeout(60)
        assert connection.recv(1) != b""  # it greets who connects


def test_a_killed_server_is_there_for_the_next_test(
    database: PostgreSQL | MariaDB, real_servers: RealServers
) -> None:
    url = database.url
    database.kill()
    real_servers.heal()
    assert database.url == url
    assert one_value(url, "SELECT 1") == 1


def test_a_server_whose_port_is_taken_does_not_move_by_itself(mariadb: MariaDB) -> None:
    """Its clients know it by that port."""
    mariadb.kill()
    port = mariadb.port
    with (
        socket.create_server(("127.0.0.1", port)),
        pytest.raises(Conflict, match=f"port {port} of MariaDB is taken"),
    ):
        mariadb.start()
    mariadb.start()
    assert mariadb.port == port


def test_only_fresh_databases_are_dropped(database: PostgreSQL | MariaDB) -> None:
    for url in (database.url, "sqlite:///tocsin_1"):
        with pytest.raises(InvalidInput, match="no fresh database"):
            database.drop(url)


def test_a_server_that_cannot_start_says_why_and_leaves_nothing_running() -> None:
    if reason := PostgreSQL.missing():
        skip_or_fail(reason)
    with Throwaway() as servers:
        server = servers.start(PostgreSQL)
        server.stop()
        forgetful = PostgreSQL(servers.directory, Detached())
        with pytest.raises(Unavailable, match="older than the password"):
            forgetful.start()
        assert not forgetful.processes
        assert processes_in(server.data) == []
        (server.data / "postgresql.conf").write_text("rubbish\nrubbish\n")
        with pytest.raises(Unavailable, match=r"ended while it started: .*syntax error"):
            server.start()
        assert not server.processes


def produce(kafka: Kafka, topic: str, value: bytes) -> None:
    producer = Producer(
        {"bootstrap.servers": kafka.address, "message.max.bytes": 10_000_000, "log_level": 0}
    )
    failed = list[object]()
    producer.produce(topic, value, on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(60) == 0
    assert failed[0] is None


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
    large = b"x" * 8_000_000
    produce(kafka, topic, large)
    kafka.kill()
    kafka.start()
    assert kafka.address == address
    assert consume(kafka, topic) == large


def test_a_topic_that_nobody_made_is_not_made_by_writing_to_it(kafka: Kafka) -> None:
    topic = f"t-{uuid.uuid4()}"
    impatient = {"message.timeout.ms": 500, "topic.metadata.propagation.max.ms": 1}
    producer = Producer({"bootstrap.servers": kafka.address, "log_level": 0, **impatient})
    failed = list[object]()
    producer.produce(topic, b"x", on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(60) == 0
    assert failed[0] is not None
    admin = AdminClient({"bootstrap.servers": kafka.address, "log_level": 0})
    assert topic not in admin.list_topics(timeout=60).topics


def files_of(s3: S3, **changes: str) -> S3FileSystem:
    named = {
        "endpoint_url": s3.endpoint,
        "key": s3.environment["AWS_ACCESS_KEY_ID"],
        "secret": s3.environment["AWS_SECRET_ACCESS_KEY"],
    }
    plain = {"request_checksum_calculation": "when_required"}
    return S3FileSystem(**named | changes, config_kwargs=plain, skip_instance_cache=True)


def test_a_killed_s3_comes_back_with_its_address_and_its_objects(s3: S3) -> None:
    files, bucket, url = files_of(s3), f"b-{uuid.uuid4()}", s3.url
    files.call_s3("create_bucket", Bucket=bucket)
    files.pipe_file(f"{bucket}/a/b", b"seven")
    s3.kill()
    s3.start()
    assert s3.url == url
    assert files_of(s3).cat_file(f"{bucket}/a/b") == b"seven"
    assert f"{bucket}/a" in files_of(s3).ls(bucket)


def test_s3_lets_nobody_in_without_its_key(s3: S3) -> None:
    for wrong in ({"key": "nobody"}, {"secret": "wrong"}):
        with pytest.raises(PermissionError):
            files_of(s3, **wrong).ls("tocsin")
    nobody = S3FileSystem(endpoint_url=s3.endpoint, anon=True, skip_instance_cache=True)
    fresh = s3.fresh().removeprefix("s3://").partition("?")[0]
    for bucket in ("tocsin", fresh):
        with pytest.raises(PermissionError):
            nobody.ls(bucket)
