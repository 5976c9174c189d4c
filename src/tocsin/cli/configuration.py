"""Commands that need no service: settings, token."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tocsin import extras
from tocsin.cli.options import Config, Data, Set, settings_from
from tocsin.cli.output import show_table
from tocsin.cli.values import seconds_from
from tocsin.errors import SettingError
from tocsin.service.secret import find_secret, takes_secret
from tocsin.service.tokens import SCOPES, claims_for, mint
from tocsin.settings import CONFIDENTIAL, described, without_secrets

if TYPE_CHECKING:
    from tocsin.service.keys.jwk import SigningKey


def register(app: typer.Typer) -> None:
    app.command()(token)
    app.command("settings")(list_settings)


def token(
    scope: Annotated[list[str], typer.Option(help=f"what it may do: {', '.join(SCOPES)}")],
    subject: Annotated[str, typer.Option(help="who it speaks for")] = "me",
    expires: Annotated[str, typer.Option(help="lifetime: 90s, 12h, 30d")] = "30d",
    role: Annotated[list[str] | None, typer.Option(help="what grants are given to")] = None,
    key: Annotated[
        Path | None, typer.Option(help="private key that signs (tocsin keys new), not the secret")
    ] = None,
    data: Data = None,
    config: Config = None,
) -> None:
    """Make a token with the system's secret, or with a private key."""
    lifetime_s = seconds_from(expires, "expires")
    if key is not None:
        claims = claims_for(subject, scope, expires_s=lifetime_s, now=time.time(), roles=role or ())
        signing = _signing_key(key)
        signing.check(subject, scope, role or [])
        print(signing.sign(claims))
        return
    settings = find_secret(settings_from(config, None, data=data))
    if not takes_secret(settings):
        raise SettingError(
            "this system takes tokens of public keys alone",
            field="key",
            hint="sign with a private key: tocsin token --key FILE",
        )
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


def _signing_key(file: Path) -> SigningKey:
    extras.require("server")
    from tocsin.service.keys.jwk import SigningKey

    return SigningKey.read(file, "key")


def list_settings(config: Config = None, set_: Set = None) -> None:
    """List every setting with its value here, and where it can be set."""
    settings = settings_from(config, set_)
    rows = []
    for setting in described():
        value = getattr(settings, setting.name)
        shown = "(set)" if setting.name in CONFIDENTIAL and value else without_secrets(str(value))
        rows.append([setting.name, shown, setting.variable, setting.meaning])
    show_table(["setting", "value", "environment", "meaning"], rows)
