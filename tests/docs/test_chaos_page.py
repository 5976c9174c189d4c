"""The page about breaking systems on purpose, as printed: a short run, on files alone."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from docs.test_tutorial import BLOCK, compare, steps

pytestmark = [pytest.mark.timeout(420)]

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "chaos.md"
TEXT = PAGE.read_text()


@pytest.mark.processes
def test_the_run_on_the_page_breaks_no_promise(tmp_path: Path) -> None:
    ((command, expected),) = [
        step for kind, _, body in BLOCK.findall(TEXT) if kind == "console" for step in steps(body)
    ]
    words = shlex.split(command)
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=tmp_path, capture_output=True, text=True, timeout=400
    )
    assert done.returncode == 0, done.stderr
    compare(expected, done.stderr + done.stdout)


@pytest.mark.parametrize(("place", "profile"), [(1, "embedded"), (2, "company")])
def test_figures_of_long_runs_are_those_of_their_outputs(place: int, profile: str) -> None:
    output = (PAGE.parent / "chaos" / f"{profile}.txt").read_text()
    faults = re.search(r"^(\d+) faults of (\d+) kinds in 1800 s$", output, re.MULTILINE)
    assert faults is not None
    said = {"faults": faults[1], "kinds of faults": faults[2]}
    said |= dict(line.split("\t") for line in output.splitlines() if "\t" in line)
    table = TEXT.split("## Half an hour")[1]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    printed = {row[0]: row[place] for row in rows if len(row) == 3 and row[0].strip("-")}
    assert len(printed) == 9
    assert printed == {name: said[name] for name in printed}
