"""The page about standbys: its commands start such a system, which is upgraded as it says."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from tocsin.cli import main
from tocsin.client import Client
from tocsin.dev.kafka import Kafka
from tocsin.dev.postgresql import PostgreSQL
from tocsin.service.tokens import mint
from tocsin.settings import SHORT_LIVED_JAVA
from tocsin.system.ports import free_port

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "standby.md"
SECRET = "a secret that only the tests know and nobody else"
PATIENCE_S = 120.0

pytestmark = [pytest.mark.processes, pytest.mark.timeout(420)]


class Services:
    """The printed commands, on free ports."""

    def __init__(self, environment: dict[str, str], folder: Path) -> None:
        text = PAGE.read_text()
        self._ports = {port: str(free_port()) for port in set(re.findall(r"\b74\d\d\b", text))}
        block = re.search(r"^```sh\n(.*?)^```$", text, re.M | re.S)
        assert block is not None
        self._environment = environment | {"TOCSIN_BROKER_PORT": "0", "TOCSIN_BROKER_WS_PORT": "0"}
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.commands = [self.real(line) for line in block[1].splitlines()]
        (self.status_command,) = [
            self.real(line) for line in re.findall(r"^\$ (tocsin status .*)$", text, re.M)
        ]
        printed = re.search(r"^```python\n(.*?)^```$", text, re.M | re.S)
        assert printed is not None
        self.client = self.real(printed[1])

    def real(self, text: str) -> str:
        return re.sub(r"\b74\d\d\b", lambda port: self._ports[port[0]], text)

    def start(self, command: str) -> None:
        with (self._folder / "said.log").open("ab") as said:
            words = [sys.executable, "-m", *shlex.split(command)]
            self._running[command] = subprocess.Popen(
                words, env=self._environment, stdout=said, stderr=said, cwd=self._folder
            )

    def stop(self, command: str) -> int:
        process = self._running.pop(command)
        process.send_signal(signal.SIGTERM)
        return process.wait(60)

    def at(self, address: str) -> str:
        """The command of the cluster at an address."""
        port = address.rpartition(":")[2]
        return next(one for one in self.commands if "cluster" in one and one.endswith(port))

    def kill(self) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()


@pytest.fixture
def services(kafka: Kafka, postgresql: PostgreSQL, tmp_path: Path) -> Iterator[Services]:
    given = {
        "SECRET": SECRET,
        "LOG": f"{kafka.url}/{uuid.uuid4().hex}",
        "STORE": postgresql.fresh(),
        "DATA": str(tmp_path / "data"),
        "MASTER": "local[2]",
        "JAVA_OPTIONS": SHORT_LIVED_JAVA,
        "LOG_FORMAT": "json",
    }
    known = {key: text for key, text in os.environ.items() if not key.startswith("TOCSIN_")}
    services = Services(known | {f"TOCSIN_{key}": text for key, text in given.items()}, tmp_path)
    yield services
    services.kill()


def told(
    services: Services, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> dict[str, dict[str, str]]:
    """What the printed command says, by address."""
    monkeypatch.setattr(sys, "argv", shlex.split(services.status_command))
    with contextlib.suppress(SystemExit):
        main()
    by_address: dict[str, dict[str, str]] = {}
    for line in capsys.readouterr().out.splitlines()[1:]:
        address, what, says = line.split("\t", 2)
        by_address.setdefault(address, {})[what] = says
    return by_address


def places(by_address: dict[str, dict[str, str]]) -> tuple[str, str] | None:
    """Where the leader is and where its standby, once both are ready."""
    leading = [at for at, says in by_address.items() if says.get("ready") == "yes"]
    standing_by = [
        at
        for at, says in by_address.items()
        if says.get("role") == "standby" and "waits for" not in says and "trouble" not in says
    ]
    return (leading[0], standing_by[0]) if leading and standing_by else None


async def until(find: Callable[[], tuple[str, str] | None]) -> tuple[str, str]:
    deadline = time.monotonic() + PATIENCE_S
    while (found := await asyncio.to_thread(find)) is None:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.3)
    return found


@contextlib.asynccontextmanager
async def client_of(services: Services) -> AsyncIterator[Client]:
    scopes = ["admin", "publish", "subscribe"]
    token = mint(SECRET, "maria", scopes, expires_s=600, now=time.time())
    made: Client = eval(services.client, {"Client": Client, "token": token})  # noqa: S307
    async with made:
        yield made


async def test_the_printed_system_is_upgraded_without_a_pause(
    services: Services, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in services.commands:
        services.start(command)
    find = lambda: places(told(services, monkeypatch, capsys))  # noqa: E731
    leader, standby = await until(find)
    async with client_of(services) as client:
        await client.sql(
            "CREATE DATASET reports (id INT);"
            "CREATE CONTINUOUS CHANNEL all_of_them(least INT) AS"
            "  SELECT r.id FROM NEW reports r WHERE r.id >= :least"
        )
        heard: list[int] = []
        subscription = await client.subscribe("all_of_them", least=0)

        async def listen() -> None:
            async for result in subscription:
                heard.append(result.value["id"])  # noqa: PERF401 (looked at meanwhile)

        listening = asyncio.create_task(listen())
        publishing = asyncio.create_task(publish(client, 40))
        services_stopped = await asyncio.to_thread(services.stop, services.at(leader))
        assert services_stopped == 0
        await publishing
        services.start(services.at(leader))
        assert await until(find) == (standby, leader)
        async with asyncio.timeout(PATIENCE_S):
            while len(heard) < 40:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert heard == list(range(40))
        listening.cancel()


async def publish(client: Client, count: int) -> None:
    for number in range(count):
        await client.publish("reports", {"id": number})
        await asyncio.sleep(0.1)
