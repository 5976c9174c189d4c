"""The page about routed datasets: its statements and its command, on a live system."""

from __future__ import annotations

import asyncio
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tocsin.client import Client
from tocsin.system import System

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "routed-datasets.md"
CHANNEL = (
    "CREATE CONTINUOUS CHANNEL alerts(kind STRING, lat DOUBLE, lon DOUBLE, km DOUBLE) AS "
    "SELECT r.id FROM NEW reports r "
    "WHERE r.kind = :kind AND near(r.lat, r.lon, :lat, :lon, :km)"
)

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]


def own(text: str) -> str:
    """The system is shared with other tests: names of our own."""
    return re.sub(r"\b(reports|alerts)\b", r"page_\1", text)


async def test_statements_and_command_of_the_page_do_what_it_says(live: System) -> None:
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", own(PAGE.read_text()), re.M | re.S)
    (declared,) = [body for kind, body in blocks if kind == "sql"]
    (past,) = [body for kind, body in blocks if kind == "text" and "FROM" in body]
    (printed,) = [body for kind, body in blocks if kind == "console"]
    token = live.token("reader", "admin", "publish", "subscribe")
    async with Client(cluster=live.cluster_url, token=token) as client:
        await client.sql(declared)
        await client.sql(own(CHANNEL))
        assert len(await client.sql(past)) == 2
        for at, url in enumerate(live.broker_urls.values()):
            async with Client(url, cluster=live.cluster_url, token=token) as at_broker:
                stream = await at_broker.subscribe_to_dataset("page_reports", f"level >= {at}")
                await at_broker.publish("page_reports", {"id": f"r{at}", "level": 5})
                async for result in stream:
                    assert result.value == {"id": f"r{at}", "level": 5}
                    break
    command, expected = printed.removeprefix("$ ").strip().split("\n")
    words = [
        word.replace("http://127.0.0.1:7420", url).replace("$TOCSIN_TOKEN", token)
        for word in shlex.split(command)
    ]
    ran = await asyncio.to_thread(
        subprocess.run, words, capture_output=True, text=True, check=True, timeout=30
    )
    answer = ran.stdout
    assert re.fullmatch(re.escape(expected).replace("…", ".*"), answer.strip()), answer
