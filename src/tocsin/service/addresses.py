"""Addresses that services are told, checked before anybody is sent there."""

from __future__ import annotations

from urllib.parse import urlsplit

from tocsin.errors import InvalidInput


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
