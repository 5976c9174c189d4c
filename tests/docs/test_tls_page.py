"""The page about TLS, as printed: a whole system speaks it, and what is printed is answered."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.test_tutorial import BLOCK, compare, free_port, steps
from tocsin.settings import SHORT_LIVED_JAVA

TEXT = (Path(__file__).parents[2] / "docs" / "how-to" / "tls.md").read_text()
PORTS = {"CLUSTER": "7400", "COORDINATOR": "7410", "BROKER": "7420", "BROKER_WS": "7421"}

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]


class Shell:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.real = {printed: str(free_port()) for printed in PORTS.values()}
        self.environment = {
            key: text for key, text in os.environ.items() if not key.startswith("TOCSIN_")
        } | {f"TOCSIN_{name}_PORT": self.real[printed] for name, printed in PORTS.items()}
        self.environment |= {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "TOCSIN_JAVA_OPTIONS": SHORT_LIVED_JAVA,
            "TOCSIN_WARM_UP": "false",
        }
        self._background: list[subprocess.Popen[str]] = []

    def run(self, command: str, expected: list[str], *, fails: bool = False) -> None:
        process = self._start(["bash", "-c", command])
        output, _ = process.communicate(timeout=120)
        assert (process.returncode != 0) == fails, f"$ {command}\n{output}"
        assert "Traceback" not in output
        compare([self._really(line) for line in expected], output)

    def export(self, command: str) -> None:
        for pair in self._really(command).split()[1:]:
            name, _, value = pair.partition("=")
            self.environment[name] = value

    def begin(self, command: str) -> None:
        """Until its brokers can be had."""
        self._background.append(self._start(["bash", "-c", f"exec {command}"]))
        authority = self.directory / "tocsin-data" / "certificates" / "authority.pem"
        trusted = ssl.create_default_context(cafile=str(authority))
        deadline = time.monotonic() + 150
        for port in ("7400", "7410", "7420"):
            while time.monotonic() < deadline:
                assert self._background[-1].poll() is None
                try:
                    url = f"https://127.0.0.1:{self.real[port]}/healthz"
                    urllib.request.urlopen(url, timeout=2, context=trusted).close()
                    break
                except OSError:
                    time.sleep(0.2)
        scopes = "--scope publish --scope subscribe --scope admin"
        made = self._start(["bash", "-c", f"tocsin token {scopes}"])
        self.environment["TOCSIN_TOKEN"] = made.communicate()[0].strip()

    def python(self, program: str) -> str:
        token = self.environment["TOCSIN_TOKEN"]
        process = self._start([sys.executable, "-c", f"TOKEN = {token!r}\n{program}"])
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0, output
        return output

    def end(self) -> None:
        for process in self._background:
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=60)
            assert "Traceback" not in output

    def _start(self, words: list[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self._really(word) for word in words],
            cwd=self.directory,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def _really(self, text: str) -> str:
        for printed, real in self.real.items():
            text = text.replace(f":{printed}", f":{real}")
        return text


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path)
    yield shell
    shell.end()


def test_commands_and_program_of_the_page_do_what_it_says(shell: Shell) -> None:
    for kind, info, body in BLOCK.findall(TEXT):
        if kind == "python":
            assert "it is encrypted" in shell.python(body)
            continue
        for command, expected in steps(body):
            if command.startswith("export "):
                shell.export(command)
            elif "background" in info:
                shell.begin(command)
            else:
                shell.run(command, expected, fails="fails" in info)
