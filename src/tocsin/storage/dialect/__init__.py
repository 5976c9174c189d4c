"""What differs between databases: how to connect, claim, write in bulk, and read their errors.

The only package of the store that may name a product; one module for each.
"""

from __future__ import annotations

import re

from sqlalchemy import exc
from sqlalchemy.engine import make_url

from tocsin.errors import SettingError
from tocsin.storage.dialect.contract import FIELD, Dialect, Kind, Trouble
from tocsin.storage.dialect.mariadb import Mariadb
from tocsin.storage.dialect.postgresql import Postgresql
from tocsin.storage.dialect.sqlite import Sqlite

__all__ = ["FIELD", "Dialect", "Kind", "Trouble", "dialect_of"]

_DIALECTS: dict[str, type[Dialect]] = {
    "sqlite": Sqlite,
    "postgresql": Postgresql,
    "mariadb": Mariadb,
}


def dialect_of(text: str) -> Dialect:
    """The dialect for a store's address such as sqlite:///data/store.db, and where it leads."""
    try:
        url = make_url(text)
        kind = _DIALECTS[url.get_backend_name()]
    except (exc.ArgumentError, KeyError, ValueError):
        shown = re.sub("//.*@", "//…@", text)  # no password on any screen
        raise SettingError(
            f"{shown!r} is not the address of a store",
            field=FIELD,
            hint="give sqlite:///FILE, postgresql://USER:PASSWORD@HOST/DATABASE or"
            " mariadb://USER:PASSWORD@HOST/DATABASE",
        ) from None
    return kind(url)
