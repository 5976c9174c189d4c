"""The page about the fault simulation, as printed, and all that it lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.printed import PAGES, run_as_printed
from tocsin.testing.simulation import KINDS
from tocsin.testing.simulation.faults import HAPPENS
from tocsin.testing.simulation.mutants import MUTANTS

PAGE = "how-to/simulate.md"


def test_commands_of_the_page_do_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert len(run_as_printed(PAGE, monkeypatch, capsys)) == 1


def test_the_page_lists_every_kind_of_world_every_fault_and_every_mutant() -> None:
    rows = [line for line in (PAGES / PAGE).read_text().splitlines() if line.startswith("| `")]
    named = {name.strip("` ") for row in rows for name in row.split("|")[1].split(",")}
    assert named == {*KINDS, *HAPPENS, *(mutant.name for mutant in MUTANTS)}
    for mutant in MUTANTS:
        assert f"| `{mutant.name}` | {mutant.kind} | {mutant.says} |" in rows
