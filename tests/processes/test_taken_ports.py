"""A service has started when the process that was started answers, and nobody else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tocsin.errors import SettingError
from tocsin.settings import Settings
from tocsin.system import System

ANOTHER_TOCSIN = {"status": "ok", "ready": True, "instance": "of somebody else"}
PORTS = ("cluster_port", "coordinator_port", "broker_port", "broker_ws_port")


@contextmanager
def somebody(answer: bytes, port: int = 0) -> Iterator[int]:
    """A program that gives this answer to every question, on the port that is told."""

    class Answering(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            """It says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", port), Answering) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.mark.parametrize("setting", PORTS)
def test_up_names_the_taken_port_and_is_not_ready(setting: str, tmp_path: Path) -> None:
    environment = {key: text for key, text in os.environ.items() if not key.startswith("TOCSIN_")}
    environment |= {f"TOCSIN_{name.upper()}": "0" for name in PORTS}
    with somebody(json.dumps(ANOTHER_TOCSIN).encode()) as port:
        options = ["--data", str(tmp_path), "--set", f"{setting}={port}"]
        done = subprocess.run(
            [sys.executable, "-m", "tocsin", "up", *options],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=100,
        )
    assert done.returncode == 2
    assert f"port {port} is taken" in done.stdout
    assert f"--set {setting}=" in done.stdout
    assert "ready" not in done.stdout
    assert "token" not in done.stdout
    assert "Traceback" not in done.stdout


@pytest.mark.parametrize(
    ("answer", "by"),
    [
        (json.dumps(ANOTHER_TOCSIN).encode(), "another Tocsin"),
        (b'{"status": "ok", "instance": null}', "another Tocsin"),
        (b'{"status": "up"}', "another program"),
        (b"<html>welcome</html>", "another program"),
    ],
)
@pytest.mark.parametrize("name", ["cluster", "coordinator", "broker_1"])
async def test_somebody_elses_answer_is_not_the_services(
    answer: bytes, by: str, name: str, tmp_path: Path
) -> None:
    """As when the port was free a moment ago, and is taken before the service listens."""
    system = System(Settings(data=tmp_path))
    url = {
        "cluster": system.cluster_url,
        "coordinator": system.coordinator_url,
        "broker_1": system.broker_urls["broker_1"],
    }[name]
    with (
        somebody(answer, int(url.rpartition(":")[2])) as port,
        pytest.raises(SettingError, match=f"port {port} is taken by {by}") as refusal,
    ):
        await system.ready(name)
    assert str(refusal.value.field).endswith("_port")
    assert f"--set {refusal.value.field}=" in str(refusal.value.hint)
