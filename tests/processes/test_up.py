"""`tocsin up` as a process: however it is asked to stop, nothing of it stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]


def left_of(data: Path) -> list[int]:
    """Processes whose settings name this data directory."""
    wanted = f"TOCSIN_DATA={data}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


@pytest.fixture
def up(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """`tocsin up`, as soon as its services were started."""
    environment = {key: text for key, text in os.environ.items() if not key.startswith("TOCSIN_")}
    ports = ("CLUSTER_PORT", "COORDINATOR_PORT", "BROKER_PORT", "BROKER_WS_PORT")
    environment |= {f"TOCSIN_{name}": "0" for name in ports}
    with subprocess.Popen(
        [sys.executable, "-m", "tocsin", "up", "--data", str(tmp_path)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        while len(left_of(tmp_path)) < 3:  # cluster, coordinator, broker
            assert process.poll() is None
            time.sleep(0.05)
        yield process
        process.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_while_it_starts_leaves_nothing_running(
    up: subprocess.Popen[str], tmp_path: Path, number: int
) -> None:
    up.send_signal(number)
    told, _ = up.communicate()
    assert "stopping" in told
    assert "Traceback" not in told
    assert left_of(tmp_path) == []


def test_its_services_end_with_it_even_when_it_is_killed(
    up: subprocess.Popen[str], tmp_path: Path
) -> None:
    up.kill()
    deadline = time.monotonic() + 60
    while left_of(tmp_path):
        assert time.monotonic() < deadline, "a service stayed"
        time.sleep(0.1)
