"""Subscriptions made a second, one by one and in lists; what a parameter set weighs; a restart.

Through the cluster's REST, in a process of its own, with everything but Spark: what Spark thinks of
arguments is known after the first. The baselines write the same rows into the same tables with
sqlite3 and nothing else. Not quick, a million sets are made.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any

from bench.control import Helper
from bench.findings import Finding
from tocsin.service.tokens import mint
from tocsin.storage.store.store import Store

CONNECTIONS = 32
LIST = 10_000
MANY = 1_000_000
EDGE = "edge"
EACH_BYTES = 1024


def run(quick: bool, say: Callable[[str], None]) -> list[Finding]:
    singles = 1_000 if quick else 10_000
    many = 50_000 if quick else MANY
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder:
        system = _System(Path(folder) / "ours")
        with system.cluster() as cluster:
            say(f"{singles:,} subscriptions one by one from {CONNECTIONS} connections")
            asyncio.run(system.one_by_one(cluster, range(-200, 0)))
            single = _measured(cluster, lambda: system.one_by_one(cluster, range(singles)))
            say(f"{many:,} subscriptions in lists of {LIST:,}")
            before = cluster.ask_now("nothing")["rss_bytes"]
            bulk = _measured(cluster, lambda: system.in_lists(cluster, singles, many))
            weight = (cluster.ask_now("columns")["rss_bytes"] - before) / many
        say("the same rows with sqlite3 alone")
        bare = _Bare(Path(folder) / "bare")
        bare_single, bare_bulk = bare.one_by_one(singles), bare.in_lists(singles, many)
        say("everything is started again")
        began = time.perf_counter()
        with system.cluster() as cluster:
            columns = cluster.ask_now("columns")
            broker = system.broker(cluster)
            restart_s = time.perf_counter() - began
        naive = _naive(Path(folder) / "ours")
    return [
        _rate("subscribing one by one", single, singles, bare_single, 1_000.0),
        _rate(f"subscribing in lists of {LIST:,}", bulk, many, bare_bulk, 10_000.0),
        _weight("a parameter set in the cluster's process", weight, naive[0], many),
        _weight("a parameter set in a broker", broker["rss_bytes"] / many, naive[0], many),
        Finding(
            claim=f"a restart with {many:,} parameter sets: columns, and a broker's loading",
            unit="s",
            ours=restart_s,
            baseline=naive[1],
            baseline_is="sqlite3 and json read the same rows into a dict",
            lower_is_better=True,
            target=60.0,
            details={"columns_s": columns["took_s"], "broker": broker, "sets": many},
        ),
    ]


def _rate(
    claim: str, measured: dict[str, float], count: int, bare_s: float, target: float
) -> Finding:
    return Finding(
        claim=claim,
        unit="/s",
        ours=count / measured["took_s"],
        baseline=count / bare_s,
        baseline_is="sqlite3 writes the same rows in the same transactions",
        target=target,
        details={"cluster_cpu_ms_each": 1000 * measured["cpu_s"] / count, "count": count},
    )


def _weight(claim: str, ours: float, theirs: float, count: int) -> Finding:
    return Finding(
        claim=claim,
        unit="bytes",
        ours=ours,
        baseline=theirs,
        baseline_is="a dict of number and arguments in Python",
        lower_is_better=True,
        # What the process has anyway (pages of the store, lately changed sets) is shared by all.
        target=EACH_BYTES if count >= MANY else None,
        details={"count": count},
    )


class _ClusterProcess(Helper):
    def __init__(self, directory: Path, secret: str) -> None:
        super().__init__("bench.subscribing_server", str(directory), secret)
        self.port = self.hear()["port"]

    def ask_now(self, op: str) -> dict[str, Any]:
        self.tell(op=op)
        return self.hear()


def _measured(cluster: _ClusterProcess, work: Callable[[], Any]) -> dict[str, float]:
    cpu_s, began = cluster.ask_now("nothing")["cpu_s"], time.perf_counter()
    asyncio.run(work())
    took_s = time.perf_counter() - began
    return {"took_s": took_s, "cpu_s": cluster.ask_now("nothing")["cpu_s"] - cpu_s}


class _System:
    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._directory.mkdir()
        self._secret = secrets.token_hex(32)
        self._made = False

    def _token(self, subject: str, *scopes: str) -> str:
        return mint(self._secret, subject, scopes, expires_s=36_000, now=time.time())

    @contextmanager
    def cluster(self) -> Iterator[_ClusterProcess]:
        process = _ClusterProcess(self._directory, self._secret)
        try:
            if not self._made:
                asyncio.run(self._furnish(process))
                self._made = True
            yield process
        finally:
            process.stop()

    async def _furnish(self, cluster: _ClusterProcess) -> None:
        async with _Connection(cluster.port, self._token("root", "admin")) as connection:
            text = "CREATE DATASET reports (kind STRING, level INT)"
            await connection.call("POST", "/v1/statements", {"sql": text})
            await connection.call("PUT", f"/v1/brokers/{EDGE}", {"url": "http://127.0.0.1:9"})
        cluster.ask_now("channel")

    async def one_by_one(self, cluster: _ClusterProcess, numbers: Iterable[int]) -> None:
        todo = iter(numbers)

        async def work(worker: int) -> None:
            token = self._token(f"subscriber-{worker}", "subscribe")
            async with _Connection(cluster.port, token) as connection:
                for number in todo:
                    await connection.call("POST", "/v1/subscriptions", _wanted(number))

        await asyncio.gather(*(work(worker) for worker in range(CONNECTIONS)))

    async def in_lists(self, cluster: _ClusterProcess, first: int, count: int) -> None:
        """As somebody brings them who speaks for many: each of ten has ten."""
        numbers = iter(range(first, first + count))
        async with _Connection(cluster.port, self._token("root", "admin", "broker")) as connection:
            while some := [
                {**_wanted(number), "subscriber": f"s{number // 10}", "broker": EDGE}
                for number in islice(numbers, LIST)
            ]:
                await connection.call("POST", "/v1/subscriptions", some)

    def broker(self, cluster: _ClusterProcess) -> dict[str, Any]:
        url = f"http://127.0.0.1:{cluster.port}"
        process = Helper("bench.subscribing_broker", url, EDGE, self._token(EDGE, "broker"))
        try:
            return process.hear()
        finally:
            process.stop()


def _wanted(number: int) -> dict[str, Any]:
    return {"channel": "wanted", "arguments": [f"kind-{number}", number % 7]}


class _Connection:
    """HTTP by hand: a client's work must not be what is measured."""

    def __init__(self, port: int, token: str) -> None:
        self._port = port
        self._token = token

    async def __aenter__(self) -> _Connection:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def call(self, method: str, path: str, body: Any) -> bytes:
        content = json.dumps(body).encode()
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {self._token}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(content)}\r\n\r\n"
        )
        self._writer.write(head.encode() + content)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        content = await self._reader.readexactly(length)
        if not answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(content.decode())
        return content


class _Bare:
    """The same rows, and nothing that decides anything."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir()
        self._file = directory / "store.db"
        Store.open(f"sqlite:///{self._file}").close()
        self._made = 0

    def one_by_one(self, count: int) -> float:
        return self._write(count, 1)

    def in_lists(self, first: int, count: int) -> float:
        return self._write(count, LIST)

    def _write(self, count: int, together: int) -> float:
        with closing(sqlite3.connect(self._file, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA cache_size = -65536")
            began = time.perf_counter()
            for start in range(0, count, together):
                connection.execute("BEGIN IMMEDIATE")
                self._insert(connection, min(together, count - start))
                connection.execute("COMMIT")
            return time.perf_counter() - began

    def _insert(self, connection: sqlite3.Connection, count: int) -> None:
        numbers = range(self._made + 1, self._made + count + 1)
        self._made += count
        backends = [(number, *_row(number)) for number in numbers]
        connection.executemany(
            "INSERT INTO backend_subscriptions (id, channel, arguments, hash, epoch, head, floor,"
            " sequence, since) VALUES (?, 'wanted', ?, ?, ?, 0, 0, 1, 0)",
            backends,
        )
        connection.executemany(
            "INSERT INTO frontend_subscriptions (id, subscriber, broker, backend, marker, sequence)"
            " VALUES (?, ?, ?, ?, 0, 1)",
            [(number, f"s{number // 10}", EDGE, number) for number in numbers],
        )


def _row(number: int) -> tuple[str, str, str]:
    arguments = json.dumps({"kind": f"kind-{number}", "level": number % 7})
    digest = blake2b(arguments.encode(), digest_size=16).hexdigest()
    return arguments, digest, os.urandom(8).hex()


def _naive(directory: Path) -> tuple[float, float]:
    """What a set weighs as Python keeps it, and how long all take to be read so."""
    program = (
        "import json, os, sqlite3, sys, time\n"
        "def rss(): return int(open('/proc/self/statm').read().split()[1]) * 4096\n"
        "before, began = rss(), time.perf_counter()\n"
        "rows = sqlite3.connect(sys.argv[1]).execute("
        "'SELECT id, arguments FROM backend_subscriptions')\n"
        "kept = {number: json.loads(text) for number, text in rows}\n"
        "print((rss() - before) / len(kept), time.perf_counter() - began)\n"
    )
    told = subprocess.run(
        [sys.executable, "-c", program, str(directory / "store.db")],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    return float(told[0]), float(told[1])
