"""The store's file, by the real dialect. What SQLAlchemy knows of SQLite and the statements that it
has compiled are shared by all worlds: worlds are many and short, and their statements are the same.
"""

from __future__ import annotations

import sqlite3
from functools import cache
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Engine, create_engine
from sqlalchemy.engine import Dialect, make_url
from sqlalchemy.pool import QueuePool

from tocsin.storage.store.dialect.sqlite import Sqlite

_compiled: dict[Any, Any] = {}


class _Driver(sqlite3.Connection):
    """One that can be referred to weakly, as those of servers can."""


class StoreFile(Sqlite):
    @classmethod
    def at(cls, path: Path) -> Self:
        return cls(make_url(f"sqlite:///{path}"))

    def _new_engine(self) -> Engine:
        dialect = _sqlalchemy()
        args, options = dialect.create_connect_args(self.url)
        options["factory"] = _Driver
        pool = QueuePool(lambda: dialect.connect(*args, **options), dialect=dialect)
        return Engine(pool, dialect, self.url, execution_options={"compiled_cache": _compiled})


@cache
def _sqlalchemy() -> Dialect:
    """Its dialect, which learns from a first connection what this SQLite can."""
    engine = create_engine("sqlite://")
    engine.connect().close()
    return engine.dialect
