"""Processes are known by their start as well: what was meant is signalled, nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from real_servers import skip_or_fail
from tocsin.dev.postgresql import PostgreSQL
from tocsin.errors import Unavailable
from tocsin.system.guard import Guard
from tocsin.system.launching import Command, Detached
from tocsin.system.processes import SAME_START_S, Process

DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); "
# A child in a session of its own, as PostgreSQL's are.
PARENT = """
import subprocess, sys, time
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
print(child.pid, flush=True)
time.sleep(600)
"""


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def started(log: Path) -> Iterator[list[Process]]:
    """Processes that are gone after the test, whatever happens."""
    processes: list[Process] = []
    yield processes
    for process in processes:
        process.kill()


def sleeping(log: Path) -> Command:
    return Command(["sleep", "600"], str(log))


def first_line(log: Path) -> str:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if "\n" in (told := log.read_text()):
            return told.splitlines()[0]
        time.sleep(0.02)
    raise AssertionError("it said nothing")


def test_a_reused_process_id_is_left_alone(log: Path, started: list[Process]) -> None:
    process = Detached().start(sleeping(log))
    started.append(process)
    for difference_s in (-SAME_START_S, SAME_START_S, -100 * 24 * 3600.0):
        other = msgspec.structs.replace(process, started=process.started + difference_s)
        assert not other.alive
        assert other.family() == []
        other.stop(signal.SIGTERM)
        other.kill()
    assert process.alive


def test_a_process_is_known_although_the_clock_was_set_by_a_second(
    log: Path, started: list[Process]
) -> None:
    process = Detached().start(sleeping(log))
    started.append(process)
    assert msgspec.structs.replace(process, started=process.started + 1).alive


def test_one_that_nobody_has_waited_for_is_dead(log: Path) -> None:
    launcher = Detached()
    process = launcher.start(sleeping(log))
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait(60)
    assert Path(f"/proc/{process.pid}").exists()


def test_one_that_does_not_listen_is_killed(log: Path, started: list[Process]) -> None:
    code = DEAF + "import time; time.sleep(600)"
    process = Detached().start(Command([sys.executable, "-c", code], str(log)))
    started.append(process)
    assert first_line(log) == "deaf"
    process.stop(signal.SIGTERM, limit_s=0.2)
    assert not process.alive


def test_one_that_is_paused_hears_the_stop(log: Path, started: list[Process]) -> None:
    process = Detached().start(sleeping(log))
    started.append(process)
    process.pause()
    assert process.paused
    process.send(signal.SIGTERM)
    assert process.alive
    process.stop(signal.SIGTERM, limit_s=60)
    assert os.WTERMSIG(os.waitpid(process.pid, 0)[1]) == signal.SIGTERM


def test_a_kill_takes_children_that_have_gone_to_sessions_of_their_own(
    log: Path, started: list[Process]
) -> None:
    process = Detached().start(Command([sys.executable, "-c", PARENT], str(log)))
    started.append(process)
    child = Process.of(int(first_line(log)))
    process.pause()
    assert child.paused
    process.resume()
    process.kill()
    assert not child.alive


def test_what_a_guard_started_dies_with_the_guard(log: Path, tmp_path: Path) -> None:
    guard = Guard(tmp_path / "servers")
    process = guard.start(sleeping(log))
    os.kill(guard.pid, signal.SIGKILL)
    assert process.wait(60)
    with pytest.raises(Unavailable, match="guard"):
        guard.start(sleeping(log))
    guard.close()


def test_a_guard_says_what_it_cannot_start(tmp_path: Path) -> None:
    guard = Guard(tmp_path / "servers")
    with pytest.raises(Unavailable, match="no-such-program"):
        guard.start(Command(["no-such-program"], str(tmp_path / "log")))
    assert guard.start(sleeping(tmp_path / "log")).alive
    guard.close()


def test_servers_of_a_test_run_that_is_killed_are_gone_and_so_is_their_data(
    tmp_path: Path,
) -> None:
    """The same objects as the fixtures use, with a real database, and a kill -9."""
    if reason := PostgreSQL.missing():
        skip_or_fail(reason)
    code = """
from real_servers import RealServers
from tocsin.dev.postgresql import PostgreSQL
servers = RealServers()
server = servers.start(PostgreSQL)
print(server.processes["postgresql"].pid, servers.directory, flush=True)
input()
"""
    tests = str(Path(__file__).parents[1])
    path = os.pathsep.join([tests, *filter(None, sys.path)])
    run = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert run.stdout is not None
    pid, directory = run.stdout.readline().split()
    family = Process.of(int(pid)).family()
    assert len(family) > 1
    run.kill()
    run.communicate()
    assert all(process.wait(60) for process in family)
    deadline = time.monotonic() + 60
    while Path(directory).exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
