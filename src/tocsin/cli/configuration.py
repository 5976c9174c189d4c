"""Commands that need no service: settings, token."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from tocsin.cli.options import Config, Data, Set, settings_from
from tocsin.cli.output import show_table
from tocsin.cli.values import seconds_from
from tocsin.service.secret import find_secret
from tocsin.service.tokens import SCOPES, mint
from tocsin.settings import described, without_secrets


def register(app: typer.Typer) -> None:
    app.command()(token)
    app.command("settings")(list_settings)


def token(
    scope: Annotated[list[str], typer.Option(help=f"what it may do: {', '.join(SCOPES)}")],
    subject: Annotated[str, typer.Option(help="who it speaks for")] = "me",
    expires: Annotated[str, typer.Option(help="lifetime: 90s, 12h, 30d")] = "30d",
    role: Annotated[list[str] | None, typer.Option(help="what grants are given to")] = None,
    data: Data = None,
    config: Config = None,
) -> None:
    """Make a token with the system's secret."""
    settings = find_secret(settings_from(config, None, data=data))
    lifetime_s = seconds_from(expires, "expires")
    print(
        mint(
            settings.secret,
            subject,
            scope,
            expires_s=lifetime_s,
            now=time.time(),
            roles=role or (),
        )
    )


def list_settings(config: Config = None, set_: Set = None) -> None:
    """List every setting with its value here, and where it can be set."""
    settings = settings_from(config, set_)
    rows = []
    for setting in described():
        value = getattr(settings, setting.name)
        shown = "(set)" if setting.name == "secret" and value else without_secrets(str(value))
        rows.append([setting.name, shown, setting.variable, setting.meaning])
    show_table(["setting", "value", "environment", "meaning"], rows)
