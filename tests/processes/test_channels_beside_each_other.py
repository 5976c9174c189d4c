"""What one channel, subscriber or record does to a channel, others do not feel."""

from __future__ import annotations

import asyncio
import datetime as dt
import itertools
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tocsin.client import Client, Subscription
from tocsin.errors import InvalidInput
from tocsin.system import System

pytestmark = [pytest.mark.processes, pytest.mark.timeout(240)]


@pytest.fixture
async def admin(live: System) -> AsyncIterator[Client]:
    token = live.token("admin", "admin", "publish", "subscribe")
    async with Client(live.coordinator_url, cluster=live.cluster_url, token=token) as client:
        yield client


async def described(admin: Client, channel: str) -> dict[str, Any]:
    (answer,) = await admin.sql(f"DESCRIBE CHANNEL {channel}")
    return {name: value for name, value in answer.rows}


async def take(subscription: Subscription, count: int) -> list[Any]:
    async with asyncio.timeout(120):
        return [(await anext(subscription)).value for _ in range(count)]


async def test_a_slow_channel_falls_behind_by_itself(live: System, admin: Client) -> None:
    """Its query looks at billions of combinations, for as long as a run may take."""
    await admin.sql(
        "CREATE DATASET crowded (n INT, kind STRING); CREATE DATASET calm (n INT, kind STRING);"
        "CREATE CONTINUOUS CHANNEL slow(kind STRING) AS SELECT count(*) AS c"
        " FROM NEW crowded a, crowded b, crowded c, crowded d"
        " WHERE a.kind = :kind AND (b.n + c.n * d.n) % 7 = a.n % 7 GROUP BY a.kind;"
        "CREATE CONTINUOUS CHANNEL cheap(kind STRING) AS"
        " SELECT r.n FROM NEW calm r WHERE r.kind = :kind"
    )
    cheap = await admin.subscribe("cheap", kind="x")
    slow = await admin.subscribe("slow", kind="x")
    await admin.publish("crowded", [{"n": n, "kind": "x"} for n in range(3000)])
    for n in range(30):
        await admin.publish("calm", {"n": n, "kind": "x"})
        assert await take(cheap, 1) == [{"n": n}]
    said = await described(admin, "slow")
    behind = re.fullmatch(r"(\S+) s, (\d+) records", said["behind"])
    assert behind is not None
    assert int(behind[2]) == 3000
    assert (await described(admin, "cheap"))["behind"] == "0 s, 0 records"
    async with httpx.AsyncClient() as http, asyncio.timeout(30):
        while True:
            text = (await http.get(f"{live.cluster_url}/metrics")).text
            (records,) = re.findall(
                r'^tocsin_channel_behind_records\{channel="slow"\} (\S+)', text, re.M
            )
            if float(records) == 3000:
                break
            await asyncio.sleep(0.5)
    await slow.unsubscribe()
    await cheap.unsubscribe()
    await admin.sql("DROP CHANNEL slow; DROP CHANNEL cheap")


async def test_records_lie_in_the_window_they_are_told_with(admin: Client) -> None:
    await admin.sql(
        "CREATE DATASET timed (n INT, kind STRING);"
        "CREATE CONTINUOUS CHANNEL windows(kind STRING) AS SELECT r.n, r._received_at AS at,"
        " window_start() AS since, window_end() AS upto FROM NEW timed r WHERE r.kind = :kind"
    )
    async with await admin.subscribe("windows", kind="x") as listening:
        for n in range(150):
            await admin.publish("timed", {"n": n, "kind": "x"})
        told = await take(listening, 150)
    assert [row["n"] for row in told] == list(range(150))
    windows = set()
    for row in told:
        at, since, upto = (dt.datetime.fromisoformat(row[name]) for name in ("at", "since", "upto"))
        assert since < at <= upto
        windows.add((since, upto))
    ordered = sorted(windows)
    for (_, ended), (began, _) in itertools.pairwise(ordered):
        assert ended <= began


@pytest.mark.parametrize(
    ("condition", "bad", "why"),
    [
        ("r.text LIKE '%' || :x || '%'", "a\\b", "escape character"),
        ("r.text RLIKE :x", "((", "is invalid"),
        ("r.n = 1 AND r.text RLIKE concat('^', :x)", "((", "is invalid"),
    ],
)
async def test_an_argument_that_the_query_cannot_compute_with_is_refused(
    admin: Client, condition: str, bad: str, why: str
) -> None:
    query = f"SELECT r.n FROM NEW texts r WHERE {condition}"  # noqa: S608
    await admin.sql("CREATE DATASET IF NOT EXISTS texts (n INT, text STRING)")
    await admin.sql(f"CREATE CONTINUOUS CHANNEL texted(x STRING) AS {query}")
    good = await admin.subscribe("texted", x="flood")
    with pytest.raises(InvalidInput, match=why) as refused:
        await admin.subscribe("texted", x=bad)
    assert refused.value.field == "x"
    await admin.publish("texts", {"n": 1, "text": "a flood"})
    if "^" not in condition:
        assert await take(good, 1) == [{"n": 1}]
    await good.unsubscribe()
    await admin.sql("DROP CHANNEL texted")
