"""What PostgreSQL and MariaDB share: a package, a password, a database `tocsin` and fresh ones."""

from __future__ import annotations

import secrets
from abc import abstractmethod
from typing import Any, ClassVar

from tocsin.dev.packages import advice, apt_install
from tocsin.dev.server import Progress, Server
from tocsin.errors import InvalidInput, Unavailable
from tocsin.system.ports import HOST

NAME = "tocsin"
"""Of the database and of its owner, who may make others: tocsin_…"""


class Database(Server):
    packages: ClassVar[tuple[str, ...]]
    scheme: ClassVar[str]

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        if not self._record.password:
            self._record.password = secrets.token_hex(16)

    @classmethod
    @abstractmethod
    def _installed(cls) -> bool: ...

    @abstractmethod
    def run(self, statement: str) -> None:
        """Run a statement as the owner, in the database that all share."""

    @classmethod
    def _lacks(cls) -> str | None:
        return None if cls._installed() else advice(cls.title, cls.packages)

    @classmethod
    def install(cls, progress: Progress) -> None:
        if not cls._installed():
            progress.begin(f"installing {cls.title}", 0)
            apt_install(cls.title, cls.packages)
            if not cls._installed():
                raise Unavailable(f"{cls.title} was installed, but no server is found")

    @property
    def password(self) -> str:
        return self._record.password

    @property
    def url(self) -> str:
        return self._url(NAME)

    def fresh(self) -> str:
        """The URL of a new, empty database."""
        name = f"{NAME}_{secrets.token_hex(6)}"
        self.run(f"CREATE DATABASE {name}")
        return self._url(name)

    def drop(self, url: str) -> None:
        """Delete a fresh database."""
        name = url.rpartition("/")[2]
        if url != self._url(name) or not name.startswith(f"{NAME}_"):
            raise InvalidInput(f"{name} is no fresh database of {self.title}")
        self.run(self._drop_statement(name))

    def _login(self, user: str = NAME) -> dict[str, Any]:
        """What every driver takes to connect."""
        return {
            "host": HOST,
            "port": self.port,
            "user": user,
            "password": self.password,
            "connect_timeout": 5,
        }

    def _drop_statement(self, name: str) -> str:
        return f"DROP DATABASE {name}"

    def _url(self, database: str) -> str:
        return f"{self.scheme}://{NAME}:{self.password}@{HOST}:{self.port}/{database}"
