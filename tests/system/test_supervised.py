"""A process is kept running with growing pauses, unless it says that nothing would help."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tocsin.errors import MISCONFIGURED, Unavailable
from tocsin.system.launching import Command
from tocsin.system.processes import Process
from tocsin.system.startup import Log, Startup
from tocsin.system.supervised import Supervised

SLEEPS = "import time; time.sleep(600)"
PATIENCE_S = 60.0


class Script(Supervised):
    """A Python process that runs `code`."""

    def __init__(self, log: Path, code: str) -> None:
        super().__init__("script", log)
        self.code = code

    def command(self) -> Command:
        return Command([sys.executable, "-c", self.code], str(self.log.file))


@asynccontextmanager
async def running(log: Path, code: str) -> AsyncIterator[Script]:
    script = Script(log, code)
    script.start()
    try:
        yield script
    finally:
        await script.stop()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_a_killed_process_is_started_again(tmp_path: Path) -> None:
    async with running(tmp_path / "log", SLEEPS) as script:
        killed = script.process
        await script.kill()
        assert not killed.alive
        await until(lambda: script.restarts == 1)
        assert script.process != killed
        assert script.process.alive
        last = script.process
    assert not last.alive


async def test_one_that_keeps_dying_is_started_more_and_more_rarely(tmp_path: Path) -> None:
    code = "import time; print(time.monotonic())"
    async with running(tmp_path / "log", code) as script:
        await until(lambda: script.restarts == 5)
    first, *_, before, last = map(float, (tmp_path / "log").read_text().split()[:5])
    second = float((tmp_path / "log").read_text().split()[1])
    assert last - before > second - first


async def test_a_misconfigured_process_is_left_alone_and_its_complaint_is_known(
    tmp_path: Path,
) -> None:
    code = f"import sys; print('error: no such place'); sys.exit({MISCONFIGURED})"
    async with running(tmp_path / "log", code) as script:
        await until(lambda: bool(script.refusal))
        assert script.refusal == "no such place"
        assert script.restarts == 0


async def test_one_that_was_ready_is_started_again_whatever_it_says(tmp_path: Path) -> None:
    """It had what it needed: another process had its port for a moment, say."""
    async with running(tmp_path / "log", f"import sys; sys.exit({MISCONFIGURED})") as script:
        script.was_ready = True
        await until(lambda: script.restarts >= 1)
        assert not script.refusal


STARTER = """
import asyncio, sys
from pathlib import Path
from system.test_supervised import Script
async def main():
    script = Script(Path(sys.argv[1]), "import sys; sys.stdin.read()")
    script.start()
    print(script.process.pid, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


def test_the_input_of_a_process_ends_with_its_starter_however_that_ends(tmp_path: Path) -> None:
    tests = str(Path(__file__).parents[1])
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, str(tmp_path / "log")],
        env={"PYTHONPATH": tests},
        stdout=subprocess.PIPE,
    )
    assert starter.stdout is not None
    process = Process.of(int(starter.stdout.readline()))
    assert process.alive
    starter.kill()
    starter.communicate()
    assert process.wait(PATIENCE_S)


def test_a_start_that_fails_is_told_with_the_line_that_says_why(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.file.write_text("Error: of the last time\n")
    log.mark()
    with log.file.open("a") as writing:
        writing.write("reading settings\nfatal: the disk is full\nbye\n")
    startup = Startup("Kafka", log, limit_s=0.0)
    with pytest.raises(Unavailable, match="Kafka ended while it started: fatal: the disk is full"):
        startup.check(alive=False)
    with pytest.raises(Unavailable, match="did not answer within 0 s"):
        startup.check(alive=True)


def test_a_start_after_a_failed_one_is_told_with_what_ended_the_first(tmp_path: Path) -> None:
    log = Log(tmp_path / "log")
    log.file.write_text("error: Kafka cannot answer\n")
    log.mark(again=True)
    with log.file.open("a") as writing:
        writing.write("reading settings\n")
    assert log.why() == "error: Kafka cannot answer"


def test_waiting_for_something_outside_does_not_count(tmp_path: Path) -> None:
    startup = Startup("the cluster", Log(tmp_path / "log"), limit_s=PATIENCE_S)
    startup._deadline = 0.0
    startup.postpone()
    startup.check(alive=True)
