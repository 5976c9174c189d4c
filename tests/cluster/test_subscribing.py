"""Many subscriptions at once: by a list, by a statement, and by many callers at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from cluster.sparkless import SparklessCluster
from cluster.test_grants import ADMIN, called, furnished, sql, token, who
from tocsin.cluster import subscriptions
from tocsin.errors import InvalidInput, QuotaExceeded, StatementError, TooLarge
from tocsin.storage.store.subscribing import Asked, Made

ANN, BOB = who("ann"), who("bob")
EDGE = who("edge", scopes=("broker",))


@pytest.fixture(name="cluster")
async def _cluster(tmp_path: Path) -> AsyncIterator[SparklessCluster]:
    async with furnished(tmp_path) as cluster:
        await called(cluster, EDGE, "PUT", "/v1/brokers/edge", {"url": "http://127.0.0.1:9"})
        yield cluster


async def posted(cluster: SparklessCluster, wanted: Any, identity: Any = ANN) -> httpx.Response:
    return await called(cluster, identity, "POST", "/v1/subscriptions", wanted)


def alerts(*numbers: Any, **more: Any) -> list[dict[str, Any]]:
    return [{"channel": "alerts", "arguments": [number], **more} for number in numbers]


def stored(cluster: SparklessCluster) -> list[tuple[str, Any]]:
    made = cluster.store.subscriptions.all_()
    return [(one.subscriber, one.backend.arguments["n"]) for one in made]


async def test_a_list_is_answered_item_by_item_in_its_order(cluster: SparklessCluster) -> None:
    known = (await posted(cluster, alerts(7)[0])).json()
    answer = await posted(cluster, alerts(9, 7, 8, 9))
    assert answer.status_code == 200, answer.text
    made = answer.json()
    assert [one["arguments"] for one in made] == [{"n": 9}, {"n": 7}, {"n": 8}, {"n": 9}]
    assert made[1] == known
    assert made[0] == made[3]
    assert sorted(stored(cluster)) == [("ann", 7), ("ann", 8), ("ann", 9)]
    assert (await posted(cluster, [])).json() == []


@pytest.mark.parametrize(
    ("bad", "status", "field"),
    [
        ({"channel": "alerts", "arguments": {"m": 1}}, 400, "m"),
        ({"channel": "alerts", "arguments": ["many"]}, 400, "n"),
        ({"channel": "nothing", "arguments": []}, 404, "channel"),
        ({"channel": "alerts", "arguments": [1], "subscriber": "bob"}, 403, "subscriber"),
        ({"channel": "dataset/reports", "arguments": {"where": ""}}, 400, "dataset"),
    ],
)
async def test_one_that_cannot_be_had_refuses_the_list_and_is_named(
    cluster: SparklessCluster, bad: dict[str, Any], status: int, field: str
) -> None:
    answer = await posted(cluster, [*alerts(1, 2), bad, *alerts(3)])
    error = answer.json()["error"]
    assert (answer.status_code, error["index"], error["field"]) == (status, 2, field)
    assert stored(cluster) == []


async def test_what_does_not_fit_the_list_is_named(cluster: SparklessCluster) -> None:
    answer = await posted(cluster, [*alerts(1), {"channel": 5, "arguments": []}])
    assert (answer.status_code, answer.json()["error"]["field"]) == (400, "[1].channel")


async def test_a_list_has_room_in_a_quota_or_none_of_it(cluster: SparklessCluster) -> None:
    await sql(cluster, "SET QUOTA subscriptions = 3 FOR EVERYBODY")
    assert (await posted(cluster, alerts(1, 2, 3, 4))).status_code == 429
    assert stored(cluster) == []
    assert (await posted(cluster, alerts(1, 2, 3, 3))).status_code == 200
    assert (await posted(cluster, alerts(4)[0])).status_code == 429


async def test_a_list_has_a_most(
    cluster: SparklessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscriptions, "MOST_AT_ONCE", 3)
    answer = await posted(cluster, alerts(1, 2, 3, 4))
    assert (answer.status_code, answer.json()["error"]["field"]) == (413, "subscriptions")
    with pytest.raises(TooLarge):
        await sql(cluster, "SUBSCRIBE TO alerts VALUES (1), (2), (3), (4)")
    assert stored(cluster) == []


async def test_a_broker_asks_by_a_list_for_many(cluster: SparklessCluster) -> None:
    wanted = [*alerts(1, subscriber="ann", broker="edge"), *alerts(1, subscriber="bob")]
    made = (await posted(cluster, wanted, EDGE)).json()
    assert [(one["subscriber"], one["broker"]) for one in made] == [("ann", "edge"), ("bob", None)]
    assert made[0]["backend"] == made[1]["backend"]


async def test_a_statement_makes_one_for_each_row(cluster: SparklessCluster) -> None:
    answer = await sql(
        cluster, "SUBSCRIBE TO alerts VALUES (5), (n => 6), (5) ON edge FROM LAST 3", ANN
    )
    assert answer.message == "3 subscriptions"
    column = answer.columns.index("arguments")
    assert [row[column] for row in answer.rows] == [{"n": 5}, {"n": 6}, {"n": 5}]
    assert {row[answer.columns.index("broker")] for row in answer.rows} == {"edge"}
    assert stored(cluster) == [("ann", 5), ("ann", 6)]


async def test_a_bad_row_of_a_statement_is_named_and_nothing_is_made(
    cluster: SparklessCluster,
) -> None:
    with pytest.raises(InvalidInput, match=r"^row 2: parameter 'n'") as raised:
        await sql(cluster, "SUBSCRIBE TO alerts(1); SUBSCRIBE TO alerts VALUES (5), ('x')", ANN)
    assert (raised.value.field, raised.value.index) == ("n", None)
    with pytest.raises(StatementError, match="an argument"):
        await sql(cluster, "SUBSCRIBE TO alerts VALUES (5), (6", ANN)
    assert stored(cluster) == []


async def test_those_who_ask_at_the_same_time_share_transactions_and_nothing_else(
    cluster: SparklessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await sql(cluster, "CREATE ROLE cooks; GRANT SUBSCRIBE ON CHANNEL alerts TO cooks")
    await sql(cluster, "SET QUOTA subscriptions = 5 FOR ROLE cooks")
    store, together = cluster.store.subscriptions, []
    make = store.subscribe_together

    def counted(asked: Sequence[Asked]) -> list[Made | Exception]:
        together.append(len(asked))
        return list(make(asked))

    monkeypatch.setattr(store, "subscribe_together", counted)
    people = [who(name, "cooks") for name in ("eve", "joe")] + [ANN]
    async with httpx.AsyncClient(base_url=cluster.url, timeout=30) as http:

        async def ask(number: int) -> int:
            person = people[number % 3]
            headers = {"authorization": f"Bearer {token(person)}"}
            body = alerts(number // 3 // 2)[0]  # each asks twice for each
            return (await http.post("/v1/subscriptions", headers=headers, json=body)).status_code

        answers = await asyncio.gather(*(ask(number) for number in range(48)))
    assert sum(together) < 48
    assert max(together) > 1
    by_person = [[answers[n] for n in range(first, 48, 3)] for first in range(3)]
    assert by_person[2] == [404] * 16  # nothing is granted to ann
    for allowed in by_person[:2]:
        assert sorted(allowed) == [200] * 10 + [429] * 6
    assert len(stored(cluster)) == 10


async def test_what_a_transaction_fails_on_harms_only_who_asked_for_it(
    cluster: SparklessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, make = cluster.store.subscriptions, cluster.store.subscriptions.subscribe_together

    def picky(asked: Sequence[Asked]) -> list[Made | Exception]:
        if any(wish.arguments["n"] == 13 for one in asked for wish in one.wishes):
            raise TooLarge("13 is too much for this database")
        return list(make(asked))

    monkeypatch.setattr(store, "subscribe_together", picky)
    answers = await asyncio.gather(
        *(posted(cluster, alerts(number)[0]) for number in range(10, 16))
    )
    assert [answer.status_code for answer in answers] == [200, 200, 200, 413, 200, 200]


async def test_spark_is_asked_for_what_nobody_vouches_for(
    cluster: SparklessCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await posted(cluster, alerts(3)[0])
    asked: list[list[int]] = []

    class Picky:
        def __getattr__(self, name: str) -> Any:
            return lambda *_: None

        def vouches(self, _: str, arguments: Any) -> bool:
            return bool(arguments["n"] < 3)

        def first_refused(self, _: str, sets: Any) -> tuple[int, InvalidInput] | None:
            asked.append([arguments["n"] for arguments in sets])
            refused = [place for place, arguments in enumerate(sets) if arguments["n"] == 5]
            return (refused[0], InvalidInput("5 is refused", field="n")) if refused else None

    monkeypatch.setattr(cluster, "_engine", Picky())
    assert (await posted(cluster, alerts(1, 3, 4))).status_code == 200
    assert asked == [[4]]  # 3 is what somebody has already
    error = (await posted(cluster, alerts(1, 3, 6, 5, 7))).json()["error"]
    assert (error["index"], error["message"]) == (3, "5 is refused")
    single = (await posted(cluster, alerts(5)[0])).json()["error"]
    assert "index" not in single
    assert (await posted(cluster, alerts(2)[0])).status_code == 200
    assert asked[1:] == [[6, 5, 7], [5]]


async def test_a_quota_names_what_it_is_about(cluster: SparklessCluster) -> None:
    await sql(cluster, "SET QUOTA parameter_sets = 1 FOR EVERYBODY")
    with pytest.raises(QuotaExceeded) as raised:
        await sql(cluster, "SUBSCRIBE TO alerts VALUES (1), (2)", ANN)
    assert raised.value.field == "parameter_sets"
    assert (await sql(cluster, "SUBSCRIBE TO alerts VALUES (1), (2)", ADMIN)).rows
