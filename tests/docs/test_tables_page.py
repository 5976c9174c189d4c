"""The page about tables, as printed: a system keeps its datasets there, and another engine reads
them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from docs.test_s3_page import Shell
from docs.test_tutorial import BLOCK, steps
from tocsin.spark.jars import DELTA

TEXT = (Path(__file__).parents[2] / "docs" / "how-to" / "tables.md").read_text()

pytestmark = [pytest.mark.processes, pytest.mark.timeout(300)]


def test_what_the_page_prints_works(tmp_path: Path) -> None:
    DELTA.fetch()
    shell = Shell(tmp_path)
    try:
        for kind, info, body in BLOCK.findall(TEXT):
            if kind == "console" and "background" in info:
                ((command, _),) = steps(body)
                shell.begin(command)
                token = "tocsin token --scope admin --scope publish"
                printed, _ = shell._start(token).communicate()
                shell.environment["TOCSIN_TOKEN"] = printed.strip()
            elif kind == "console":
                for command, expected in steps(body):
                    shell.run(command, expected)
            elif kind == "python":
                assert until_stored(tmp_path, body) == "['fire', 'flood']"
    finally:
        shell.end()


def until_stored(directory: Path, snippet: str) -> str:
    """What the printed snippet says, once the records are flushed."""
    deadline = time.monotonic() + 120
    while True:
        done = subprocess.run(
            [sys.executable, "-c", snippet], cwd=directory, capture_output=True, text=True
        )
        if done.returncode == 0 or time.monotonic() > deadline:
            return done.stdout.strip() or done.stderr
        time.sleep(0.5)
