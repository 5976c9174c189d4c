"""A server from the wheel, in an empty directory: it starts, takes a record and delivers it."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from setup.installation import CLEAN, Environment
from tocsin.settings import SHORT_LIVED_JAVA
from tocsin.spark.jars import SPARK

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]
PATIENCE_S = 150.0
PORTS = ("cluster_port", "coordinator_port", "broker_port", "broker_ws_port")
STATEMENTS = """
CREATE DATASET reports (id STRING, severity INT);
CREATE CONTINUOUS CHANNEL alerts(severity INT) AS
  SELECT r.id FROM NEW reports r WHERE r.severity >= :severity;
"""


@pytest.fixture
def server(wheel: Path, tmp_path: Path) -> Environment:
    return Environment(tmp_path / "env", wheel, "server")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A user's cache with the jars that this checkout has, if it has them: no network is needed."""
    cache = tmp_path / "cache"
    (cache / "tocsin" / "jars").mkdir(parents=True)
    if SPARK.paths():
        (cache / "tocsin" / "jars" / SPARK.directory.name).symlink_to(SPARK.directory)
    return cache


class Running:
    """`tocsin up` in a directory of its own."""

    def __init__(self, server: Environment, directory: Path, cache: Path) -> None:
        self.server = server
        self.directory = directory
        self.environment = CLEAN | {"XDG_CACHE_HOME": str(cache)}
        self.output = directory / "output"
        words = [str(server.command), "up", "--set", "warm_up=false", "--master", "local[2]"]
        words += ["--set", f"java_options={SHORT_LIVED_JAVA}"]
        for port in PORTS:
            words += ["--set", f"{port}=0"]
        with self.output.open("w") as output:
            self.process = subprocess.Popen(
                words, cwd=directory, env=self.environment, stdout=output, stderr=output
            )

    def until_ready(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while "ready." not in self.printed():
            assert self.process.poll() is None, self.printed()
            assert time.monotonic() < deadline, self.printed()
            time.sleep(0.1)

    def printed(self) -> str:
        return self.output.read_text()

    def address(self, name: str) -> str:
        found = re.search(rf"^{name} +(\S+)", self.printed(), re.MULTILINE)
        assert found is not None, self.printed()
        return found[1]

    def command(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(self.server.command), *words],
            cwd=self.directory,
            env=self.environment | {"TOCSIN_TOKEN": self.address("token")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def call(self, *words: str) -> str:
        process = self.command(*words)
        printed, complaint = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, complaint
        return printed


@pytest.fixture
def running(server: Environment, tmp_path: Path, cache: Path) -> Iterator[Running]:
    (tmp_path / "empty").mkdir()
    running = Running(server, tmp_path / "empty", cache)
    try:
        running.until_ready()
        yield running
    finally:
        running.process.send_signal(signal.SIGTERM)
        running.process.wait(timeout=60)


def test_a_record_reaches_a_subscriber(running: Running) -> None:
    cluster, coordinator = running.address("cluster"), running.address("coordinator")
    running.call("sql", "-e", STATEMENTS, "--cluster", cluster)
    listening = running.command(
        *("listen", "alerts", "severity=3", "--count", "1", "--coordinator", coordinator)
    )
    assert listening.stderr is not None
    while "subscribed" not in listening.stderr.readline():
        assert listening.poll() is None
    (running.directory / "records.json").write_text(json.dumps({"id": "a", "severity": 5}))
    running.call("publish", "reports", "records.json", "--cluster", cluster)
    printed, _ = listening.communicate(timeout=PATIENCE_S)
    assert json.loads(printed) == {"id": "a"}
    assert running.server.check()
    files = {path.name for path in running.directory.iterdir()}
    assert files == {"output", "records.json", "tocsin-data"}
