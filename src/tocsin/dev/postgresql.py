"""PostgreSQL. It refuses to run as root: then it runs as its package's user, postgres."""

from __future__ import annotations

import hashlib
import os
import pwd
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from tocsin.dev.database import NAME, Database
from tocsin.dev.packages import find_program
from tocsin.errors import Unavailable
from tocsin.system.launching import Command, run
from tocsin.system.ports import HOST
from tocsin.system.processes import processes_in

if TYPE_CHECKING:
    from psycopg import Connection

FOLDER = Path("/usr/lib/postgresql")
ELSEWHERE = Path("/var/tmp")
ADMIN = "postgres"  # the package's user, and the first role of a new data directory


class PostgreSQL(Database):
    name = "postgresql"
    title = "PostgreSQL"
    packages = ("postgresql",)
    scheme = "postgresql+psycopg"
    gently = signal.SIGINT  # SIGTERM would wait for all clients

    @classmethod
    def _installed(cls) -> bool:
        return bool(versions())

    def run(self, statement: str) -> None:
        with self._connect(NAME, NAME) as connection:
            connection.execute(statement.encode())

    def _drop_statement(self, name: str) -> str:
        return f"DROP DATABASE {name} WITH (FORCE)"  # whoever is connected to it

    def _make_home(self) -> None:
        """Where postgres can reach it: nobody but root can enter a folder such as /root."""
        user = _user()
        if not user or self.home.exists():
            super()._make_home()
            return
        self.home.parent.mkdir(parents=True, exist_ok=True)
        home = self.home
        if run(["test", "-x", str(home.parent.absolute())], user=user).returncode != 0:
            digest = hashlib.sha256(str(home.absolute()).encode()).hexdigest()
            home = ELSEWHERE / f"tocsin-postgresql-{digest[:16]}"
        known = pwd.getpwnam(user)
        home.mkdir(mode=0o700, exist_ok=True)
        if home.is_symlink() or home.stat().st_uid not in (0, known.pw_uid):
            raise Unavailable(f"{home} belongs to somebody else", hint="delete it")
        os.chown(home, known.pw_uid, known.pw_gid)
        if home != self.home:
            self.home.unlink(missing_ok=True)  # a link to what somebody deleted
            self.home.symlink_to(home)

    def _make_data(self, data: Path) -> None:
        user, secret = _user(), data.with_name("password")
        secret.touch(0o600)
        secret.write_text(self.password)
        if user:
            os.chown(secret, pwd.getpwnam(user).pw_uid, -1)
        words = [str(self._programs() / "initdb"), "--pgdata", str(data), "--username", ADMIN]
        words += ["--pwfile", str(secret), "--auth=scram-sha-256", "--encoding=UTF8", "--no-locale"]
        done = run([*words, "--no-sync"], user=user)
        secret.unlink()
        if done.returncode != 0:
            raise self._no_data(done.stderr)

    def _launch(self) -> None:
        self._clear_after_a_kill()
        settings = {
            "port": self.port,
            "listen_addresses": HOST,
            "unix_socket_directories": "",
            "max_connections": 200,
            # A killed server keeps every commit without it; only a power cut takes some.
            "fsync": "off" if self._short_lived else "on",
        }
        words = [str(self._programs() / "postgres"), "-D", str(self.data)]
        for key, value in settings.items():
            words += ["-c", f"{key}={value}"]
        self._start_process(self.name, Command(words, str(self.log), user=_user()))
        self._until(self._answers)

    def _clear_after_a_kill(self) -> None:
        """Its lock names a process that may stay a zombie for long where nobody waits for orphans,
        and its children may take a moment to see that they are orphans."""
        for process in processes_in(self.data):
            process.kill()
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def _answers(self) -> bool:
        import psycopg

        try:
            with self._connect(ADMIN, ADMIN) as admin:
                self._make_database(admin)
        except psycopg.OperationalError as error:
            if "authentication failed" in str(error):
                raise Unavailable(
                    "PostgreSQL's data is older than the password of the state file",
                    hint=f"delete {self.home}",
                ) from None
            return False
        return True

    def _make_database(self, admin: Connection) -> None:
        if not admin.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [NAME]).fetchone():
            role = f"CREATE ROLE {NAME} LOGIN CREATEDB PASSWORD '{self.password}'"
            admin.execute(role.encode())
        if not admin.execute("SELECT 1 FROM pg_database WHERE datname = %s", [NAME]).fetchone():
            admin.execute(f"CREATE DATABASE {NAME} OWNER {NAME}")

    def _connect(self, user: str, database: str) -> Connection:
        import psycopg

        return psycopg.connect(dbname=database, autocommit=True, **self._login(user))

    def _programs(self) -> Path:
        """The installed version that made the data, else the newest."""
        known = versions()
        try:
            version = (self.data / "PG_VERSION").read_text().strip()
        except FileNotFoundError:
            return known[max(known, key=int)]
        if version in known:
            return known[version]
        raise Unavailable(
            f"{self.data} was made by PostgreSQL {version}; here is {', '.join(sorted(known))}",
            hint=f"install that version, or delete {self.home}",
        )


def versions() -> dict[str, Path]:
    """Folder of programs by major version."""
    folders = {
        folder.parent.name: folder
        for folder in FOLDER.glob("*/bin")
        if folder.parent.name.isdigit() and (folder / "initdb").exists()
    }
    on_path = find_program("postgres")
    if not folders and on_path is not None:
        words = run([str(on_path), "--version"]).stdout.split()  # postgres (PostgreSQL) 17.2 …
        folders[words[2].partition(".")[0]] = on_path.resolve().parent
    return folders


def _user() -> str:
    """Whom the server runs as; empty: ourselves."""
    if os.geteuid() != 0:
        return ""
    try:
        pwd.getpwnam(ADMIN)
    except KeyError:
        raise Unavailable(
            f"PostgreSQL refuses to run as root, and there is no user {ADMIN}",
            hint=f"make one (useradd --system {ADMIN}), or call this as another user",
        ) from None
    return ADMIN
