"""MariaDB."""

from __future__ import annotations

import os
import pwd
from pathlib import Path
from typing import Any

from tocsin.dev.database import NAME, Database
from tocsin.dev.packages import find_program
from tocsin.system.launching import Command, run
from tocsin.system.ports import HOST


class MariaDB(Database):
    name = "mariadb"
    title = "MariaDB"
    # The programs alone: no service, no server of its own. The second has one that the first calls.
    packages = ("mariadb-server-core", "mariadb-client-core")
    scheme = "mariadb+pymysql"

    @classmethod
    def _installed(cls) -> bool:
        return all(map(find_program, ("mariadbd", "mariadb-install-db")))

    def run(self, statement: str) -> None:
        import pymysql

        connection: Any = pymysql.connect(database=NAME, **self._login())
        with connection, connection.cursor() as cursor:
            cursor.execute(statement)

    def _make_data(self, data: Path) -> None:
        words = [str(find_program("mariadb-install-db")), *self._options(data)]
        done = run([*words, "--skip-test-db", "--auth-root-authentication-method=socket"])
        if done.returncode != 0:
            raise self._no_data(done.stderr + done.stdout)

    def _launch(self) -> None:
        words = [str(find_program("mariadbd")), *self._options(self.data)]
        words += [f"--bind-address={HOST}", f"--port={self.port}", "--socket=mariadb.sock"]
        words += [f"--init-file={self._first_statements()}", "--skip-name-resolve"]
        # As Debian sets it: text compares without regard to case.
        words += ["--character-set-server=utf8mb4", "--collation-server=utf8mb4_general_ci"]
        words += ["--innodb-buffer-pool-size=64M", "--max-connections=200"]
        if self._short_lived:
            # A killed server keeps every commit all the same; only a power cut takes some.
            words += ["--innodb-flush-log-at-trx-commit=2"]
        self._start_process(self.name, Command(words, str(self.log)))
        self._until(self._answers)

    def _options(self, data: Path) -> list[str]:
        user = pwd.getpwuid(os.geteuid()).pw_name  # root has to be named
        return [
            "--no-defaults",
            f"--datadir={data}",
            f"--user={user}",
            "--innodb-log-file-size=16M",
        ]

    def _first_statements(self) -> Path:
        """Run by the server itself before it listens."""
        file = self.home / "init.sql"
        file.touch(0o600)
        file.write_text(
            f"CREATE DATABASE IF NOT EXISTS {NAME};\n"
            f"CREATE OR REPLACE USER {NAME}@'%' IDENTIFIED BY '{self.password}';\n"
            f"GRANT ALL PRIVILEGES ON `{NAME}%`.* TO {NAME}@'%';\n"
        )
        return file

    def _answers(self) -> bool:
        import pymysql

        try:
            self.run("SELECT 1")
        except pymysql.err.OperationalError:
            return False
        return True
