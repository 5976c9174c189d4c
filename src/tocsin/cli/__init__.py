"""The command line: `tocsin COMMAND`. A mistake ends in one clear line, never in a traceback."""

from __future__ import annotations

import os
import sys

import click
import httpx
import typer

from tocsin import __version__
from tocsin.cli import data, demo, services
from tocsin.cli.output import complain
from tocsin.errors import TocsinError

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


@app.command()
def version() -> None:
    """Print the version."""
    print(__version__)


def main() -> None:
    """Entry point; turns every expected failure into a message and an exit code."""
    try:
        code = app(standalone_mode=False)
    except click.exceptions.Abort:
        code = 130
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except TocsinError as error:
        complain(error)
        code = 1
    except httpx.HTTPError as error:
        complain(f"no answer from the service: {error or type(error).__name__}")
        code = 1
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except KeyboardInterrupt:
        code = 130
    sys.exit(code if isinstance(code, int) else 0)
