"""The page about the overlay, as printed: its commands run in order, their output compared."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from tocsin.cli import main

PAGE = Path(__file__).parents[2] / "docs" / "lab" / "overlay.md"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def steps() -> list[tuple[str, list[str]]]:
    """Each command with the lines printed below it."""
    found: list[tuple[str, list[str]]] = []
    for line in "".join(BLOCK.findall(PAGE.read_text())).splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif line.strip():
            found[-1][1].append(line)
    return found


def test_commands_of_the_page_do_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = steps()
    assert len(ran) == 3
    for command, expected in ran:
        monkeypatch.setattr(sys, "argv", shlex.split(command))
        with pytest.raises(SystemExit) as end:
            main()
        assert not end.value.code
        told = capsys.readouterr()
        for line in expected:
            pattern = ".*".join(re.escape(part.strip()) for part in line.split("…"))
            assert re.search(pattern, told.out + told.err), f"expected {line!r} in:\n{told}"
