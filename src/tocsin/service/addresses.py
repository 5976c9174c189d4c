"""Addresses that services are told, checked before anybody is sent there."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

from tocsin.errors import InvalidInput
from tocsin.settings import Settings


def checked_address(address: str, scheme: str, field: str) -> str:
    """Of a service that speaks `scheme` (http or ws), or the same over TLS."""
    try:
        parts = urlsplit(address)
        sound = parts.scheme in (scheme, f"{scheme}s") and parts.hostname and parts.port != 0
    except ValueError:
        sound = False
    if not sound or not address.isprintable() or " " in address:
        raise InvalidInput(
            f"{address!r} is not the address of a service",
            field=field,
            hint=f"such as {scheme}://host:7420, or {scheme}s://host/path",
        )
    return address


def announced_host(settings: Settings) -> str:
    """By which others reach this host, as part of an address."""
    host = settings.public_host or settings.host
    if host in ("0.0.0.0", "::"):
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host
