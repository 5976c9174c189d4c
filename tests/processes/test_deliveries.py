"""Deliveries of a whole system: statements in, Kafka topics out, across a kill of the cluster."""

from __future__ import annotations

import asyncio
import uuid
from pathlib import Path
from typing import Any

import pytest

from tocsin.client import Client, consumer_log
from tocsin.dev.kafka import Kafka
from tocsin.errors import NotFound
from tocsin.settings import SHORT_LIVED_JAVA, Settings
from tocsin.system import System

pytestmark = [pytest.mark.processes, pytest.mark.timeout(420)]

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "consumer-logs.md"


def statements() -> list[str]:
    (block,) = PAGE.read_text().split("```sql\n")[1:]
    return [one for one in block.split("```")[0].split(";") if one.strip()]


async def test_the_printed_statements_deliver_to_consumer_logs(
    kafka: Kafka, tmp_path: Path
) -> None:
    """On SQLite, where the channel runs in micro-batches."""
    log = f"{kafka.url}/{uuid.uuid4().hex}"
    settings = Settings(
        data=tmp_path,
        master="local[2]",
        java_options=SHORT_LIVED_JAVA,
        warm_up=False,
        log=log,
        consumer_log_mark_s=0.2,
    )
    async with System(settings, brokers=0) as system:
        token = system.token("ann", "admin", "publish", "subscribe")
        async with Client(cluster=system.cluster_url, token=token) as client:
            with pytest.raises(NotFound, match=r"no topic 'nowhere'"):
                await client.sql(
                    "CREATE DATASET d (a INT); CREATE CONTINUOUS CHANNEL c(a INT)"
                    " DELIVER TO KAFKA 'nowhere' AS SELECT d.a FROM NEW d WHERE d.a = :a"
                )
            for text in statements():
                (answer,) = await client.sql(text)
            made = dict(zip(answer.columns, answer.rows[0], strict=True))
            (described,) = await client.sql("DESCRIBE CHANNEL offers")
            description = dict(described.rows)
            assert description["delivers to"].startswith("consumer logs, admit threshold(0.2,0.8)")
            await publish(client, 0, 5)
            await system.kill("cluster")
            await system.ready("cluster")
            await publish(client, 5, 10)
            found = await asyncio.to_thread(read, log, made["subscription"], made["marker"])
            assert found == [(n + 1, {"restaurant": "R", "discount": n}) for n in range(10)]


async def publish(client: Client, first: int, end: int) -> None:
    records = [{"restaurant": "R", "food": "pizza", "discount": n} for n in range(first, end)]
    await client.publish("menu", records)


def read(log: str, subscription: int, after: int) -> list[tuple[int, Any]]:
    with consumer_log(log, subscription, after) as results:
        found = [results.take(180.0) for _ in range(10)]
    return [(one.position, one.value) for one in found if one is not None]
