"""Statements: what each reads as, and where an error is said to be."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tocsin.errors import StatementError
from tocsin.model import Column, Dataset, Delivery, KafkaSource, Parameter
from tocsin.sql import (
    ChangeSubscription,
    CreateBroker,
    CreateChannel,
    CreateDataset,
    Describe,
    Drop,
    Insert,
    Query,
    Show,
    Subscribe,
    Unsubscribe,
    parse,
    parse_one,
)


def test_dataset_with_every_clause() -> None:
    made = parse_one(
        "create dataset IF NOT EXISTS Reports (id BIGINT, at TIMESTAMP, tags ARRAY<STRING>,"
        " more MAP<STRING, ARRAY<INTEGER>>, place STRUCT<lat: DOUBLE, lon DOUBLE>,"
        " price NUMERIC(8, 2)) OPEN PRIMARY KEY (id, at) RETAIN INTERVAL 7 DAYS"
    )
    assert isinstance(made, CreateDataset)
    assert made.name == "reports"
    assert made.if_not_exists
    assert made.open
    assert made.primary_key == ("id", "at")
    assert made.retain_s == 7 * 86400
    assert made.columns == (
        Column("id", "BIGINT"),
        Column("at", "TIMESTAMP"),
        Column("tags", "ARRAY<STRING>"),
        Column("more", "MAP<STRING,ARRAY<INT>>"),
        Column("place", "STRUCT<lat:DOUBLE,lon:DOUBLE>"),
        Column("price", "DECIMAL(8,2)"),
    )


@pytest.mark.parametrize(
    ("clause", "source"),
    [
        ("FROM KAFKA 'plant.alerts-1_x'", KafkaSource("plant.alerts-1_x", "json")),
        ("from kafka 'Alerts' format json", KafkaSource("Alerts", "json")),
        ("FROM KAFKA 'alerts' FORMAT CSV", KafkaSource("alerts", "csv")),
        ("OPEN FROM\n KAFKA 'a' RETAIN INTERVAL 1 DAY", KafkaSource("a", "json")),
        ("", None),
    ],
)
def test_a_dataset_may_be_fed_from_a_topic(clause: str, source: KafkaSource | None) -> None:
    made = parse_one(f"CREATE DATASET reports (id INT) {clause};")
    assert isinstance(made, CreateDataset)
    assert made.source == source


def test_continuous_channel_keeps_its_query_and_where_it_began() -> None:
    text = (
        "-- by kind\nCREATE CONTINUOUS CHANNEL by_type(type STRING, min INT) PUSH AS\n"
        "  SELECT r.id FROM NEW reports r WHERE r.type = :type -- here\n;"
    )
    made = parse_one(text)
    assert isinstance(made, CreateChannel)
    assert made.kind == "continuous"
    assert made.push
    assert made.period_s is None
    assert made.parameters == (Parameter("type", "STRING"), Parameter("min", "INT"))
    assert made.query == "SELECT r.id FROM NEW reports r WHERE r.type = :type"
    assert (made.query_line, made.query_column) == (3, 3)
    assert made.line == 2
    assert made.text.startswith("CREATE CONTINUOUS")


@pytest.mark.parametrize(
    ("interval", "seconds"),
    [
        ("INTERVAL 10 SECONDS", 10),
        ("INTERVAL '10' SECOND", 10),
        ("INTERVAL '1 hour 30 minutes'", 5400),
        ("INTERVAL 1.5 MINUTES", 90),
        ("interval 500 milliseconds", 0.5),
        ("INTERVAL 2 WEEKS", 1209600),
    ],
)
def test_repetitive_channel_period(interval: str, seconds: float) -> None:
    made = parse_one("CREATE REPETITIVE CHANNEL c() EVERY " + interval + " AS SELECT 1 AS one")
    assert isinstance(made, CreateChannel)
    assert made.kind == "repetitive"
    assert made.period_s == seconds
    assert made.parameters == ()


def test_small_statements() -> None:
    text = """
    CREATE BROKER IF NOT EXISTS b1 AT 'http://127.0.0.1:1;2';
    DROP CHANNEL IF EXISTS c; DROP DATASET d; DROP BROKER b1;
    SUBSCRIBE TO c('flood', -3, 2.5, TRUE) ON b1;
    SUBSCRIBE TO c(kind => 'a', since => TIMESTAMP '2026-01-01 00:00:00', day => DATE '2026-01-02');
    SUBSCRIBE TO c();
    UNSUBSCRIBE 5; CHANGE SUBSCRIPTION 6 TO b2;
    SHOW DATASETS; SHOW SUBSCRIPTIONS; DESCRIBE CHANNEL c; DESCRIBE DATASET d; DESC channel;
    WITH a AS (SELECT 1 AS x) SELECT * FROM a
    """
    made = parse(text)
    assert [type(each) for each in made] == [
        CreateBroker,
        Drop,
        Drop,
        Drop,
        Subscribe,
        Subscribe,
        Subscribe,
        Unsubscribe,
        ChangeSubscription,
        Show,
        Show,
        Describe,
        Describe,
        Describe,
        Query,
    ]
    broker, drop, *_ = made
    assert isinstance(broker, CreateBroker)
    assert broker.url == "http://127.0.0.1:1;2"
    assert isinstance(drop, Drop)
    assert (drop.kind, drop.name, drop.if_exists) == ("channel", "c", True)
    first, second, third = made[4:7]
    assert isinstance(first, Subscribe)
    assert isinstance(second, Subscribe)
    assert isinstance(third, Subscribe)
    assert first.arguments == ["flood", -3, 2.5, True]
    assert first.broker == "b1"
    assert second.arguments == {
        "kind": "a",
        "since": "2026-01-01T00:00:00.000000Z",
        "day": "2026-01-02",
    }
    assert second.broker is None
    assert third.arguments == []
    describe = made[13]
    assert isinstance(describe, Describe)
    assert (describe.kind, describe.name) == (None, "channel")
    assert made[-1].text == "WITH a AS (SELECT 1 AS x) SELECT * FROM a"


def test_any_leaves_a_parameter_open_and_text_does_not() -> None:
    by_name = parse_one("SUBSCRIBE TO offers(restaurant => 'R1', food => ANY, discount => 20)")
    assert isinstance(by_name, Subscribe)
    assert by_name.arguments == {"restaurant": "R1", "food": {"any": True}, "discount": 20}
    by_position = parse_one("subscribe to offers('ANY', any, 20)")
    assert isinstance(by_position, Subscribe)
    assert by_position.arguments == ["ANY", {"any": True}, 20]


def test_insert_gives_records() -> None:
    dataset = Dataset("d", (Column("a", "INT"), Column("b", "ARRAY<STRING>")))
    made = parse_one("INSERT INTO d VALUES (1, array('x', NULL)), (-2, NULL)")
    assert isinstance(made, Insert)
    assert made.records(dataset) == [{"a": 1, "b": ["x", None]}, {"a": -2, "b": None}]
    named = parse_one("INSERT INTO d (b, a) VALUES (array(), 1e2), (map('k', 1), FALSE)")
    assert isinstance(named, Insert)
    assert named.records(dataset) == [{"b": [], "a": 100.0}, {"b": {"k": 1}, "a": False}]
    short = parse_one("INSERT INTO d VALUES (1, NULL),\n (2)")
    assert isinstance(short, Insert)
    with pytest.raises(StatementError) as caught:
        short.records(dataset)
    assert (caught.value.line, caught.value.column) == (2, 2)


def test_nothing_is_no_statement() -> None:
    assert parse(" ;; -- only a comment\n") == []


LONG = "n" * 64


@pytest.mark.parametrize(
    ("text", "line", "column", "says"),
    [
        ("FROB x", 1, 1, "expected CREATE"),
        ("CREATE TABLE x (a INT)", 1, 8, "expected DATASET"),
        ("CREATE DATASET\n  9x (a INT)", 2, 3, "dataset"),
        (f"CREATE DATASET {LONG} (a INT)", 1, 16, "cannot be"),
        ("CREATE DATASET d (a INT,\n a STRING)", 2, 2, "two columns"),
        ("CREATE DATASET d (_a INT)", 1, 19, "cannot be called"),
        ("CREATE DATASET d (a INT, b FROB)", 1, 28, "unknown type"),
        ("CREATE DATASET d (a MAP<INT, INT>)", 1, 21, "keys of a MAP"),
        ("CREATE DATASET d (a INT) PRIMARY KEY (b)", 1, 39, "no column"),
        ("CREATE DATASET d (a ARRAY<INT>) PRIMARY KEY (a)", 1, 46, "scalar"),
        ("CREATE DATASET d (a INT) RETAIN INTERVAL 0 DAYS", 1, 42, "longer than nothing"),
        ("CREATE DATASET d (a INT) RETAIN INTERVAL 3 PARSECS", 1, 44, "unit of time"),
        ("CREATE DATASET d (a INT) FROB", 1, 26, "expected OPEN"),
        ("CREATE DATASET d (a INT) FROM 't'", 1, 31, "expected KAFKA"),
        ("CREATE DATASET d (a INT) FROM KAFKA t", 1, 37, "a topic's name in quotes"),
        ("CREATE DATASET d (a INT)\n FROM KAFKA 'a b'", 2, 13, "cannot name a topic"),
        ("CREATE DATASET d (a INT) FROM KAFKA '..'", 1, 37, "cannot name a topic"),
        ("CREATE DATASET d (a INT) FROM KAFKA ''", 1, 37, "cannot name a topic"),
        ("CREATE DATASET d (a INT) FROM KAFKA 't' FORMAT AVRO", 1, 48, "JSON or CSV"),
        ("CREATE DATASET d (a INT) FROM KAFKA 't' FROM KAFKA 'u'", 1, 41, "each once"),
        ("CREATE DATASET d (a INT", 1, 24, "the end of the text"),
        ("CREATE CONTINUOUS CHANNEL c(a ARRAY<INT>) AS SELECT 1", 1, 31, "scalar"),
        ("CREATE CONTINUOUS CHANNEL c(a INT, a INT) AS SELECT 1", 1, 36, "two parameters"),
        ("CREATE CONTINUOUS CHANNEL c() EVERY INTERVAL 1 DAY AS SELECT 1", 1, 31, "expected AS"),
        ("CREATE REPETITIVE CHANNEL c() AS SELECT 1", 1, 31, "expected EVERY"),
        ("CREATE CONTINUOUS CHANNEL c() AS DELETE FROM x", 1, 34, "expected a query"),
        ("SUBSCRIBE TO c(1, x => 2)", 1, 19, "not both"),
        ("SUBSCRIBE TO c(x => 1, x => 2)", 1, 24, "twice"),
        ("SUBSCRIBE TO c(1 + 1)", 1, 18, "expected ','"),
        ("SUBSCRIBE TO c(now())", 1, 16, "expected a value"),
        ("SUBSCRIBE TO c(x => ANY,\n y => ANY (1))", 2, 11, "expected ','"),
        ("SUBSCRIBE TO c(-ANY)", 1, 17, "expected a value"),
        ("SUBSCRIBE TO c(array(ANY))", 1, 22, "expected a value"),
        ("SUBSCRIBE TO c(ANY => 1, ANY)", 1, 26, "not both"),
        ("INSERT INTO d VALUES (ANY)", 1, 23, "expected a value"),
        ("UNSUBSCRIBE abc", 1, 13, "number"),
        ("INSERT INTO d (a, b) VALUES (1)", 1, 29, "1 values for 2 columns"),
        ("SHOW TABLES", 1, 6, "expected DATASETS"),
        ("SHOW DATASETS SHOW", 1, 15, "expected ';'"),
        ("SHOW DATASETS;\nCREATE BROKER b AT 'oops", 2, 20, "never closed"),
        ("SUBSCRIBE TO c(DATE '2026-13-01')", 1, 21, "expected DATE"),
    ],
)
def test_errors_say_what_and_where(text: str, line: int, column: int, says: str) -> None:
    with pytest.raises(StatementError) as caught:
        parse(text)
    assert says in caught.value.message
    assert (caught.value.line, caught.value.column) == (line, column)


@pytest.mark.parametrize("text", ["", "SHOW DATASETS; SHOW CHANNELS"])
def test_parse_one_takes_exactly_one(text: str) -> None:
    with pytest.raises(StatementError):
        parse_one(text)


def test_statements_are_values() -> None:
    one: Any = parse_one("SHOW DATASETS")
    assert one == parse_one("SHOW DATASETS")
    with pytest.raises(AttributeError):
        one.what = "channels"


CHANNEL = "CREATE CONTINUOUS CHANNEL c(kind STRING) {} AS SELECT r.id FROM NEW reports r"


@pytest.mark.parametrize(
    ("clause", "wanted"),
    [
        ("", None),
        ("PUSH DELIVER TO KAFKA 'city.alerts'", Delivery(topic="city.alerts")),
        ("deliver to consumer logs", Delivery()),
        (
            "DELIVER TO CONSUMER LOGS KEEP 5000 BYTES SHARED ADMIT threshold(0.2, 0.8)",
            Delivery(admit="threshold(0.2,0.8)", keep_bytes=5000, shared=True),
        ),
        ("DELIVER TO CONSUMER LOGS ADMIT none", Delivery(admit="none")),
        ("DELIVER TO CONSUMER LOGS ADMIT all KEEP 1 BYTES", Delivery(keep_bytes=1)),
    ],
)
def test_channel_says_how_its_results_leave(clause: str, wanted: Delivery | None) -> None:
    made = parse_one(CHANNEL.format(clause))
    assert isinstance(made, CreateChannel)
    assert made.delivery == wanted
    assert made.query == "SELECT r.id FROM NEW reports r"


@pytest.mark.parametrize(
    ("clause", "at", "message"),
    [
        ("DELIVER", "AS", "expected TO"),
        ("DELIVER TO POSTGRES", "POSTGRES", "expected KAFKA 'topic' or CONSUMER LOGS"),
        ("DELIVER TO KAFKA alerts", "alerts", "expected a topic's name in quotes"),
        ("DELIVER TO KAFKA 'a b'", "'a b'", "cannot name a topic"),
        ("DELIVER TO CONSUMER LOGS TWICE", "TWICE", "expected SHARED, ADMIT policy, KEEP n BYTES"),
        ("DELIVER TO CONSUMER LOGS SHARED SHARED", None, "each once"),
        ("DELIVER TO CONSUMER LOGS ADMIT lru", "lru", "no admission policy is called 'lru'"),
        ("DELIVER TO CONSUMER LOGS ADMIT mean(0)", "mean", "mean's batch is '0'"),
        ("DELIVER TO CONSUMER LOGS ADMIT threshold(1,2,3)", "threshold", "takes lambda, mu"),
        ("DELIVER TO CONSUMER LOGS ADMIT threshold(nu=1)", "threshold", "no parameter 'nu'"),
        ("DELIVER TO CONSUMER LOGS KEEP 0 BYTES", "0", "must keep something"),
        ("DELIVER TO CONSUMER LOGS KEEP 5", "AS", "expected BYTES"),
        ("DELIVER TO CONSUMER LOGS KEEP '5' BYTES", "'5'", "a number of bytes"),
    ],
)
def test_delivery_that_cannot_be_read_is_told_where(
    clause: str, at: str | None, message: str
) -> None:
    text = CHANNEL.format(clause)
    with pytest.raises(StatementError, match=re.escape(message)) as caught:
        parse_one(text)
    if at is not None:
        assert caught.value.column == text.index(at, text.index("DELIVER") + 1) + 1


def test_repetitive_channel_has_no_consumer_logs() -> None:
    text = "CREATE REPETITIVE CHANNEL c() EVERY INTERVAL 1 DAY DELIVER TO CONSUMER LOGS AS SELECT 1"
    with pytest.raises(StatementError, match="only a continuous channel has consumer logs"):
        parse_one(text)
    assert parse_one(text.replace("CONSUMER LOGS", "KAFKA 't'"))
