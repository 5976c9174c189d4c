"""PostgreSQL. It refuses to run as root: then it runs as its package's user, postgres."""

from __future__ import annotations

import hashlib
import os
import pwd
import re
import secrets
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from tocsin.dev.packages import advice, apt_install, find_program
from tocsin.dev.ports import HOST
from tocsin.dev.processes import Command, run
from tocsin.dev.server import Progress, Server
from tocsin.errors import Unavailable

if TYPE_CHECKING:
    from psycopg import Connection

FOLDER = Path("/usr/lib/postgresql")
ELSEWHERE = Path("/var/tmp")
PACKAGE = "postgresql"
USER = "postgres"
NAME = "tocsin"  # of the database and of its owner


class PostgreSQL(Server):
    name = "postgresql"
    title = "PostgreSQL"
    gently = signal.SIGINT  # SIGTERM would wait for all clients

    @classmethod
    def lacks(cls) -> str | None:
        return None if installed() else advice(cls.title, PACKAGE)

    @classmethod
    def install(cls, progress: Progress) -> None:
        if cls.lacks() is not None:
            progress.begin("installing PostgreSQL", 0)
            apt_install(cls.title, PACKAGE)

    @property
    def url(self) -> str:
        return self._url(NAME)

    def fresh(self) -> str:
        """The URL of a new, empty database."""
        name = f"{NAME}_{secrets.token_hex(6)}"
        self._run(f'CREATE DATABASE "{name}"')
        return self._url(name)

    def drop(self, url: str) -> None:
        """Delete a fresh database, whoever is connected to it."""
        self._run(f'DROP DATABASE "{url.rpartition("/")[2]}" WITH (FORCE)')

    def _url(self, database: str) -> str:
        return f"postgresql+psycopg://{NAME}:{self._record.password}@{HOST}:{self.port}/{database}"

    def _make_home(self) -> None:
        """Where postgres can reach it: nobody but root can enter a folder such as /root."""
        user = _user()
        if self.home.exists() or not user:
            super()._make_home()
            return
        self.home.parent.mkdir(parents=True, exist_ok=True)
        home = self.home
        if not _reaches(user, home.parent):
            digest = hashlib.sha256(str(home.absolute()).encode()).hexdigest()
            home = ELSEWHERE / f"tocsin-postgresql-{digest[:16]}"
        found = pwd.getpwnam(user)
        home.mkdir(mode=0o700, exist_ok=True)
        if home.stat().st_uid not in (0, found.pw_uid):
            raise Unavailable(f"{home} belongs to somebody else")
        os.chown(home, found.pw_uid, found.pw_gid)
        if home != self.home:
            self.home.symlink_to(home)

    def _make_data(self, data: Path) -> None:
        secret = self.home / "password"
        secret.touch(0o600)
        secret.write_text(self._record.password)
        if user := _user():
            os.chown(secret, pwd.getpwnam(user).pw_uid, -1)
        words = [str(self._programs() / "initdb"), "--pgdata", str(data), "--username", USER]
        words += ["--pwfile", str(secret), "--auth=scram-sha-256", "--encoding=UTF8", "--no-locale"]
        done = run([*words, "--no-sync"], user=user)
        secret.unlink()
        if done.returncode != 0:
            told = done.stderr.strip()
            raise Unavailable(f"PostgreSQL's data directory could not be made: {told}")

    def _launch(self) -> None:
        settings = {
            "port": self.port,
            "listen_addresses": HOST,
            "unix_socket_directories": "",
            "max_connections": 200,
            # Without it a killed server keeps every commit all the same; a power cut is no test.
            "fsync": "off" if self._short_lived else "on",
        }
        words = [str(self._programs() / "postgres"), "-D", str(self.data)]
        for key, value in settings.items():
            words += ["-c", f"{key}={value}"]
        self._start_process(self.name, Command(words, str(self.log), user=_user()))
        self._until(self._answers)

    def _answers(self) -> bool:
        import psycopg

        try:
            with self._connect(USER, USER) as admin:
                self._make_database(admin)
        except psycopg.OperationalError:
            return False
        return True

    def _make_database(self, admin: Connection) -> None:
        """The owner may make more of them."""
        if not admin.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [NAME]).fetchone():
            role = f"CREATE ROLE {NAME} LOGIN CREATEDB PASSWORD '{self._record.password}'"
            admin.execute(role.encode())
        if not admin.execute("SELECT 1 FROM pg_database WHERE datname = %s", [NAME]).fetchone():
            admin.execute(f"CREATE DATABASE {NAME} OWNER {NAME}")

    def _run(self, statement: str) -> None:
        with self._connect(NAME, NAME) as connection:
            connection.execute(statement.encode())

    def _connect(self, user: str, database: str) -> Connection:
        import psycopg

        return psycopg.connect(
            host=HOST,
            port=self.port,
            user=user,
            password=self._record.password,
            dbname=database,
            connect_timeout=5,
            autocommit=True,
        )

    def _programs(self) -> Path:
        """The installed version that made the data, else the newest."""
        known = installed()
        try:
            version = int((self.data / "PG_VERSION").read_text())
        except FileNotFoundError:
            return known[max(known)]
        if version in known:
            return known[version]
        if 0 in known:
            return known[0]
        raise Unavailable(
            f"{self.data} was made by PostgreSQL {version}, which is not installed",
            hint=f"install it, or delete {self.home}",
        )


def installed() -> dict[int, Path]:
    """Folder of programs by version; under 0 the one on the path."""
    found = {}
    for folder in FOLDER.glob("*/bin"):
        if re.fullmatch(r"\d+", folder.parent.name) and (folder / "initdb").exists():
            found[int(folder.parent.name)] = folder
    on_path = find_program("initdb")
    if not found and on_path is not None:
        found[0] = on_path.resolve().parent
    return found


def _user() -> str:
    """Whom the server runs as; empty: ourselves."""
    if os.geteuid() != 0:
        return ""
    try:
        pwd.getpwnam(USER)
    except KeyError:
        raise Unavailable(
            f"PostgreSQL refuses to run as root, and there is no user {USER}",
            hint=f"make one, or call this as another user: useradd --system {USER}",
        ) from None
    return USER


def _reaches(user: str, folder: Path) -> bool:
    return run(["test", "-x", str(folder.absolute())], user=user).returncode == 0
