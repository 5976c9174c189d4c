"""The page about repairs, as printed: its commands run over a log with one damaged record."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from docs.test_tutorial import BLOCK, compare, steps
from log.segments.test_rot import filled, spoil
from tocsin.cli import app
from tocsin.storage.store.store import Store

TEXT = (Path(__file__).parents[2] / "docs" / "how-to" / "repair.md").read_text()


def test_commands_of_the_page_do_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = tmp_path / "tocsin-data"
    data.mkdir()
    Store.open(f"sqlite:///{data}/store.db").close()
    spoil(data / "log", filled(data / "log")[7][0] + 30)
    ran = 0
    for kind, info, body in BLOCK.findall(TEXT):
        if kind != "console":
            continue
        for command, expected in steps(body):
            done = CliRunner().invoke(app, shlex.split(command)[1:])
            assert (done.exit_code != 0) == ("fails" in info), done.output
            compare(expected, done.output)
            ran += 1
    assert ran == 3
    assert re.search(r"\.damaged", TEXT)
