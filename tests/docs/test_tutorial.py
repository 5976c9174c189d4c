"""The tutorial, as printed: its files are written, its commands run in order, its output compared.

Info strings steer the run: `sql quake.sql` writes a file, `console` runs commands, `console fails`
expects a failing exit code, `console background` runs beside what follows and must end by the end
of the page. An expected line must appear in the output; `…` stands for anything.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tocsin.settings import SHORT_LIVED_JAVA

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]


class Page:
    """Runs the blocks of one page in one directory."""

    def __init__(self, directory: Path, environment: dict[str, str], ports: dict[str, str]) -> None:
        self._directory = directory
        self._environment = environment
        self._ports = ports
        self._background: list[tuple[subprocess.Popen[bytes], Path, list[str]]] = []

    def run(self, text: str) -> None:
        for kind, info, body in BLOCK.findall(text):
            for printed, real in self._ports.items():
                body = body.replace(printed, real)
            words = info.split()
            if kind == "console":
                self._console(body, words)
            elif words:
                (self._directory / words[0]).write_text(body)
        for process, printed_to, expected in self._background:
            process.wait(timeout=60)
            output = printed_to.read_text()
            assert process.returncode == 0, output
            compare(expected, output)

    def stop(self) -> None:
        for process, *_ in self._background:
            process.kill()

    def _console(self, body: str, words: list[str]) -> None:
        for command, expected in steps(body):
            if command.startswith(("make ", "tocsin up ", ". ")):
                continue  # what the fixture did
            if command.startswith("export "):
                self._export(command)
            elif "background" in words:
                self._begin(command, expected)
            else:
                self._finish(command, expected, fails="fails" in words)

    def _begin(self, command: str, expected: list[str]) -> None:
        """Until it says that it has subscribed: the page's reader would see that as well."""
        printed_to = self._directory / f"background-{len(self._background)}.txt"
        with printed_to.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-c", command],
                cwd=self._directory,
                env=self._environment,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._background.append((process, printed_to, expected))
        ends_at = time.monotonic() + (60 if "listen" in command else 5)
        while time.monotonic() < ends_at and "subscribed at" not in printed_to.read_text():
            time.sleep(0.1)

    def _start(self, command: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["bash", "-c", command],
            cwd=self._directory,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def _finish(self, command: str, expected: list[str], *, fails: bool) -> None:
        process = self._start(command)
        output, _ = process.communicate(timeout=120)
        assert (process.returncode != 0) == fails, f"$ {command}\n{output}"
        compare(expected, output)

    def _export(self, command: str) -> None:
        shown = subprocess.run(
            ["bash", "-c", f'{command} && printf %s "$TOCSIN_TOKEN"'],
            cwd=self._directory,
            env=self._environment,
            capture_output=True,
            text=True,
            check=True,
        )
        self._environment["TOCSIN_TOKEN"] = shown.stdout


def steps(body: str) -> Iterator[tuple[str, list[str]]]:
    """Each command with the lines printed below it."""
    command, expected = "", list[str]()
    for line in body.splitlines():
        if line.startswith("$ "):
            if command:
                yield command, expected
            command, expected = line[2:], []
        elif line.strip():
            expected.append(line)
    if command:
        yield command, expected


def compare(expected: list[str], output: str) -> None:
    for line in expected:
        parts = [re.escape(part.strip()) for part in line.split("…")]
        pattern = ".*".join(parts)
        assert re.search(pattern, output), f"expected {line!r} in:\n{output}"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def play(text: str, directory: Path, data: str) -> str:
    """Run a page that begins with `tocsin up`, in this directory; what that printed."""
    assert f"$ tocsin up --data {data}" in text
    names = {"CLUSTER": 7400, "COORDINATOR": 7410, "BROKER": 7420, "BROKER_WS": 7421}
    chosen = {name: free_port() for name in names}
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TOCSIN_")}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    environment |= {"TOCSIN_JAVA_OPTIONS": SHORT_LIVED_JAVA, "TOCSIN_WARM_UP": "false"}
    services = environment | {f"TOCSIN_{name}_PORT": str(port) for name, port in chosen.items()}
    ports = {f"127.0.0.1:{names[name]}": f"127.0.0.1:{port}" for name, port in chosen.items()}
    cluster, coordinator = (ports[f"127.0.0.1:{names[n]}"] for n in ("CLUSTER", "COORDINATOR"))
    environment["TOCSIN_CLUSTER_URL"] = f"http://{cluster}"
    environment["TOCSIN_COORDINATOR_URL"] = f"http://{coordinator}"
    tocsin = shutil.which("tocsin", path=environment["PATH"])
    assert tocsin is not None
    up = subprocess.Popen(
        [tocsin, "up", "--data", data],
        cwd=directory,
        env=services,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    page = Page(directory, environment, ports)
    try:
        wait_until_ready(up, f"http://{cluster}/v1/status")
        page.run(text)
    finally:
        page.stop()
        up.send_signal(signal.SIGINT)
        output, _ = up.communicate(timeout=60)
    assert up.returncode == 0, output
    assert f"http://{cluster}" in output
    for command, expected in (step for _, _, body in BLOCK.findall(text) for step in steps(body)):
        if command.startswith("tocsin up "):
            compare(expected, output)
    return output


def test_tutorial_works_as_printed(tmp_path: Path) -> None:
    play((ROOT / "docs" / "tutorial.md").read_text(), tmp_path, "quake-data")


def wait_until_ready(up: subprocess.Popen[str], url: str) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        assert up.poll() is None, "tocsin up ended"
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                if b"true" in answer.read():
                    return
        except OSError:
            pass
        time.sleep(0.3)
    raise AssertionError("tocsin up did not become ready")
