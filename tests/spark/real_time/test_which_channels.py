"""Which channels run in real-time mode, and how Java reaches what it needs there."""

from __future__ import annotations

import pytest

from tocsin.errors import SettingError
from tocsin.model import Column, Dataset
from tocsin.service.trouble import Troubles
from tocsin.settings import Settings
from tocsin.spark.channels import CompiledChannel, Mask, compile_channel
from tocsin.spark.jdbc import jdbc_of
from tocsin.spark.real_time.members import Member, make_member
from tocsin.spark.real_time.queries import Queries
from tocsin.spark.real_time.sharing import why_not
from tocsin.spark.session import runs_in_real_time
from tocsin.sql import parse_one
from tocsin.sql.statements import CreateChannel
from tocsin.storage.log.kafka import KafkaAddress


def dataset(name: str, columns: str) -> Dataset:
    pairs = (each.split() for each in columns.split(", "))
    return Dataset(name, tuple(Column(column, kind) for column, kind in pairs))


DATASETS = {
    "reports": dataset(
        "reports", "id INT, type STRING, sev INT, lat DOUBLE, lon DOUBLE, tags ARRAY<STRING>"
    ),
    "shelters": dataset("shelters", "name STRING, lat DOUBLE, lon DOUBLE"),
}


def compiled(query: str, *, delivers: str = "", name: str = "c") -> CompiledChannel:
    kinds = {"t": "STRING", "m": "INT", "a": "DOUBLE"}
    used = ", ".join(f"{name} {kinds[name]}" for name in kinds if f":{name}" in query)
    asked = parse_one(f"CREATE CONTINUOUS CHANNEL {name}({used}) {delivers} AS {query}")
    assert isinstance(asked, CreateChannel)
    return compile_channel(asked, DATASETS)


def reason_against(query: str, *, delivers: str = "") -> str:
    return why_not(compiled(query, delivers=delivers))


def member(compiled: CompiledChannel, mask: Mask) -> Member:
    return make_member(compiled, mask, lambda equalities, *_: ["STRING"] * len(equalities))


def queries(*, slots: int) -> Queries:
    nobody = None
    return Queries(
        nobody,  # type: ignore[arg-type]  # it is not asked
        member,
        slots,
        lambda _: 0,
        dict,
        lambda _: set(),
        Troubles(),
    )


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id FROM NEW reports r WHERE r.type = :t",
        "SELECT upper(type) AS kind FROM NEW reports WHERE sev >= :m",
        "SELECT id FROM NEW reports r WHERE near(r.lat, r.lon, :a, :a, 5)",
        "SELECT id FROM NEW reports r WHERE near(r.lat, r.lon, :a, :a, :a) AND type = :t",
    ],
)
def test_query_that_looks_at_one_record_at_a_time_runs_in_real_time(query: str) -> None:
    assert reason_against(query) == ""


@pytest.mark.parametrize(
    ("delivers", "reason"),
    [
        ("DELIVER TO KAFKA 't'", ""),
        ("DELIVER TO CONSUMER LOGS", ""),
        ("DELIVER TO CONSUMER LOGS SHARED ADMIT none", ""),
        ("DELIVER TO CONSUMER LOGS ADMIT mean(50)", "counts all who match a record"),
    ],
)
def test_admission_that_counts_sees_all_matches_of_a_record_together(
    delivers: str, reason: str
) -> None:
    found = reason_against("SELECT id FROM NEW reports WHERE type = :t", delivers=delivers)
    assert reason in found
    assert bool(reason) == bool(found)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT type, count(*) AS n FROM NEW reports WHERE type = :t GROUP BY type",
         "groups"),
        ("SELECT DISTINCT type FROM NEW reports WHERE type = :t", "groups"),
        ("SELECT id FROM NEW reports WHERE type = :t ORDER BY id LIMIT 3", "orders"),
        ("SELECT explode(tags) AS tag FROM NEW reports WHERE type = :t", "several rows"),
        ("SELECT r.id, s.name FROM NEW reports r JOIN shelters s ON near(r.lat, r.lon, s.lat,"
         " s.lon, 5) WHERE r.type = :t", "stored dataset shelters"),
        ("SELECT r.id FROM NEW reports r JOIN NEW reports q ON r.id = q.id WHERE r.type = :t",
         "joins"),
        ("SELECT id FROM (SELECT * FROM NEW reports) x WHERE type = :t", ""),
        ("SELECT id, window_end() AS w FROM NEW reports WHERE type = :t", "window"),
        ("SELECT id FROM NEW reports WHERE sev * :m > length(:t)", "no equality"),
        ("SELECT id FROM NEW reports WHERE type = :t UNION ALL"
         " SELECT id FROM NEW reports WHERE sev = :m", "several queries"),
    ],
)  # fmt: skip
def test_other_queries_run_in_micro_batches_and_say_why(query: str, reason: str) -> None:
    told = reason_against(query)
    assert told
    assert reason in told


def test_slots_are_taken_by_datasets_and_not_by_channels() -> None:
    first = compiled("SELECT id FROM NEW reports r WHERE r.type = :t", name="first")
    more = compiled("SELECT upper(type) AS kind FROM NEW reports WHERE sev >= :m", name="more")
    elsewhere = compiled("SELECT name FROM NEW shelters WHERE name = :t", name="elsewhere")
    assert "slots" in queries(slots=0).why_not(first)
    made = queries(slots=1)
    assert made.why_not(first) == ""
    made.watch(first.channel, first)
    assert made.why_not(more) == ""
    assert "all 1 real-time slots are taken" in made.why_not(elsewhere)
    made.unwatch("first")
    assert made.why_not(elsewhere) == ""


@pytest.mark.parametrize(
    ("log", "store", "possible"),
    [
        ("", "", False),
        ("kafka://h:1", "", False),
        ("kafka://h:1", "sqlite:///x.db", False),
        ("", "postgresql+psycopg://u@h/d", False),
        ("kafka://h:1", "postgresql+psycopg://u@h/d", True),
        ("kafka://h:1", "mariadb+pymysql://u@h/d", True),
    ],
)
def test_real_time_mode_needs_kafka_and_a_store_that_java_reads(
    log: str, store: str, possible: bool
) -> None:
    assert runs_in_real_time(Settings(log=log, store=store)) is possible


def test_addresses_of_stores_are_told_to_java_with_their_options() -> None:
    one = jdbc_of("postgresql+psycopg://ann:p%40ss@db:5433/city?sslmode=verify-full")
    assert one is not None
    assert one.url == "jdbc:postgresql://db:5433/city"
    assert one.properties == {"sslmode": "verify-full", "user": "ann", "password": "p@ss"}
    two = jdbc_of("mariadb+pymysql://ann@db/city?ssl_ca=/my/ca.pem")
    assert two is not None
    assert two.url == "jdbc:mysql://db/city?permitMysqlScheme=true"
    assert two.properties["sslMode"] == "verify-full"
    assert two.properties["serverSslCert"] == "/my/ca.pem"


def test_wrong_addresses_of_kafka_name_the_setting() -> None:
    for text in ("kafka://", "kafka://host", "kafka://host:1/pre fix", "kafka://host:port"):
        with pytest.raises(SettingError) as caught:
            KafkaAddress.parse(text)
        assert caught.value.field == "log"
