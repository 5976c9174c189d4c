"""The page about traces, as printed: its commands run in order against a broker with clients."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import uvloop

from broker.world import World, take, world
from tocsin.testing.fake_cluster import SECRET

PAGE = Path(__file__).parents[2] / "docs" / "lab" / "traces.md"
BLOCK = re.compile(r"^```console([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FLOOD = {"type": "flood"}

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


def steps(body: str) -> list[tuple[str, list[str]]]:
    """Each command with the lines printed below it."""
    found: list[tuple[str, list[str]]] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line.strip():
            found[-1][1].append(line)
    return found


@contextlib.asynccontextmanager
async def traffic(made: World) -> AsyncIterator[None]:
    """Somebody who reads what is published, again and again."""
    alice = await made.client("alice")
    subscription = await alice.subscribe("floods", **FLOOD)

    async def go_on() -> None:
        for number in range(10**6):
            made.cluster.produce("floods", FLOOD, [{"n": number}])
            await take(subscription, 1)
            await asyncio.sleep(0.05)

    work = asyncio.create_task(go_on())
    try:
        yield
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def test_commands_of_the_page_do_what_it_says(tmp_path: Path) -> None:
    environment = {key: text for key, text in os.environ.items() if not key.startswith("TOCSIN_")}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    (tmp_path / "tocsin-data").mkdir()
    (tmp_path / "tocsin-data" / "secret").write_text(SECRET)
    exported, ran = "true", 0
    async with world() as made:
        broker = await made.broker()
        async with traffic(made):
            for info, body in BLOCK.findall(PAGE.read_text()):
                for command, expected in steps(body):
                    command = command.replace("http://127.0.0.1:7420", broker.url)
                    if command.startswith("export "):
                        exported = command
                        continue
                    code, output = await run(f"{exported}; {command}", tmp_path, environment)
                    assert (code != 0) == ("fails" in info), f"$ {command}\n{output}"
                    for line in expected:
                        pattern = ".*".join(re.escape(part.strip()) for part in line.split("…"))
                        assert re.search(pattern, output), f"expected {line!r} in:\n{output}"
                    ran += 1
    assert ran == 8


async def run(command: str, directory: Path, environment: dict[str, str]) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        "bash",
        "-c",
        command,
        cwd=directory,
        env=environment,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, output.decode()
