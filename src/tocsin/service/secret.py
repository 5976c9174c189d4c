"""The secret that all services of a system share: from the settings, or in the data directory.

Also for commands of the client's installation: needs nothing that it has not.
"""

from __future__ import annotations

import contextlib
import secrets
from pathlib import Path

import msgspec

from tocsin import durable
from tocsin.errors import SettingError
from tocsin.service.tokens import MINIMUM_SECRET_CHARACTERS, check_secret
from tocsin.settings import Settings


def takes_secret(settings: Settings) -> bool:
    """Whether the secret signs tokens: without public keys it alone does."""
    return settings.secret_tokens or not (settings.token_keys or settings.token_issuer)


def ensure_secret(settings: Settings) -> Settings:
    """Settings with a secret: the one given, else the one in the data directory, else a new one.
    Where public keys alone are taken, none is needed."""
    if not takes_secret(settings):
        return settings
    if settings.secret:
        check_secret(settings.secret)
        return settings
    return msgspec.structs.replace(settings, secret=kept_secret(settings.data / "secret"))


def kept_secret(file: Path) -> str:
    """What the file holds; a new secret for its owner's eyes only if there is no such file."""
    try:
        if not file.exists():
            durable.make_directory(file.parent)
            with contextlib.suppress(FileExistsError):
                durable.create(file, secrets.token_hex(32).encode(), mode=durable.OWNER)
        secret = file.read_text().strip()
    except OSError as error:
        raise SettingError(
            f"cannot keep a secret in {file}: {error.strerror}", field="data"
        ) from None
    if len(secret) < MINIMUM_SECRET_CHARACTERS:
        raise SettingError(
            f"{file} holds no secret: it has {len(secret)} characters",
            field="secret",
            hint=f"write one of at least {MINIMUM_SECRET_CHARACTERS} into it, or delete it",
        )
    return secret


def find_secret(settings: Settings) -> Settings:
    """Like `ensure_secret`, but a missing secret is an error: nobody would share a new one."""
    if not takes_secret(settings) or settings.secret or (settings.data / "secret").exists():
        return ensure_secret(settings)
    raise SettingError(
        f"no secret: TOCSIN_SECRET is not set and {settings.data}/secret does not exist",
        field="secret",
        hint="set TOCSIN_SECRET as the other services have it, or point --data at their directory",
    )
