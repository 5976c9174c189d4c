"""What differs between databases: how to connect, claim, write in bulk, and read their errors.

The only package of the store that may name a product; one module for each.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import cast

from sqlalchemy import exc
from sqlalchemy.engine import make_url

from tocsin import extras
from tocsin.errors import SettingError
from tocsin.storage.store.dialect.contract import FIELD, Dialect, Kind, Trouble

__all__ = ["FIELD", "Dialect", "Kind", "Trouble", "dialect_of"]

_DIALECTS = {"sqlite": "Sqlite", "postgresql": "Postgresql", "mariadb": "Mariadb"}
"""Modules of this package, with their class. One is imported when an address names it: each needs
a driver, which may not be installed."""


def dialect_of(text: str) -> Dialect:
    """The dialect for a store's address such as sqlite:///data/store.db, and where it leads."""
    try:
        url = make_url(text)
        product = url.get_backend_name()
        class_name = _DIALECTS[product]
    except (exc.ArgumentError, KeyError, ValueError):
        shown = re.sub("//.*@", "//…@", text)  # no password on any screen
        raise SettingError(
            f"{shown!r} is not the address of a store",
            field=FIELD,
            hint="give sqlite:///FILE, postgresql://USER:PASSWORD@HOST/DATABASE or"
            " mariadb://USER:PASSWORD@HOST/DATABASE",
        ) from None
    extras.require_for_address(text)
    module = import_module(f"{__name__}.{product}")
    return cast("type[Dialect]", getattr(module, class_name))(url)
