"""`tocsin lab trace`: a recorded broker, replayed, converted and shown; mistakes in words."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import uvloop
from typer.testing import CliRunner, Result

from broker.world import token, until, world
from lab.trace.made import SMALL, trace_of
from tocsin.cli import app
from tocsin.errors import TocsinError
from tocsin.lab.simulators.result_cache.simulator import Outcome
from tocsin.lab.trace import EventTrace, read_trace
from tocsin.lab.trace.writing import EventWriter
from tocsin.protocol.trace import About

FLOOD = {"type": "flood"}


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


def call(*words: str | Path) -> Result:
    return CliRunner().invoke(app, ["lab", "trace", *map(str, words)])


def told(*words: str | Path) -> str:
    """The mistake that a call ends in."""
    error = call(*words).exception
    assert isinstance(error, TocsinError)
    return str(error)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    file = tmp_path / "small.parquet"
    with EventWriter(file, About(policy="lru", budget_bytes=10_000)) as writer:
        writer.write(trace_of(*SMALL).records)
    return file


def test_a_trace_is_replayed_under_each_policy_and_size(small: Path, tmp_path: Path) -> None:
    given = ("--policy", "lru", "--policy", "none", "--size", "300", "--size", "10KB")
    found = call("replay", small, *given, "--network", "cluster_rtt_s=2", "--out", tmp_path)
    assert found.exit_code == 0
    assert "the live broker (lru, 10 KB): hit ratio 0.8000; 4 hits and 1 misses" in found.stdout
    rows = pq.read_table(tmp_path / "replay.parquet").to_pylist()
    assert [(row["policy"], row["size_bytes"], row["hits"]) for row in rows] == [
        ("lru", 300, 3),
        ("lru", 10_000, 6),
        ("none", 300, 0),
        ("none", 10_000, 0),
    ]
    assert set(rows[0]) == {"policy", "size_bytes", "hit_ratio", *Outcome.__struct_fields__}
    assert rows[2]["latency_mean_s"] > 2


def test_without_options_every_policy_is_played_at_the_brokers_own_size(small: Path) -> None:
    lines = call("replay", small).stdout.splitlines()
    assert [line.split("\t")[:2] for line in lines if line.startswith("return-rate")] == [
        ["return-rate", "10 KB"]
    ]


def test_a_trace_goes_to_oracle_general_and_back(small: Path, tmp_path: Path) -> None:
    packed, back = tmp_path / "t.oracleGeneral.zst", tmp_path / "t.parquet"
    assert "5 requests" in call("convert", small, packed).stdout
    assert "5 requests" in call("convert", packed, back).stdout
    assert "objects\t4" in call("show", back).stdout
    assert "publish events\t4" in call("show", small).stdout
    lines = call("replay", back, "--size", "10KB").stdout.splitlines()
    assert [line.split("\t")[0] for line in lines[1:]] == ["fifo", "gdsf", "lru"]


def test_mistakes_are_told_in_words(small: Path, tmp_path: Path) -> None:
    requests = tmp_path / "r.oracleGeneral"
    call("convert", small, requests)
    assert "needs subscribers" in told("replay", requests, "--policy", "lsc", "--size", "1KB")
    assert "no cache size was given" in told("replay", requests)
    assert "'much' is not a size" in told("replay", small, "--size", "much")
    assert "no cache policy is called 'magic'" in told("replay", small, "--policy", "magic")
    assert "a network has no distance" in told("replay", small, "--network", "distance=1")
    assert "not NAME=NUMBER" in told("replay", small, "--network", "far")
    assert "there is no file" in told("show", tmp_path / "none.parquet")
    assert "exists already" in told("convert", small, requests)
    assert "does not tell its format" in told("convert", small, tmp_path / "t.csv")
    assert "exists already" in told("record", "--out", small, "--token", "t")
    assert "no token" in told("record", "--out", tmp_path / "new.parquet")


async def start_recording(broker: str, file: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tocsin", "lab", "trace", "record", "--broker", broker),
        *("--out", str(file), "--token", token("operator", "admin")),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )


async def test_a_live_broker_is_recorded_until_told_to_stop(tmp_path: Path) -> None:
    file = tmp_path / "live.parquet"
    async with world() as made:
        broker = await made.broker()
        alice = await made.client("alice")
        await alice.subscribe("floods", **FLOOD)
        process = await start_recording(broker.url, file)
        await until(lambda: file.exists())
        made.cluster.produce("floods", FLOOD, [{"n": 1}, {"n": 2}])
        await asyncio.sleep(1.0)
        process.terminate()
        output, _ = await process.communicate()
        assert process.returncode == 0, output
    shown = call("show", file).stdout
    assert "publish events\t2" in shown
    assert "arrive events\t1" in shown


def published(file: Path) -> int:
    """In a recording that goes on, as far as it can be read."""
    try:
        trace = read_trace(file)
    except TocsinError:
        return 0
    assert isinstance(trace, EventTrace)
    return trace.counts()["publish"]


async def test_a_killed_recording_is_replayed_as_far_as_it_went(tmp_path: Path) -> None:
    file = tmp_path / "killed.parquet"
    async with world() as made:
        broker = await made.broker()
        alice = await made.client("alice")
        await alice.subscribe("floods", **FLOOD)
        process = await start_recording(broker.url, file)
        await until(lambda: file.exists())
        made.cluster.produce("floods", FLOOD, [{"n": 1}, {"n": 2}])
        await until(lambda: published(file) == 2)
        process.kill()
        assert await process.wait() == -signal.SIGKILL
        made.cluster.produce("floods", FLOOD, [{"n": 3}])
    shown = call("show", file)
    assert "publish events\t2" in shown.stdout
    replayed = call("replay", file, "--policy", "lru,none", "--size", "1KB")
    rows = [line.split("\t") for line in replayed.stdout.splitlines()]
    assert [(row[0], row[3], row[4]) for row in rows[1:3]] == [
        ("lru", "2", "0"),
        ("none", "0", "2"),
    ]
    converted = call("convert", file, tmp_path / "requests.parquet")
    assert "requests" in converted.stdout
    for found in (shown, replayed, converted):
        assert found.exit_code == 0
        assert re.search(
            r"the recording was not finished: what came after \d+\.\d s is missing", found.stderr
        )
