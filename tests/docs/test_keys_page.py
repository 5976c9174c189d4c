"""The page about keys, as printed: its commands are run; a cluster without Spark is there for
those that call one."""

from __future__ import annotations

import asyncio
import re
import shlex
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cluster.sparkless import SparklessCluster, sparkless
from docs.test_tutorial import BLOCK, compare, steps
from tocsin.cli import app
from tocsin.errors import TocsinError
from tocsin.settings import Settings, described

TEXT = (Path(__file__).parents[2] / "docs" / "how-to" / "keys.md").read_text()


@contextmanager
def running(directory: Path, keys: Path) -> Iterator[SparklessCluster]:
    """A cluster in a loop of its own: commands have theirs."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    context = sparkless(directory, token_keys=str(keys), secret="")
    try:
        yield asyncio.run_coroutine_threadsafe(context.__aenter__(), loop).result(30)
    finally:
        ending = context.__aexit__(None, None, None)
        asyncio.run_coroutine_threadsafe(ending, loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def call(command: str) -> tuple[bool, str]:
    done = CliRunner().invoke(app, shlex.split(command)[1:])
    refused = isinstance(done.exception, TocsinError)
    return done.exit_code != 0, f"error: {done.exception}" if refused else done.output


def test_commands_of_the_page_do_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = 0
    for kind, info, body in BLOCK.findall(TEXT):
        if kind != "console":
            continue
        for command, expected in steps(body):
            if "cluster" in info:
                directory = tmp_path / f"cluster-{ran}"
                directory.mkdir()
                with running(directory, tmp_path / "jwks.json") as cluster:
                    signing = "tocsin token --key keys/people-2027.private.json --scope admin"
                    token = call(signing)[1].strip()
                    command = command.replace("$TOKEN", token) + f" --cluster {cluster.url}"
                    failed, output = call(command)
            else:
                failed, output = call(command)
            assert failed == ("fails" in info), output
            compare(expected, output)
            ran += 1
    assert ran == 13
    assert (tmp_path / "keys" / "broker_1.private.json").stat().st_mode & 0o777 == 0o600


def test_the_page_names_settings_that_there_are() -> None:
    known = {setting.name for setting in described()}
    (example,) = re.findall(r"```toml\n(.*?)```", TEXT, re.DOTALL)
    assert set(re.findall(r"^(\w+) =", example, re.MULTILINE)) <= known
    for name in re.findall(r"TOCSIN_(\w+)=", TEXT):
        assert name.lower() in known
    assert Settings().token_leeway_s == 60.0
