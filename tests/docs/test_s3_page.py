"""The page about S3, as printed: a server is started, a system on it, and an upload lies there."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.test_tutorial import BLOCK, compare, free_port, steps
from real_servers import skip_or_fail
from tocsin.dev.s3 import S3
from tocsin.dev.servers import Servers
from tocsin.settings import SHORT_LIVED_JAVA

TEXT = (Path(__file__).parents[2] / "docs" / "how-to" / "s3.md").read_text()
PICTURE = b"\x89PNG of a flood"

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]


class Shell:
    """Runs commands in one directory, where nobody has an account with Amazon."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment = {
            key: text for key, text in os.environ.items() if not key.startswith(("TOCSIN_", "AWS_"))
        }
        ports = ("CLUSTER", "COORDINATOR", "BROKER", "BROKER_WS")
        self.environment |= {f"TOCSIN_{name}_PORT": str(free_port()) for name in ports}
        self.cluster = f"http://127.0.0.1:{self.environment['TOCSIN_CLUSTER_PORT']}"
        self.environment |= {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "TOCSIN_CLUSTER_URL": self.cluster,
            "TOCSIN_JAVA_OPTIONS": SHORT_LIVED_JAVA,
            "TOCSIN_WARM_UP": "false",
        }
        self._background: list[subprocess.Popen[str]] = []

    def run(self, command: str, expected: list[str], *, fails: bool = False) -> None:
        process = self._start(command)
        output, _ = process.communicate(timeout=120)
        assert (process.returncode != 0) == fails, f"$ {command}\n{output}"
        assert "Traceback" not in output
        compare(expected, output)

    def begin(self, command: str) -> None:
        """Until its cluster answers: attachments need no Spark."""
        self._background.append(self._start(f"exec {command}"))
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            assert self._background[-1].poll() is None
            try:
                urllib.request.urlopen(f"{self.cluster}/v1/status", timeout=2).close()
                break
            except OSError:
                time.sleep(0.2)
        token = "tocsin token --scope publish"
        self.environment["TOCSIN_TOKEN"] = self._start(token).communicate()[0].strip()

    def end(self) -> None:
        for process in self._background:
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=60)
            assert "Traceback" not in output

    def _start(self, command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", "-c", command],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    if reason := S3.missing():
        skip_or_fail(reason)
    shell = Shell(tmp_path)
    yield shell
    shell.end()
    shell.run("tocsin dev down --delete", [])


def test_commands_of_the_page_do_what_it_says(shell: Shell) -> None:
    (shell.directory / "flood.png").write_bytes(PICTURE)
    for kind, info, body in BLOCK.findall(TEXT):
        assert kind == "console"
        for command, expected in steps(body):
            if command.startswith("export "):
                shell.environment |= server_in(shell.directory).environment
                assert all(name in command for name in server_in(shell.directory).environment)
            elif "background" in info:
                shell.begin(command)
            else:
                shell.run(command, expected, fails="fails" in info)
    id = hashlib.sha256(PICTURE).hexdigest()
    stored = server_in(shell.directory).data / "tocsin" / "photos" / id[:2] / id[2:4] / id
    assert stored.read_bytes() == PICTURE


def server_in(directory: Path) -> S3:
    [server] = Servers(directory / "tocsin-data" / "dev").known()
    assert isinstance(server, S3)
    return server
