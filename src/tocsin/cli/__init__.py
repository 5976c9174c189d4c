"""The command line: `tocsin COMMAND`. A mistake ends in one clear line, never in a traceback."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import httpx
import typer

from tocsin import __version__, extras
from tocsin.cli import (
    backup,
    chaos,
    configuration,
    data,
    demo,
    dev,
    keys,
    lab,
    plan,
    repair,
    services,
    simulate,
    status,
)
from tocsin.cli.output import complain
from tocsin.errors import MISCONFIGURED, NotInstalled, SettingError, TocsinError

_PARTS: tuple[tuple[Callable[[typer.Typer], None], str | None], ...] = (
    (services.register, "server"),
    (configuration.register, None),
    (keys.register, "server"),
    (data.register, None),
    (status.register, None),
    (demo.register, "server"),
    (lab.register, "lab"),
    (plan.register, "lab"),
    (dev.register, "server"),
    (simulate.register, "server"),
    (chaos.register, "server"),
    (repair.register, "server"),
    (backup.register, "server"),
)
"""All commands, and the extra that those of a part need."""


def _command_line() -> typer.Typer:
    whole = typer.Typer(
        name="tocsin",
        help="Big Active Data on Spark: ask once, be told whenever the answer changes.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=False,
    )
    for register, extra in _PARTS:
        part = typer.Typer()
        register(part)
        if extra is not None:
            _guard(part, extra)
        whole.registered_commands += part.registered_commands
        whole.registered_groups += part.registered_groups
    whole.command()(version)
    return whole


def _guard(part: typer.Typer, extra: str) -> None:
    """Every command of the part asks for the extra before it does anything. Help needs none."""
    for command in part.registered_commands:
        if command.callback is not None:
            command.callback = _requiring(extra, command.callback)
    for group in part.registered_groups:
        if group.typer_instance is not None:
            _guard(group.typer_instance, extra)


def _requiring(extra: str, command: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        extras.require(extra)
        return command(*args, **kwargs)

    return guarded


def version() -> None:
    """Print the version."""
    print(__version__)


app = _command_line()


def main() -> None:
    """Entry point; turns every expected failure into a message and an exit code."""
    try:
        app()
    except TocsinError as error:
        _fail(error)
    except ModuleNotFoundError as error:
        reason = extras.explained(error)
        if reason is None:
            raise
        _fail(reason)
    except OSError as error:
        complain(
            f"cannot use {error.filename}: {error.strerror}"
            if error.filename
            else f"no answer from the service: {error}"
        )
        sys.exit(1)
    except httpx.HTTPError as error:
        complain(f"no answer from the service: {error or type(error).__name__}")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)


def _fail(error: TocsinError) -> None:
    complain(error)
    sys.exit(MISCONFIGURED if isinstance(error, SettingError | NotInstalled) else 1)
