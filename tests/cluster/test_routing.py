"""Routed datasets at the real cluster, without Spark: what brokers rely on, and what users see."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from cluster.sparkless import ROUTED, SECRET, ContractDriver, SparklessCluster, sparkless
from contracts.cluster_contract import fresh, probe
from contracts.routing_contract import ROUTING_CHECKS, log_of, numbers_of, subscribe
from log.media import over_every_log
from tocsin.broker.server.cluster_link import ClusterLink
from tocsin.cluster.statements import execute
from tocsin.cluster.subscriptions import Wanted
from tocsin.errors import Conflict, InvalidInput, NotFound, StatementError
from tocsin.model import Dataset
from tocsin.protocol.publishing import StatementResult
from tocsin.service.keys.credentials import credential_of
from tocsin.service.tokens import Identity, mint

ANN = Identity("ann", frozenset({"admin", "publish", "subscribe"}), time.time() + 3600)


async def sql(cluster: SparklessCluster, text: str) -> StatementResult:
    (*_, last) = await execute(cluster, text, ANN, None)
    return last


def told(outcome: StatementResult) -> dict[str, Any]:
    return {row[0]: row[1] for row in outcome.rows}


@pytest.mark.parametrize("stored", [False, True], ids=["log", "stored"])
@over_every_log
async def test_the_cluster_keeps_the_contract_of_routing(
    log_address: str, stored: bool, tmp_path: Path
) -> None:
    """All checks of one cluster: a fresh one for each would take longer than they do."""
    async with sparkless(tmp_path, log=log_address) as cluster:
        await cluster.create_dataset(ROUTED)
        driver = ContractDriver(cluster, stored)
        for check in ROUTING_CHECKS:
            await check(driver)


async def test_a_routed_dataset_is_told_and_its_channel_is_not(tmp_path: Path) -> None:
    async with sparkless(tmp_path) as cluster:
        await sql(cluster, "CREATE DATASET reports (n INT) ROUTED; CREATE DATASET others (n INT)")
        shown = await sql(cluster, "SHOW DATASETS")
        at = shown.columns.index("routed")
        routed = {row[0]: row[at] for row in shown.rows}
        assert routed == {"dead_letters": False, "others": False, "reports": True}
        assert (await sql(cluster, "SHOW CHANNELS")).rows == []
        assert told(await sql(cluster, "DESCRIBE reports"))["routed"].startswith("yes")
        assert told(await sql(cluster, "DESCRIBE others"))["routed"] == "no"


async def test_subscribing_by_statement_binds_the_filter_and_its_beginning(tmp_path: Path) -> None:
    async with sparkless(tmp_path) as cluster:
        await sql(cluster, "CREATE DATASET reports (kind STRING, n INT) ROUTED")
        await sql(cluster, "INSERT INTO reports VALUES ('a', 1), ('b', 2), ('a', 3)")
        end = cluster.log.ends()["reports"]
        made = await sql(cluster, "SUBSCRIBE TO DATASET reports WHERE n > 1 AND kind = 'a'")
        (row,) = (dict(zip(made.columns, one, strict=True)) for one in made.rows)
        assert row["arguments"] == {"where": "kind = 'a' AND n >= 2"}
        assert (row["channel"], row["marker"], row["head"]) == ("dataset/reports", end, end)
        again = await sql(
            cluster, "SUBSCRIBE TO DATASET reports WHERE kind = 'a' AND n >= 2 FROM LAST 1"
        )
        assert again.rows == made.rows
        past = await sql(cluster, "SUBSCRIBE TO DATASET reports WHERE kind = 'b' FROM '1 hour'")
        assert past.rows[0][past.columns.index("marker")] == 0
        last = await sql(cluster, "SUBSCRIBE TO DATASET reports FROM LAST 2")
        first = next(iter(cluster.routing.records.read(reports(cluster), 0, end).records))
        assert last.rows[0][last.columns.index("marker")] == first.position
        shown = await sql(cluster, "SHOW SUBSCRIPTIONS")
        assert [one[shown.columns.index("head")] for one in shown.rows] == [end] * 3


def reports(cluster: SparklessCluster) -> Dataset:
    return cluster.store.catalog.dataset("reports")


async def test_what_cannot_be_subscribed_to_is_refused_by_name(tmp_path: Path) -> None:
    async with sparkless(tmp_path) as cluster:
        await sql(cluster, "CREATE DATASET others (n INT)")
        with pytest.raises(InvalidInput, match="others is not routed"):
            await sql(cluster, "SUBSCRIBE TO DATASET others")
        with pytest.raises(InvalidInput, match="others is not routed"):
            await cluster.subscriptions.subscribe(Wanted("ann", "dataset/others", {"where": ""}))
        with pytest.raises(NotFound, match="nowhere"):
            await sql(cluster, "SUBSCRIBE TO DATASET nowhere")
        await sql(cluster, "CREATE DATASET reports (n INT) ROUTED")
        with pytest.raises(StatementError) as wrong:
            await sql(cluster, "SUBSCRIBE TO DATASET reports\nWHERE colour = 'red'")
        assert (wrong.value.line, wrong.value.column) == (2, 7)
        assert cluster.store.subscriptions.all_() == []


async def test_a_dataset_that_somebody_filters_cannot_be_dropped(tmp_path: Path) -> None:
    async with sparkless(tmp_path) as cluster:
        await sql(cluster, "CREATE DATASET reports (n INT) ROUTED")
        made = await sql(cluster, "SUBSCRIBE TO DATASET reports")
        with pytest.raises(
            Conflict, match=f"dataset reports has 1 subscription: {made.rows[0][0]}"
        ):
            await sql(cluster, "DROP DATASET reports")
        await sql(cluster, f"UNSUBSCRIBE {made.rows[0][0]}; DROP DATASET reports")
        await sql(cluster, "CREATE DATASET reports (n INT)")
        with pytest.raises(InvalidInput, match="not routed"):
            await sql(cluster, "SUBSCRIBE TO DATASET reports")


async def test_what_retention_took_is_told_by_the_floor(tmp_path: Path) -> None:
    async with sparkless(tmp_path) as cluster:
        kept = msgspec.structs.replace(ROUTED, retain_s=3600.0)
        await cluster.create_dataset(kept)
        driver = ContractDriver(cluster, stored=False)
        key = fresh("key")
        async with probe(driver) as broker:
            made = await subscribe(broker, "")
            for n in range(3):
                await driver.publish([{"key": key, "n": n}])
                await asyncio.to_thread(cluster.store_away, kept)
            first, *_ = cluster.store.files.files(ROUTED.name)
            cluster.store.files.replace(ROUTED.name, [first.path], [])
            answer = await broker.fetch(made["backend"], made["marker"], made["marker"] + 10**9)
            assert (answer["floor"], numbers_of(answer)) == (first.end_position, [1, 2])
            assert (await log_of(broker, 0))["floor"] == first.end_position
            assert (await subscribe(broker, ""))["floor"] == first.end_position


async def next_of(lines: AsyncIterator[Any], word: str) -> Any:
    return await anext(line async for line in lines if word in line)


async def test_every_way_in_wakes_the_stream(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log itself tells, so that no way for records to come in can be forgotten."""
    monkeypatch.setattr("tocsin.cluster.routed_stream.PASSED_EVERY_S", 1000.0)
    async with (
        sparkless(tmp_path) as cluster,
        probe(ContractDriver(cluster, stored=False)) as broker,
        asyncio.timeout(30),
    ):
        await cluster.create_dataset(ROUTED)
        async with broker.lines("/v1/routed") as lines:
            assert "entered" in await anext(lines)
            cluster.log.append(ROUTED.name, [b'{"key":"k","n":7}'])
            heard = await next_of(lines, "record")
            assert (heard["after"], heard["record"]) == (0, {"key": "k", "n": 7})


async def test_the_stream_tells_datasets_that_come_and_go(tmp_path: Path) -> None:
    async with (
        sparkless(tmp_path) as cluster,
        probe(ContractDriver(cluster, stored=False)) as broker,
        broker.lines("/v1/routed") as lines,
        asyncio.timeout(30),
    ):
        await cluster.create_dataset(ROUTED)
        assert await next_of(lines, "entered") == {"dataset": ROUTED.name, "entered": 0}
        await cluster.publish_all(ROUTED.name, [{"n": 1}])
        end = (await next_of(lines, "record"))["position"]
        await sql(cluster, f"DROP DATASET {ROUTED.name}")
        assert await next_of(lines, "left") == {"dataset": ROUTED.name, "left": True}
        await cluster.create_dataset(msgspec.structs.replace(ROUTED, created_at=2.0))
        again = await next_of(lines, "entered")
        assert again["entered"] >= end
        await cluster.publish_all(ROUTED.name, [{"n": 2}])
        assert (await next_of(lines, "record"))["record"] == {"n": 2}


async def test_a_broker_stays_on_the_stream_of_a_cluster_that_routes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tocsin.cluster.routed_stream.PASSED_EVERY_S", 0.1)
    monkeypatch.setattr("tocsin.broker.server.cluster_link.SILENT_S", 1.0)
    async with sparkless(tmp_path) as cluster:
        link = ClusterLink(cluster.url, credential_of(cluster.settings), "broker_1")
        first = asyncio.ensure_future(anext(link.routed()))
        await asyncio.sleep(2.0)  # it would have given up by now
        await cluster.create_dataset(ROUTED)
        assert (await first).dataset == ROUTED.name
        await link.close()


async def test_extra_fields_of_an_open_dataset_are_part_of_its_records(tmp_path: Path) -> None:
    async with sparkless(tmp_path) as cluster:
        await cluster.create_dataset(msgspec.structs.replace(ROUTED, open=True))
        await cluster.publish_all(ROUTED.name, [{"n": 1, "mood": "grim"}, {"mood": "gay"}])
        async with probe(ContractDriver(cluster, stored=False)) as broker:
            found = (await log_of(broker, 0))["records"]
            assert [one["record"] for one in found] == [{"n": 1, "mood": "grim"}, {"mood": "gay"}]


async def test_a_reader_that_is_far_behind_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tocsin.cluster.routed_stream.BEHIND_BYTES", 1000)
    async with sparkless(tmp_path) as cluster:
        await cluster.create_dataset(ROUTED)
        async with probe(ContractDriver(cluster, stored=False)) as broker, asyncio.timeout(30):
            async with broker.lines("/v1/routed") as lines:
                assert "entered" in await anext(lines)
                await cluster.publish_all(ROUTED.name, [{"key": "x" * 900, "n": 1}] * 3)
                assert [line async for line in lines if "record" in line] == []
            async with broker.lines("/v1/routed") as lines:
                assert (await anext(lines))["entered"] == cluster.log.ends()[ROUTED.name]


async def test_the_stream_ends_with_its_token(tmp_path: Path) -> None:
    async with sparkless(tmp_path, token_leeway_s=0.0) as cluster:
        await cluster.create_dataset(ROUTED)
        token = mint(SECRET, "broker_1", ["broker"], expires_s=2, now=time.time())
        headers = {"authorization": f"Bearer {token}"}
        async with (
            asyncio.timeout(30),
            httpx.AsyncClient(headers=headers) as http,
            http.stream("GET", cluster.url + "/v1/routed") as answer,
        ):
            assert [line async for line in answer.aiter_lines()]


async def test_queries_out_of_range_are_refused_by_name(tmp_path: Path) -> None:
    async with sparkless(tmp_path) as cluster:
        await cluster.create_dataset(ROUTED)
        async with probe(ContractDriver(cluster, stored=False)) as broker:
            for query in ("after=-1", "upto=x", "limit=0", f"after={2**63}"):
                path = f"/v1/datasets/{ROUTED.name}/log?{query}"
                error = (await broker.call("GET", path, status=400))["error"]
                assert error["field"] == query.split("=")[0]
            beyond = await log_of(broker, 10**9, 2 * 10**9)
            assert beyond["records"] == []
            made = await subscribe(broker, "")
            answer = await broker.fetch(made["backend"], 10**9, 2 * 10**9)
            assert answer["results"] == []


async def test_many_ranges_share_what_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A burst moves all filters of a dataset at once: its log is not read for each."""
    async with sparkless(tmp_path) as cluster:
        await cluster.create_dataset(ROUTED)
        reads = []
        read = cluster.routing.records.read

        def counted(*given: Any) -> Any:
            reads.append(given)
            return read(*given)

        monkeypatch.setattr(cluster.routing.records, "read", counted)
        async with probe(ContractDriver(cluster, stored=False)) as broker:
            made = [await subscribe(broker, f"n = {n}") for n in range(5)]
            await cluster.publish_all(ROUTED.name, [{"n": n} for n in range(5)])
            ranges = [
                {"backend": one["backend"], "after": 0, "upto": 10**6, "limit": 10} for one in made
            ]
            told = await broker.call("POST", "/v1/results", {"ranges": ranges})
            assert [numbers_of(one) for one in told["ranges"]] == [[n] for n in range(5)]
            assert len(reads) == 1
