"""The command line: `tocsin COMMAND`. A mistake ends in one clear line, never in a traceback."""

from __future__ import annotations

import sys

import typer

from tocsin import __version__
from tocsin.cli import data, demo, dev, lab, plan, repair, services, simulate
from tocsin.cli.output import complain
from tocsin.errors import SettingError, TocsinError
from tocsin.service.backoff import NO_ANSWER
from tocsin.system import MISCONFIGURED

app = typer.Typer(
    name="tocsin",
    help="Big Active Data on Spark: ask once, be told whenever the answer changes.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
services.register(app)
data.register(app)
demo.register(app)
lab.register(app)
plan.register(app)
dev.register(app)
simulate.register(app)
repair.register(app)


@app.command()
def version() -> None:
    """Print the version."""
    print(__version__)


def main() -> None:
    """Entry point; turns every expected failure into a message and an exit code."""
    try:
        app()
    except TocsinError as error:
        complain(error)
        sys.exit(MISCONFIGURED if isinstance(error, SettingError) else 1)
    except OSError as error:
        complain(
            f"cannot use {error.filename}: {error.strerror}"
            if error.filename
            else f"no answer from the service: {error}"
        )
        sys.exit(1)
    except NO_ANSWER as error:
        complain(f"no answer from the service: {error or type(error).__name__}")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
