"""Attachments from a broker's page cache beside nginx that serves the same files.

Each in a process of its own with one thread, the same clients, connections that stay open. What
counts is what a second of the server's CPU gives, so that the clients' work does not. The broker
checks a token and every block that it reads from disk; nginx checks nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import random
import secrets
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.control import Helper
from bench.findings import Finding
from tocsin.dev.packages import apt_install, find_program
from tocsin.errors import Unavailable
from tocsin.service.tokens import mint
from tocsin.system.ports import free_port

SIZES = {"4 KB": 4_000, "64 KB": 64_000, "1 MB": 1_000_000}
WHERE = {"disk": "on disk", "memory": "in memory"}
FILES = 20
CONNECTIONS = 8
TURNS = 50  # of each, between two looks at the server's clock
PACKAGES = ("nginx-light",)
CONFIGURATION = """
daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log; {user}
events {{ worker_connections 1024; }}
http {{
  access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000;
  client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{ listen 127.0.0.1:{port}; root {root}; }}
}}
"""


class Server(NamedTuple):
    port: int
    path: Callable[[str], str]  # of a page
    cpu_s: Callable[[], float]


class Figure(NamedTuple):
    per_cpu_s: float
    per_s: float


def run(quick: bool, say: Callable[[str], None]) -> list[Finding]:
    least_cpu_s = 0.3 if quick else 3.0
    secret = secrets.token_hex(32)
    token = mint(secret, "bench", ["subscribe"], expires_s=3600, now=time.time())
    findings = []
    for words, size_bytes in SIZES.items():
        with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder:
            root = Path(folder) / "pages"
            ids = _fill(root, size_bytes)
            found: dict[str, Figure] = {}
            for kind in WHERE:
                say(f"the broker, {words}, {kind}")
                with _broker(kind, root, secret) as server:
                    found[kind] = asyncio.run(_ask(server, ids, size_bytes, token, least_cpu_s))
            say(f"nginx, {words}")
            told = "nginx, the same files"
            try:
                with _nginx(Path(folder), root) as server:
                    nginx = asyncio.run(_ask(server, ids, size_bytes, token, least_cpu_s))
            except Unavailable as error:
                nginx, told = Figure(float("nan"), float("nan")), str(error)
        for kind, figure in found.items():
            findings.append(
                Finding(
                    claim=f"attachments of {words}, pages {WHERE[kind]}",
                    unit="/cpu-s",
                    ours=figure.per_cpu_s,
                    baseline=nginx.per_cpu_s,
                    baseline_is=told,
                    details={
                        "least_cpu_s": least_cpu_s,
                        "connections": CONNECTIONS,
                        "ours_per_s": figure.per_s,
                        "nginx_per_s": nginx.per_s,
                        "ours_bytes_per_cpu_s": figure.per_cpu_s * size_bytes,
                        "nginx_bytes_per_cpu_s": nginx.per_cpu_s * size_bytes,
                    },
                )
            )
    return findings


def _fill(root: Path, size_bytes: int) -> list[str]:
    chance = random.Random(size_bytes)
    ids = []
    for _ in range(FILES):
        data = chance.randbytes(size_bytes)
        id = hashlib.sha256(data).hexdigest()
        (root / id[:2]).mkdir(parents=True, exist_ok=True)
        (root / id[:2] / id).write_bytes(data)
        ids.append(id)
    return ids


@contextmanager
def _broker(kind: str, root: Path, secret: str) -> Iterator[Server]:
    process = Helper("bench.attachments_server", kind, str(root), secret)

    def cpu_s() -> float:
        process.tell(op="cpu")
        used: float = process.hear()["cpu_s"]
        return used

    try:
        yield Server(process.hear()["port"], lambda id: f"/v1/attachments/{id}", cpu_s)
    finally:
        process.stop()


@contextmanager
def _nginx(folder: Path, root: Path) -> Iterator[Server]:
    program = find_program("nginx")
    if program is None:
        apt_install("nginx", PACKAGES)
        program = find_program("nginx")
        if program is None:
            raise Unavailable("nginx was installed, and is not there")
    port = free_port()
    file = folder / "nginx.conf"
    user = "user root;" if os.geteuid() == 0 else ""
    file.write_text(CONFIGURATION.format(folder=folder, root=root, port=port, user=user))
    process = subprocess.Popen(
        [program, "-c", str(file), "-p", str(folder), "-e", str(folder / "error.log")]
    )
    try:
        _until_it_answers(process, port)
        yield Server(port, lambda id: f"/{id[:2]}/{id}", lambda: _cpu_s_of(process.pid))
    finally:
        process.terminate()
        process.wait(10)


def _until_it_answers(process: subprocess.Popen[bytes], port: int) -> None:
    for _ in range(200):
        if process.poll() is not None:
            raise Unavailable("nginx does not start")
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise Unavailable("nginx does not answer")


def _cpu_s_of(pid: int) -> float:
    """Of a process and its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    ticks = 0
    for one in (str(pid), *children):
        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


async def _ask(
    server: Server, ids: list[str], size_bytes: int, token: str, least_cpu_s: float
) -> Figure:
    """Until the server has worked long enough for its clock, which ticks a hundred times a
    second."""
    requests = [
        f"GET {server.path(id)} HTTP/1.1\r\nhost: bench\r\n"
        f"authorization: Bearer {token}\r\n\r\n".encode()
        for id in ids
    ]

    async def client(number: int, times: int) -> None:
        limit = 4 * 1024 * 1024
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=limit)
        for turn in range(times):
            writer.write(requests[(number + turn) % len(requests)])
            head = await reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise AssertionError(head.decode())
            await reader.readexactly(size_bytes)
        writer.close()

    async def all_ask(times: int) -> None:
        await asyncio.gather(*(client(number, times) for number in range(CONNECTIONS)))

    await all_ask(2)  # unmeasured: everything is imported, every file in the kernel's cache
    began, before, asked = time.perf_counter(), server.cpu_s(), 0
    while (used := server.cpu_s() - before) < least_cpu_s:
        await all_ask(TURNS)
        asked += TURNS * CONNECTIONS
    return Figure(asked / used, asked / (time.perf_counter() - began))
