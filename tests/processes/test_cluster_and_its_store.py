"""A cluster and its store's server: refused at once, waited for, lost to another cluster."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import make_url

from tocsin.dev.postgresql import PostgreSQL
from tocsin.errors import DEPOSED, MISCONFIGURED
from tocsin.storage.store.store import Store
from tocsin.system.ports import free_port

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]

WRONG = "not-the-password"


def words(command: str, store: str, data: Path, port: int) -> list[str]:
    settings = {"store": store, "cluster_port": port, "log_format": "json"}
    given = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    return [sys.executable, "-m", "tocsin", command, "--data", str(data), *given]


def environment() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("TOCSIN_")}


def refusal(command: str, store: str, data: Path) -> str:
    """What the command says when it refuses to start, as it must."""
    done = subprocess.run(
        words(command, store, data, free_port()),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=120,
    )
    output = done.stdout + done.stderr
    assert done.returncode == MISCONFIGURED, output
    assert "Traceback" not in output
    return output


@pytest.mark.parametrize("command", ["cluster", "up"])
def test_a_wrong_password_is_refused_at_once_and_not_shown(
    postgresql: PostgreSQL, tmp_path: Path, command: str
) -> None:
    store = make_url(postgresql.url).set(password=WRONG).render_as_string(hide_password=False)
    output = refusal(command, store, tmp_path)
    assert "password authentication failed" in output
    assert "correct user and password in the setting store" in output
    assert WRONG not in output


class ClusterProcess:
    """`tocsin cluster`, and what it says of itself."""

    def __init__(self, store: str, data: Path) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._log = data / "said.log"
        with self._log.open("wb") as said:
            self.process = subprocess.Popen(
                words("cluster", store, data, port), env=environment(), stdout=said, stderr=said
            )

    def status(self) -> dict[str, Any]:
        try:
            answer = httpx.get(f"{self.url}/v1/status", timeout=5)
        except httpx.HTTPError:
            assert self.process.poll() is None, self.said()
            return {}
        return dict(answer.json())

    def until(self, condition: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        deadline = time.monotonic() + 120
        while not condition(found := self.status()):
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.05)
        return found

    def said(self) -> str:
        return self._log.read_text()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Callable[[str], ClusterProcess]]:
    started = []

    def start(store: str) -> ClusterProcess:
        started.append(ClusterProcess(store, tmp_path))
        return started[-1]

    yield start
    for one in started:
        one.end()


def test_a_server_that_is_not_there_is_waited_for(
    postgresql: PostgreSQL, cluster: Callable[[str], ClusterProcess]
) -> None:
    store = postgresql.fresh()
    postgresql.stop()
    waiting = cluster(store)
    status = waiting.until(lambda told: told.get("waits_for"))
    assert not status["ready"]
    assert f"127.0.0.1:{postgresql.port}" in status["waits_for"]
    answer = httpx.get(f"{waiting.url}/v1/datasets", timeout=5)
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "unavailable"
    postgresql.start()
    assert waiting.until(lambda told: told.get("store_id"))["waits_for"] is None
    assert "Traceback" not in waiting.said()


def test_a_cluster_whose_store_another_has_taken_over_ends(
    postgresql: PostgreSQL, cluster: Callable[[str], ClusterProcess]
) -> None:
    store = postgresql.fresh()
    old = cluster(store)
    old.until(lambda told: told.get("store_id"))
    admin = create_engine(make_url(store).set(username="postgres", database="postgres"))
    name = make_url(store).database
    with admin.begin() as connection:  # as if the network had cut it off
        of_old = text("SELECT pid FROM pg_stat_activity WHERE datname = :name")
        for pid in connection.execute(of_old, {"name": name}).scalars().all():
            connection.execute(text("SELECT pg_terminate_backend(:pid, 60000)"), {"pid": pid})
    admin.dispose()
    with Store.open(store, busy_timeout_s=60.0):
        assert old.process.wait(120) == DEPOSED
    assert "another cluster has taken over the store" in old.said()
    assert "Traceback" not in old.said()
