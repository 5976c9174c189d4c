"""Channels in real-time mode share a query of Spark's, on Kafka and PostgreSQL: they answer as they
would by themselves, and none has to do with another's coming, going or failing."""

# ruff: noqa: S608 - writing queries is what it is for

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any

import httpx
import msgspec
import pytest

from tocsin.client import ANY, Client
from tocsin.dev.kafka import Kafka
from tocsin.dev.postgresql import PostgreSQL
from tocsin.settings import Settings
from tocsin.system import System

from .load import short_lived

pytestmark = [pytest.mark.processes, pytest.mark.timeout(420)]

BATCH_S = 2.0
DATASET = (
    "CREATE DATASET reports (id INT, kind STRING, sev INT, big BIGINT, score DOUBLE,"
    " price DECIMAL(8,2), ok BOOLEAN, day DATE, at TIMESTAMP, lat DOUBLE, lon DOUBLE,"
    " pattern STRING)"
)


@pytest.fixture
def settings(tmp_path: Path, kafka: Kafka, postgresql: PostgreSQL) -> Settings:
    return short_lived(
        tmp_path,
        log=f"{kafka.url}/{uuid.uuid4().hex}",
        store=postgresql.fresh(),
        real_time_batch_s=BATCH_S,
        real_time_slots=2,
    )


class People:
    """Everybody who listens, and what they were shown."""

    def __init__(self, system: System, client: Client) -> None:
        self.system = system
        self.client = client
        self.shown: dict[str, list[dict[str, Any]]] = {}
        self.gaps: dict[str, list[Any]] = {}
        self._listening: list[asyncio.Task[None]] = []

    async def subscribe(self, name: str, channel: str, **given: Any) -> None:
        subscription = await self.client.subscribe(channel, **given)
        shown, gaps = self.shown.setdefault(name, []), self.gaps.setdefault(name, [])

        subscription.on_gap(gaps.append)

        async def listen() -> None:
            async for result in subscription:
                shown.append(result.value)

        self._listening.append(asyncio.create_task(listen()))

    def ids(self, name: str) -> list[int]:
        return [value["id"] if "id" in value else value["ID"] for value in self.shown[name]]

    async def until(self, name: str, goal: set[int], limit_s: float = 60.0) -> None:
        """And nothing comes twice."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while not goal <= set(self.ids(name)):  # noqa: ASYNC110
                    await asyncio.sleep(0.1)
        counts = Counter(self.ids(name))
        assert goal - counts.keys() == set(), name
        assert [id_ for id_, count in counts.items() if count > 1] == [], name

    async def described(self, channel: str) -> dict[str, Any]:
        (answer,) = await self.client.sql(f"DESCRIBE CHANNEL {channel}")
        return {name: value for name, value in answer.rows}

    async def share(self, channel: str, others: int, limit_s: float = 90.0) -> None:
        """Wait until the channel's query has so many others."""
        said = ""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                while f"with {others} other" not in said:
                    said = (await self.described(channel))["real-time query"]
                    await asyncio.sleep(0.3)
        assert f"with {others} other" in said

    async def caught_up(self, channel: str) -> None:
        """And what it found was delivered."""
        async with asyncio.timeout(90):
            while (await self.described(channel))["behind"] != "0 s, 0 records":  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        await asyncio.sleep(1.0)

    async def handed_over(self) -> None:
        """Batches begin that look at all there are."""
        await asyncio.sleep(3 * BATCH_S)

    async def matches(self) -> float:
        """How many came from Spark's own queries."""
        async with httpx.AsyncClient() as http:
            text = (await http.get(f"{self.system.cluster_url}/metrics")).text
        (count,) = re.findall(r"^tocsin_matches_total (\S+)", text, re.M)
        return float(count)

    async def stop(self) -> None:
        for task in self._listening:
            task.cancel()
        await asyncio.gather(*self._listening, return_exceptions=True)


@asynccontextmanager
async def running(settings: Settings) -> AsyncIterator[People]:
    async with System(settings) as system:
        token = system.token("ann", "admin", "publish", "subscribe")
        async with Client(
            system.coordinator_url, cluster=system.cluster_url, token=token
        ) as client:
            await client.sql(DATASET)
            people = People(system, client)
            try:
                yield people
            finally:
                await people.stop()


def report(id_: int, **more: Any) -> dict[str, Any]:
    return {"id": id_, "kind": "flood", "sev": 3, **more}


KINDS = ["flood", "Fire", "it's", None]
Question = tuple[str, str, str, list[dict[str, Any]]]
"""Of a channel: its parameters, columns and condition; and arguments."""
QUESTIONS: dict[str, Question] = {
    "of_kind": ("kind STRING", "r.*", "r.kind = :kind", [{"kind": "flood"}, {"kind": "it's"},
                {"kind": ANY}]),
    "of_sev": ("sev INT", "R.ID, R.Sev, :SEV + 1 AS Given", "R.SEV = :sev",
               [{"sev": 2}, {"sev": 3}]),
    "of_big": ("big BIGINT", "id, big", "sev = :big", [{"big": 2}, {"big": 1 << 40}]),
    "of_score": ("score DOUBLE", "id, score", "score = :score", [{"score": -0.0}, {"score": 1.5}]),
    "of_price": ("price DECIMAL(8,2)", "id, price", "price = :price", [{"price": "1.50"}]),
    "of_ok": ("ok BOOLEAN", "id, ok", "ok = :ok AND sev <> 2", [{"ok": True}, {"ok": False}]),
    "of_day": ("day DATE", "id, day", "day = :day", [{"day": "2026-01-02"}]),
    "of_time": ("at TIMESTAMP", "id, at", "at = :at", [{"at": "2026-01-01T10:00:00Z"}]),
    "of_text": ("kind STRING", "id, upper(kind) AS k", "upper(kind) = upper(:kind)",
                [{"kind": "fire"}]),
    "null_safe": ("kind STRING", "id", "kind <=> :kind AND (sev > 1 OR ok)", [{"kind": "Fire"}]),
    "close": ("lat DOUBLE, lon DOUBLE, km DOUBLE", "id, lat", "near(lat, lon, :lat, :lon, :km)",
              [{"lat": 50.0, "lon": 10.0, "km": 0.2}, {"lat": 50.0, "lon": 10.0, "km": 400.0}]),
    "close_of_kind": ("lat DOUBLE, lon DOUBLE, kind STRING", "id",
                      "near(lat, lon, :lat, :lon, 20) AND kind = :kind",
                      [{"lat": 50.0, "lon": 10.0, "kind": "flood"},
                       {"lat": 50.0, "lon": 10.0, "kind": ANY}]),
    "ranged": ("low INT, high INT", "id, sev", "sev BETWEEN :low AND :high",
                [{"low": 2, "high": 3}, {"low": 3, "high": ANY}]),
    "later": ("at TIMESTAMP", "id, at", "at >= :at", [{"at": "2026-01-01T12:00:00Z"}]),
}  # fmt: skip


async def test_channels_that_share_a_query_answer_as_they_do_by_themselves(
    settings: Settings,
) -> None:
    """Beside each is one that asks the same in ordinary runs: a UNION ALL is not for real time."""
    async with running(settings) as people:
        for name, (parameters, columns, where, _) in QUESTIONS.items():
            query = f"SELECT {columns} FROM NEW reports r WHERE {where}"
            twin = f"{query} UNION ALL {query} AND 1 = 0"
            await people.client.sql(f"CREATE CONTINUOUS CHANNEL {name}({parameters}) AS {query}")
            await people.client.sql(
                f"CREATE CONTINUOUS CHANNEL {name}_twin({parameters}) AS {twin}"
            )
            assert (await people.described(name))["mode"].startswith("real-time")
            assert (await people.described(f"{name}_twin"))["mode"].startswith("micro-batches")
        asked = [(name, n, given) for name, q in QUESTIONS.items() for n, given in enumerate(q[3])]
        for name, number, given in asked:
            await people.subscribe(f"{name}-{number}", name, **given)
            await people.subscribe(f"{name}-{number}-twin", f"{name}_twin", **given)
        await people.share("of_kind", len(QUESTIONS) - 1)
        await people.handed_over()
        before = await people.matches()
        draw, records = Random(7), []
        for id_ in range(300):
            record = {
                "kind": draw.choice(KINDS),
                "sev": draw.randrange(5),
                "big": draw.choice([2, 1 << 40]),
                "score": draw.choice([0.0, -0.0, 1.5, float("1e300")]),
                "price": draw.choice(["1.50", "1.5", "-3.10"]),
                "ok": draw.random() < 0.5,
                "day": draw.choice(["2026-01-01", "2026-01-02"]),
                "at": draw.choice(["2026-01-01T10:00:00Z", "2026-01-01T13:00:00.000001Z"]),
                "lat": draw.choice([50.0, 50.001, 51.0, -33.0]),
                "lon": draw.choice([10.0, 10.001, 11.0]),
            }
            nulled = {n: None if draw.random() < 0.1 else value for n, value in record.items()}
            records.append({"id": id_, **nulled})
        for start in range(0, len(records), 25):
            await people.client.publish("reports", records[start : start + 25])
            await asyncio.sleep(0.2)
        for name in QUESTIONS:
            await people.caught_up(f"{name}_twin")
        total = 0
        for name, number, _ in asked:
            person = f"{name}-{number}"
            await people.until(person, set(people.ids(f"{person}-twin")))
            mine, its = (
                sorted(json.dumps(value) for value in people.shown[who])
                for who in (person, f"{person}-twin")
            )
            assert mine == its, person
            total += len(mine)
        assert total > 1000
        assert await people.matches() - before >= total  # it was not ordinary runs that found them


async def test_a_hundred_channels_share_one_slot_and_none_feels_another_fail(
    settings: Settings,
) -> None:
    settings = msgspec.structs.replace(settings, real_time_slots=1)
    async with running(settings) as people:
        await people.client.sql("CREATE DATASET other (id INT, kind STRING)")
        for n in range(99):
            await people.client.sql(
                f"CREATE CONTINUOUS CHANNEL c{n}(kind STRING) AS SELECT r.id, {n} AS n"
                f" FROM NEW reports r WHERE r.kind = :kind AND r.sev >= {n % 4}"
            )
            await people.subscribe(f"c{n}", f"c{n}", kind="flood")
        await people.client.sql(
            "CREATE CONTINUOUS CHANNEL fragile(kind STRING) AS SELECT r.id FROM NEW reports r"
            " WHERE r.kind = :kind AND r.kind RLIKE coalesce(r.pattern, '.')"
        )
        await people.subscribe("fragile", "fragile", kind="flood")
        await people.client.sql(
            "CREATE CONTINUOUS CHANNEL elsewhere(kind STRING) AS SELECT r.id FROM NEW other r"
            " WHERE r.kind = :kind"
        )
        assert "slots are taken" in (await people.described("elsewhere"))["mode"]
        await people.share("c7", 99)
        await people.handed_over()
        before = await people.matches()
        await people.client.publish("reports", [report(n, sev=n % 5) for n in range(40)])
        for n in range(99):
            await people.until(f"c{n}", {i for i in range(40) if i % 5 >= n % 4})
        await people.until("fragile", set(range(40)))
        assert await people.matches() - before >= 40 * 60

        await people.client.publish("reports", report(100))
        await people.client.publish("reports", report(101, pattern="(("))
        await people.client.publish("reports", report(102))
        for n in range(99):
            await people.until(f"c{n}", {100, 101, 102})
        await people.until("fragile", {100, 102})
        async with asyncio.timeout(60):
            while not people.gaps["fragile"]:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
        assert not any(people.gaps[f"c{n}"] for n in range(99))
        assert "101" not in str(people.ids("fragile"))
        await people.share("c7", 98)
        assert "it failed" in (await people.described("fragile"))["real-time query"]
        await people.client.publish("reports", report(103))  # served by ordinary runs meanwhile
        for name in ("fragile", "c0", "c98"):
            await people.until(name, {103})


async def test_nobody_misses_or_gets_twice_while_channels_come_and_go_and_java_dies(
    settings: Settings,
) -> None:
    """Each subscription counts from the moment it is made."""
    async with running(settings) as people:
        created = (
            "CREATE CONTINUOUS CHANNEL {}(kind STRING) AS SELECT r.id FROM NEW reports r"
            " WHERE r.kind = :kind"
        )
        await people.client.sql(created.format("first"))
        await people.subscribe("first", "first", kind="flood")
        done, since = asyncio.Event(), {"first": 0}
        published = 0

        async def publish() -> None:
            nonlocal published
            while not done.is_set():
                number, published = published, published + 1
                await people.client.publish("reports", report(number))
                await asyncio.sleep(0.02)

        publishing = asyncio.create_task(publish())
        for turn in range(12):
            name = f"turn{turn}"
            await people.client.sql(created.format(name))
            await people.subscribe(name, name, kind="flood")
            since[name] = published
            await people.subscribe(f"{name}-any", name, kind=ANY)
            since[f"{name}-any"] = published
            await people.client.sql(created.format("fleeting"))
            if turn == 5:
                await _kill_java(people.system)
            await asyncio.sleep(1.0)
            await people.client.sql("DROP CHANNEL fleeting")
        await people.handed_over()
        await people.subscribe("late", "first", kind=ANY)
        since["late"] = published
        await asyncio.sleep(2 * BATCH_S)
        done.set()
        await publishing
        for name, first in since.items():
            await people.until(name, set(range(first, published)))
        assert await people.matches() > 100
        await people.share("first", 12)


async def _kill_java(system: System) -> None:
    import psutil

    children = psutil.Process(system.pid("cluster")).children()
    next(child for child in children if child.name() == "java").kill()
    async with asyncio.timeout(90):
        await asyncio.sleep(2.0)
        await system.ready("cluster")
