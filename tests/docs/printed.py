"""Pages that print commands and what they answer: both are run and compared."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from tocsin.cli import main

PAGES = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```console([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def steps(page: str) -> list[tuple[str, list[str], bool]]:
    """Each command with the lines printed below it, and whether it fails."""
    found: list[tuple[str, list[str], bool]] = []
    for info, body in BLOCK.findall((PAGES / page).read_text()):
        for line in body.splitlines():
            if line.startswith("$ "):
                found.append((line[2:], [], "fails" in info))
            elif line.strip():
                found[-1][1].append(line)
    return found


def run_as_printed(
    page: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> list[str]:
    """The commands that were run, in order and in this directory."""
    for command, expected, fails in steps(page):
        monkeypatch.setattr(sys, "argv", shlex.split(command))
        with pytest.raises(SystemExit) as end:
            main()
        told = capsys.readouterr()
        assert bool(end.value.code) == fails, told.err
        for line in expected:
            pattern = ".*".join(re.escape(part.strip()) for part in line.split("…"))
            assert re.search(pattern, told.out + told.err), f"expected {line!r} in:\n{told}"
    return [command for command, _, _ in steps(page)]
