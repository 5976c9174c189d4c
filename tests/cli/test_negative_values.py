"""A number below what makes sense is refused by every command, with the option that it was for."""

from __future__ import annotations

import typing
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from tocsin.cli import app
from tocsin.errors import TocsinError

SECRET = "a secret that is long enough to sign with"
NUMERIC = (int, float, int | None, float | None)
ANY_SEED = {("demo", "seed"), ("lab", "prototype", "seed")}  # theirs are texts to a hash
NEEDED = {
    "listen": ["channel", "--token", "t"],
    "coordinator": ["--set", f"secret={SECRET}"],
    "broker": ["--set", f"secret={SECRET}", "--set", "broker_port=0"],
    "lab run": ["edge-caching"],
    "lab admission replay": ["x"],
    "lab admission make": ["x"],
    "lab pages make": ["x"],
    "plan survive": ["99%", "for", "1h", "--rate", "1/s", "--brokers", "3", "--clients", "1"],
}


def numeric_options(within: typer.Typer, *path: str) -> Iterator[tuple[tuple[str, ...], str]]:
    for command in within.registered_commands:
        assert command.callback is not None
        name = command.name or command.callback.__name__
        for option, kind in typing.get_type_hints(command.callback).items():
            if kind in NUMERIC and (*path, name, option) not in ANY_SEED:
                yield (*path, name), option
    for group in within.registered_groups:
        assert group.typer_instance is not None
        yield from numeric_options(group.typer_instance, *path, str(group.name))


OPTIONS = list(numeric_options(app))


def test_the_commands_that_take_numbers_are_looked_at() -> None:
    assert (("plan", "survive"), "clients") in OPTIONS
    assert len(OPTIONS) > 30


@pytest.mark.parametrize(("path", "option"), OPTIONS, ids=lambda part: str(part))
def test_a_negative_number_is_refused_by_its_option(
    path: tuple[str, ...], option: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [*path, *NEEDED.get(" ".join(path), ())]
    done = CliRunner().invoke(app, [*words, f"--{option.replace('_', '-')}", "-1"])
    if isinstance(done.exception, TocsinError):
        assert option.replace("_", "-") in str(done.exception.field).replace("_", "-")
    else:
        assert done.exit_code == 2
        assert f"'--{option.replace('_', '-')}'" in done.stderr


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (["-5%", "for", "1h"], "share"),
        (["-.5", "for", "1h"], "share"),
        (["99%", "-1", "1h"], "for"),
        (["99%", "for", "-1h"], "for"),
    ],
)
def test_a_negative_wish_is_a_wrong_value_and_no_option(words: list[str], field: str) -> None:
    given = ["--brokers", "3", "--rate", "1/s", "--clients", "1"]
    done = CliRunner().invoke(app, ["plan", "survive", *words, *given])
    assert isinstance(done.exception, TocsinError)
    assert done.exception.field == field
    assert done.exception.hint


def test_a_misspelt_option_is_still_refused() -> None:
    given = ["99%", "for", "1h", "--brokers", "3", "--rate", "1/s", "--clients", "1"]
    done = CliRunner().invoke(app, ["plan", "survive", *given, "--sed", "1"])
    assert done.exit_code == 2
    assert "--sed" in done.stderr
