"""Channels that share a query are answered as each query says by itself."""

# ruff: noqa: S608 - writing queries is what it is for

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from random import Random

import pytest
from pyspark.sql import SparkSession

from spark.channels.differential.data import DATASETS, PARAMETERS
from spark.channels.differential.queries import CLOSE, OPEN, Asked, draw_query
from spark.channels.differential.running import Laboratory
from tocsin.errors import TocsinError
from tocsin.model import Arguments
from tocsin.spark.channels import CompiledChannel, analyse, compile_channel, mask_of
from tocsin.spark.real_time.joining import MakeMember, Members, matches, sharing_session
from tocsin.spark.real_time.members import Member
from tocsin.spark.real_time.shared import SharedText
from tocsin.spark.real_time.sharing import why_not
from tocsin.sql import parse_one
from tocsin.sql.statements import CreateChannel
from tocsin.storage.store.subscription_rows import canonical

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

DRAWN = range(600)
SETS = "id BIGINT, channel STRING, arguments STRING"
NOTHING_OPEN: frozenset[str] = frozenset()


@dataclass
class Case:
    channel: CompiledChannel
    asked: Asked
    columns: list[str]
    members: list[Member]
    sets: dict[int, Arguments]


def compiled(name: str, text: str) -> CompiledChannel:
    used = {name.lower() for name in re.findall(r":([A-Za-z]\w*)", text)}
    declared = ", ".join(f"{p} {kind}" for p, kind in PARAMETERS.items() if p.lower() in used)
    created = parse_one(f"CREATE CONTINUOUS CHANNEL {name}({declared}) AS {text}")
    assert isinstance(created, CreateChannel)
    return compile_channel(created, DATASETS)


WRITTEN = [
    f"SELECT r.id, r.{column} AS v, :{parameter} AS given FROM NEW reports r"
    f" WHERE {OPEN}r.{column} = :{parameter}{CLOSE}"
    for column, parameter in {
        "ok": "pb",
        "sev": "pi",
        "big": "pl",
        "ratio": "pf",
        "score": "pd",
        "price": "pm",
        "kind": "ps",
        "at": "pt",
        "day": "py",
    }.items()
] + [
    # Types that are not the same on both sides.
    f"SELECT id FROM NEW reports WHERE {OPEN}sev = :pl{CLOSE} AND {OPEN}big = :pi{CLOSE}",
    f"SELECT id FROM NEW reports WHERE {OPEN}sev = :ps{CLOSE}",
    f"SELECT id FROM NEW reports WHERE {OPEN}price = :pi{CLOSE}",
    f"SELECT id FROM NEW reports WHERE {OPEN}day = :pt{CLOSE}",
    f"SELECT id FROM NEW reports WHERE {OPEN}score = :pf{CLOSE} AND {OPEN}ratio = :pd{CLOSE}",
    # NULL beside NULL, expressions on both sides, capitals, what is quoted, and all columns.
    f"SELECT id FROM NEW reports WHERE {OPEN}kind <=> :ps{CLOSE}",
    f"SELECT R.ID, R.userID, R.Info.LABEL FROM NEW reports AS R WHERE {OPEN}UPPER(R.KIND) ="
    f" upper(:PTEXT){CLOSE} AND R.Sev IS NOT NULL",
    f"SELECT r.* FROM NEW reports r WHERE {OPEN}r.sev = :pi{CLOSE}",
    f"SELECT *, 'it''s __table r.kind' AS s FROM NEW reports WHERE {OPEN}`kind` = :ps{CLOSE}"
    f" AND {OPEN}sev + 1 > :pj{CLOSE}",
    "SELECT * EXCEPT (lat, Lon) FROM NEW reports WHERE sev = :pi",
    f"SELECT reports.id, transform(reports.tags, x -> concat(x, :ps)) AS t FROM NEW reports"
    f" WHERE {OPEN}reports.info.a = :pi{CLOSE}",
    # Nearness with a radius given or not, with an equality; ranges with one bound and two.
    f"SELECT r.id, :pKm AS km FROM NEW reports r WHERE {OPEN}near(r.lat, r.lon, :pLat, :pLon,"
    f" :pKm){CLOSE}",
    f"SELECT id FROM NEW reports WHERE {OPEN}near(:pLat, :pLon, lat, lon, 20){CLOSE}"
    f" AND {OPEN}kind = :ps{CLOSE}",
    f"SELECT id FROM NEW reports WHERE {OPEN}sev BETWEEN :pi AND :pj{CLOSE}",
    f"SELECT id FROM NEW reports WHERE {OPEN}sev >= :pi{CLOSE}",
    f"SELECT id FROM NEW reports WHERE {OPEN}kind >= :ps{CLOSE}",
    f"SELECT id FROM NEW reports WHERE {OPEN}at < :pt{CLOSE}",
    f"SELECT id, length(kind) AS n FROM NEW reports WHERE {OPEN}sev = :pi{CLOSE} AND"
    f" (kind LIKE 'f%' OR ok)",
]


@pytest.fixture(scope="module")
def laboratory(spark: SparkSession) -> Laboratory:
    return Laboratory(spark)


def cases(laboratory: Laboratory) -> list[Case]:
    """All that real-time mode takes of what was written and drawn, with some sets each."""
    make = Members(sharing_session(laboratory.spark)).make
    asked = [Asked(text, False, frozenset()) for text in WRITTEN]
    asked += [draw_query(seed) for seed in DRAWN]
    taken: list[Case] = []
    for number, query in enumerate(asked):
        try:
            case = taken_case(laboratory, make, number, query)
        except TocsinError as error:
            if number < len(WRITTEN):
                pytest.fail(f"{query.text}: {error}")
        else:
            taken += [case] if case else []
    return taken


def taken_case(laboratory: Laboratory, make: MakeMember, number: int, query: Asked) -> Case | None:
    channel = compiled(f"c{number}", query.text)
    if why_not(channel):
        return None
    columns = [c.name for c in analyse(laboratory.spark, channel, DATASETS)]
    draw = Random(number)
    sets: dict[int, Arguments] = {}
    for _ in range(2):
        more = laboratory.sets(draw, channel, openable=OPEN in query.marked)
        sets |= {1 + 100 * number + len(sets) + n: s for n, s in more.items()}
    masks = {NOTHING_OPEN, *map(mask_of, sets.values())}
    members = [make(channel, mask) for mask in masks]
    return Case(channel, query, columns, members, sets)


def test_shared_query_answers_what_each_query_says(laboratory: Laboratory) -> None:
    every = cases(laboratory)
    import time

    print("CASES", len(every), time.time())
    assert len(every) > len(WRITTEN) + 10
    assert sum(bool(mask_of(s)) for case in every for s in case.sets.values()) > 30
    text = SharedText([member for case in every for member in case.members])
    rows = [(n, c.channel.channel.name, canonical(s)) for c in every for n, s in c.sets.items()]
    spark = sharing_session(laboratory.spark)
    sets = spark.createDataFrame(rows, SETS)
    matched = 0
    for variant in (0, 4):
        session, frames = laboratory.variant(variant)
        found: dict[int, Counter[str]] = {}
        for row in matches(spark, text, sets, frames["reports"], checked=True).collect():
            found.setdefault(row["__backend"], Counter())[row["payload"]] += 1
            assert row["__channel"] == f"c{(row['__backend'] - 1) // 100}"
        for case in every:
            expected = laboratory.expected(session, case.asked, case.sets, case.columns)
            for backend, payloads in expected.items():
                what = f"{case.asked.text} with {case.sets[backend]}"
                assert found.pop(backend, Counter()) == Counter(payloads), what
                matched += len(payloads)
        assert not found
    print(
        "MATCHED", matched, time.time(), len(text.forms), len(text._probes), len(text.matches_sql)
    )
    assert matched > 500
