"""Keys, tokens and key sets as tests want them, also such as nobody should make."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jwt

from tocsin.service.keys.jwk import SigningKey
from tocsin.service.tokens import claims_for

SECRET = "a secret that is long enough to sign with"


def claims(subject: str = "ann", *scopes: str, **more: Any) -> dict[str, Any]:
    said = claims_for(subject, scopes or ("subscribe",), expires_s=600, now=time.time())
    return {name: value for name, value in (said | more).items() if value is not None}


def key_set(*keys: SigningKey | Mapping[str, Any]) -> bytes:
    entries = [key.public_entry if isinstance(key, SigningKey) else key for key in keys]
    return json.dumps({"keys": entries}).encode()


def key_file(directory: Path, *keys: SigningKey) -> Path:
    file = directory / "jwks.json"
    file.write_bytes(key_set(*keys))
    return file


def encoded(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def signed_text(key: SigningKey, header: str, body: str) -> str:
    """A token whose parts are these texts, with a good signature."""
    algorithm = jwt.get_algorithm_by_name(key.algorithm)
    head = f"{encoded(header)}.{encoded(body)}"
    signature = algorithm.sign(head.encode(), key.private)
    return f"{head}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"
