"""The page about backups, as printed: its commands run over a small system without Spark."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from backup.system import PHOTO, REPORTS, find, put, subscribe
from cluster.sparkless import sparkless
from docs.test_tutorial import BLOCK, compare, steps
from tocsin.cli import app
from tocsin.cli.output import complain
from tocsin.errors import TocsinError
from tocsin.model import Channel
from tocsin.settings import convert

TEXT = (Path(__file__).parents[2] / "docs" / "how-to" / "backup.md").read_text()


async def test_commands_of_the_page_do_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tocsin-data").mkdir()
    async with sparkless(tmp_path / "tocsin-data") as cluster:
        await cluster.create_dataset(REPORTS)
        cluster.store.catalog.create_channel(Channel("c", "continuous", (), "", ("reports",), ()))
        await cluster.publish_all("reports", [{"n": n} for n in range(5)])
        cluster.store_away(REPORTS, keep=2)
        find(cluster, subscribe(cluster, "ann", {}), b"{}")
        put(cluster.attachments, PHOTO)
        ran = 0
        for kind, info, body in BLOCK.findall(TEXT):
            if kind == "toml":
                convert(tomllib.loads(body))
            if kind != "console":
                continue
            for command, expected in steps(body):
                done = CliRunner().invoke(app, shlex.split(command)[1:])
                assert (done.exit_code != 0) == ("fails" in info), done.output
                printed = done.stdout
                if isinstance(done.exception, TocsinError):
                    capsys.readouterr()
                    complain(done.exception)
                    printed = capsys.readouterr().err
                compare(expected, printed)
                ran += 1
    assert ran == 4
