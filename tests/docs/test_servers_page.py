"""The page about servers, as printed: its commands run in order in one directory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from real_servers import skip_or_fail
from tocsin.dev.servers import kinds

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "servers.md"
BLOCK = re.compile(r"^```console([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

Run = Callable[[str], subprocess.CompletedProcess[str]]

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]


def steps(body: str) -> list[tuple[str, list[str]]]:
    """Each command with the lines printed below it."""
    found: list[tuple[str, list[str]]] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line.strip():
            found[-1][1].append(line)
    return found


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    environment = {key: text for key, text in os.environ.items() if not key.startswith("TOCSIN_")}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"

    def ran(command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    yield ran
    if (tmp_path / "tocsin-data" / "dev").exists():
        ran("tocsin dev down --delete")


def test_commands_of_the_page_do_what_it_says(run: Run, tmp_path: Path) -> None:
    for kind in kinds(["kafka", "postgresql"]):
        if reason := kind.missing():
            skip_or_fail(reason)
    commands = [step for _, body in BLOCK.findall(PAGE.read_text()) for step in steps(body)]
    assert len(commands) >= 5
    for command, expected in commands:
        done = run(command)
        assert done.returncode == 0, f"$ {command}\n{done.stdout}"
        for line in expected:
            pattern = ".*".join(re.escape(part.strip()) for part in line.split("…"))
            assert re.search(pattern, done.stdout), f"expected {line!r} in:\n{done.stdout}"
    assert not (tmp_path / "tocsin-data" / "dev").exists()


def test_the_page_names_every_package() -> None:
    for kind in kinds([]):
        for package in getattr(kind, "packages", ()):
            assert f"`{package}`" in PAGE.read_text()
