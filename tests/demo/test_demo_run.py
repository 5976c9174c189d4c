"""The demo as a person runs it: real services, a small city, the promises checked at its end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.processes, pytest.mark.timeout(900)]


async def start(*arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tocsin",
        "demo",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
        # Not the terminal of whoever runs the tests: what a log file would get.
        env={**os.environ, "TERM": "dumb"},
    )


async def test_a_short_demo_delivers_everything_once_and_in_order(tmp_path: Path) -> None:
    account, data = tmp_path / "account.json", tmp_path / "data"
    process = await start(
        *("--seconds", "8", "--subscribers", "20", "--speed", "30"),
        *("--json", str(account), "--data", str(data)),
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    told = json.loads(account.read_bytes())
    assert told["published"] > 0
    assert told["results"] > 0
    assert told["delivered"] > 0
    assert (told["lost"], told["doubled"], told["out_of_order"]) == (0, 0, 0)
    assert set(told["latency_ms"]) == {"p50", "p99"}
    assert 0 <= told["hit_ratio"] <= 1
    assert told["pages_opened"] > 0
    assert 0 < told["page_hit_ratio"] <= 1
    assert set(told["brokers"]) == {"broker_1", "broker_2"}
    assert sum(each["delivered"] for each in told["brokers"].values()) == told["delivered"]
    assert told["mishaps"] == []
    assert "What reached the subscribers" in out.decode()
    for name in ("cluster", "coordinator", "broker_1", "broker_2", "token"):
        assert f"  {name}" in err.decode()
    assert not data.exists()


async def test_ctrl_c_ends_in_the_table_of_what_was_seen_and_leaves_nothing(tmp_path: Path) -> None:
    account, data = tmp_path / "account.json", tmp_path / "data"
    process = await start(
        *("--seconds", "600", "--subscribers", "5", "--speed", "10"),
        *("--json", str(account), "--data", str(data)),
    )
    assert process.stderr is not None
    heard = b""
    while b"clock starts" not in heard:
        line = await process.stderr.readline()
        assert line, heard.decode()
        heard += line
    process.send_signal(signal.SIGINT)
    out, err = await process.communicate()
    assert process.returncode == 130, err.decode()
    told = json.loads(account.read_bytes())
    assert told["interrupted"]
    assert (told["lost"], told["doubled"], told["out_of_order"]) == (0, 0, 0)
    assert "What reached the subscribers" in out.decode()
    assert not data.exists()
