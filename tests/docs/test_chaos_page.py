"""The page about breaking systems on purpose, as printed: a short run, on files alone."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from docs.test_tutorial import BLOCK, compare, steps

pytestmark = [pytest.mark.processes, pytest.mark.timeout(420)]

TEXT = (Path(__file__).parents[2] / "docs" / "how-to" / "chaos.md").read_text()


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
