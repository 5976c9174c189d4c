"""Which libraries are optional, and which extra of the package installs each: the one such table.

Knows names only, and imports none of them. `pyproject.toml` says what each extra installs; a test
holds the two together.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from msgspec import Struct

from tocsin.errors import NotInstalled


class Extra(Struct, frozen=True):
    """An optional part of the package."""

    title: str
    """What is missing without it, as the subject of "… is not installed"."""
    modules: tuple[str, ...]
    """What it brings, as it is imported."""
    includes: tuple[str, ...] = ()
    """Extras that it brings as well."""


EXTRAS = {
    "server": Extra(
        "the server",
        (
            *("pyspark", "py4j", "pandas", "pyarrow", "numpy", "sqlglot", "sqlalchemy"),
            *(
                "picows",
                "uvloop",
                "starlette",
                "uvicorn",
                "httptools",
                "python_multipart",
                "cryptography",
            ),
            *("prometheus_client", "structlog", "psutil"),
        ),
    ),
    "kafka": Extra("the client library of Kafka", ("confluent_kafka",)),
    "postgresql": Extra("the driver of PostgreSQL", ("psycopg",)),
    "mariadb": Extra("the driver of MariaDB", ("pymysql",)),
    "s3": Extra("the client library of S3", ("fsspec", "s3fs", "botocore")),
    "delta": Extra("the reader of Delta tables", ("deltalake",)),
    "lab": Extra("the lab", ("numba", "scipy", "matplotlib", "plotly"), includes=("server",)),
}

_OF_MODULE = {module: name for name, extra in EXTRAS.items() for module in extra.modules}
_OF_SCHEME = {
    "kafka": "kafka",
    "postgresql": "postgresql",
    "mariadb": "mariadb",
    "s3": "s3",
    "s3a": "s3",
}
"""Extras by how an address begins, up to a driver's name: `postgresql+psycopg://…`."""


def require(name: str) -> None:
    """Raise NotInstalled unless every library of an extra is there. Imports none."""
    if any(find_spec(module) is None for module in _modules(name)):
        raise _not_installed(name)


def require_for_address(address: str) -> None:
    """The same for what it takes to reach `kafka://…`, `postgresql://…`, `s3://…`."""
    scheme, separator, _ = address.partition("://")
    name = _OF_SCHEME.get(scheme.partition("+")[0])
    if separator and name is not None:
        require(name)


def explained(error: ModuleNotFoundError) -> NotInstalled | None:
    """Why an import failed, if what it lacks is optional; else it is a fault of ours."""
    name = _OF_MODULE.get((error.name or "").partition(".")[0])
    return None if name is None else _not_installed(name)


def _modules(name: str) -> Iterator[str]:
    extra = EXTRAS[name]
    for included in extra.includes:
        yield from _modules(included)
    yield from extra.modules


def _not_installed(name: str) -> NotInstalled:
    return NotInstalled(
        f"{EXTRAS[name].title} is not installed", hint=f"pip install 'tocsin[{name}]'"
    )
