"""Poison: what others wait while one token sends what is costly to read and to refuse.

Real processes: a cluster, a broker, ordinary publishers and a subscriber of a routed dataset. They
are measured alone and beside a sender of large bodies, of statements and of frames, in turns.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import httpx
import msgspec

from bench.findings import Finding, latency
from bench.latency import Arrivals
from bench.poison_senders import DATASET as POISONED
from tocsin.client import Client
from tocsin.protocol.broker import BrokerInfo
from tocsin.settings import SHORT_LIVED_JAVA, Settings
from tocsin.system import System

POISONS = {
    "bodies": "large bodies",
    "statements": "statements",
    "frames": "frames at the broker",
}
PUBLISHERS = 4
PAUSE_S = 0.05
MOST_TIMES_SLOWER = 3.0
DATASET = "ordinary"
CREATE = (
    f"CREATE DATASET {DATASET} (number BIGINT, text STRING) ROUTED;"
    f"CREATE DATASET {POISONED} (number BIGINT, text STRING)"
)


class Ordinary:
    """Publishers and a subscriber: how long each publication took to be durable, and to arrive."""

    def __init__(self, client: Client, arrivals: Arrivals) -> None:
        self._client = client
        self._arrivals = arrivals
        self._number = 0

    async def play(self, seconds: float) -> tuple[list[float], list[float]]:
        sent: dict[int, float] = {}
        durable_ms: list[float] = []
        until = time.perf_counter() + seconds

        async def publish() -> None:
            while time.perf_counter() < until:
                self._number += 1
                number = self._number
                sent[number] = time.perf_counter()
                await self._client.publish(DATASET, {"number": number, "text": "x" * 200})
                durable_ms.append(1000 * (time.perf_counter() - sent[number]))
                await asyncio.sleep(PAUSE_S)

        await asyncio.gather(*(publish() for _ in range(PUBLISHERS)))
        await asyncio.gather(*(self._arrivals.wait_for(number) for number in sent))
        arrived_ms = [1000 * (self._arrivals.at[number] - at) for number, at in sent.items()]
        return durable_ms, arrived_ms


def run(quick: bool, say: Callable[[str], None]) -> list[Finding]:
    return asyncio.run(_run(4.0 if quick else 10.0, 1 if quick else 3, say))


async def _run(seconds: float, rounds: int, say: Callable[[str], None]) -> list[Finding]:
    findings = []
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder:
        say("starting a cluster, a coordinator and a broker")
        settings = Settings(data=Path(folder), warm_up=False, java_options=SHORT_LIVED_JAVA)
        async with System(settings) as system:
            token = system.token("ordinary", "publish", "subscribe", "admin")
            async with Client(
                system.coordinator_url, cluster=system.cluster_url, token=token
            ) as client:
                await client.sql(CREATE)
                arrivals = Arrivals()
                listening = asyncio.create_task(_listen(client, arrivals))
                await arrivals.listening.wait()
                ordinary = Ordinary(client, arrivals)
                say("warming up")
                await ordinary.play(seconds / 2)
                for kind in POISONS:
                    findings += await _compared(system, ordinary, kind, seconds, rounds, say)
                listening.cancel()
    return findings


async def _compared(
    system: System,
    ordinary: Ordinary,
    kind: str,
    seconds: float,
    rounds: int,
    say: Callable[[str], None],
) -> list[Finding]:
    alone: list[list[float]] = [[], []]
    beside: list[list[float]] = [[], []]
    for _ in range(rounds):
        for figures, poisoned in ((alone, False), (beside, True)):
            say(f"{POISONS[kind]}: ordinary publishers {'beside them' if poisoned else 'alone'}")
            async with _poison(system, kind) if poisoned else contextlib.nullcontext():
                for known, more in zip(figures, await ordinary.play(seconds), strict=True):
                    known += more
    findings = []
    for what, ours, theirs in zip(("durable", "at the subscriber"), beside, alone, strict=True):
        for share in (0.5, 0.99):
            claim, baseline_is = f"{what} beside {POISONS[kind]}", "the same publishers alone"
            finding = latency(claim, share, ours, theirs, baseline_is=baseline_is)
            details = finding.details | {"times_slower": round(1 / finding.ratio, 2)}
            target = MOST_TIMES_SLOWER * finding.baseline if share > 0.9 else None
            findings.append(msgspec.structs.replace(finding, target=target, details=details))
    return findings


@contextlib.asynccontextmanager
async def _poison(system: System, kind: str) -> AsyncIterator[None]:
    token = system.token("eve", "publish", "subscribe")
    url = await _socket_url(system) if kind == "frames" else system.cluster_url
    process = await asyncio.to_thread(_sender, kind, url, token)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        await asyncio.to_thread(process.stdout.readline)
        yield
    finally:
        process.stdin.close()
        await asyncio.to_thread(process.wait)
        process.stdout.close()


def _sender(kind: str, url: str, token: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "bench.poison_senders", kind, url, token],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


async def _socket_url(system: System) -> str:
    headers = {"authorization": f"Bearer {system.token('eve', 'subscribe')}"}
    async with httpx.AsyncClient(headers=headers) as http:
        answer = await http.get(f"{system.coordinator_url}/v1/broker")
    return msgspec.json.decode(answer.content, type=BrokerInfo).ws_url


async def _listen(client: Client, arrivals: Arrivals) -> None:
    async with await client.subscribe_to_dataset(DATASET) as records:
        arrivals.listening.set()
        async for record in records:
            number = record.value.get("number")
            if number is not None:
                arrivals.came(number)
