"""The lab's page, as printed: its commands run in order in one directory, their output compared."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "lab" / "README.md"
BLOCK = re.compile(r"^```console([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

pytestmark = [pytest.mark.processes, pytest.mark.timeout(600)]


def steps(body: str) -> list[tuple[str, list[str]]]:
    """Each command with the lines printed below it."""
    found: list[tuple[str, list[str]]] = []
    for line in body.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line.strip():
            found[-1][1].append(line)
    return found


def test_commands_of_the_page_do_what_it_says(tmp_path: Path) -> None:
    environment = {key: text for key, text in os.environ.items() if not key.startswith("TOCSIN_")}
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    ran = 0
    for info, body in BLOCK.findall(PAGE.read_text()):
        for command, expected in steps(body):
            done = subprocess.run(
                ["bash", "-c", command],
                cwd=tmp_path,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=300,
            )
            assert (done.returncode != 0) == ("fails" in info), f"$ {command}\n{done.stdout}"
            for line in expected:
                pattern = ".*".join(re.escape(part.strip()) for part in line.split("…"))
                assert re.search(pattern, done.stdout), f"expected {line!r} in:\n{done.stdout}"
            ran += 1
    assert ran >= 8
    named = {path.name for path in (tmp_path / "lab" / "edge-caching-quick").iterdir()}
    for file in re.findall(r"^\| (`[^|]+) \|", PAGE.read_text(), re.MULTILINE):
        for name in re.findall(r"`([^`]+)`", file):
            assert name.split("/")[0] in named
