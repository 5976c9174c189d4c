"""The servers of one directory, from one command to the next."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tocsin.dev.kafka import Kafka
from tocsin.dev.mariadb import MariaDB
from tocsin.dev.nginx import Nginx
from tocsin.dev.postgresql import PostgreSQL
from tocsin.dev.s3 import S3
from tocsin.dev.server import Progress, Server
from tocsin.dev.spark import SparkCluster
from tocsin.dev.state import OUR_FILES, Record, State, locked
from tocsin.errors import InvalidInput, NotFound, Unavailable
from tocsin.system.launching import Detached

KINDS: dict[str, type[Server]] = {
    kind.name: kind for kind in (Kafka, PostgreSQL, MariaDB, S3, SparkCluster)
}
USUAL = ("kafka", "postgresql", "mariadb", "s3")


def kinds(names: Iterable[str]) -> list[type[Server]]:
    """The kinds of servers with these names; the usual ones if none is named."""
    chosen = list(dict.fromkeys(names)) or list(USUAL)
    for name in chosen:
        if name not in KINDS:
            raise InvalidInput(f"no server is called {name!r}", hint=f"one of {', '.join(KINDS)}")
    return [KINDS[name] for name in chosen]


def install(names: Iterable[str], progress: Progress) -> list[Unavailable]:
    """Get what the servers lack on this machine; why that failed where it did."""
    wanted = list(names) or [*USUAL, Nginx.name]
    servers = [name for name in wanted if name != Nginx.name]
    chosen: list[type[Server] | type[Nginx]] = [*kinds(servers)] if servers else []
    if Nginx.name in wanted:
        chosen.append(Nginx)
    failed = []
    for kind in chosen:
        try:
            kind.install(progress)
        except Unavailable as error:
            failed.append(error)
    return failed


class Servers:
    """Those that were ever started in a directory, running or not."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self._state = State(self.directory)
        self._launcher = Detached()

    def known(self) -> list[Server]:
        return [self._server(KINDS[name]) for name in self._state.records if name in KINDS]

    def up(self, names: Iterable[str], progress: Progress) -> list[Server]:
        """Start those that do not run; when one fails, those that this call started are stopped."""
        chosen = kinds(names)
        with self._alone(make=True):
            servers = [self._server(kind) for kind in chosen]
            stopped = [server for server in servers if not server.alive]
            for server in stopped:
                server.install(progress)
            try:
                for server in stopped:
                    moved = server.move_if_port_is_taken()
                    where = " on another port (its own was taken)" if moved else ""
                    progress.begin(f"starting {server.title}{where}", 0)
                    server.start()
            except BaseException:
                for server in stopped:
                    server.stop()
                raise
        return servers

    def down(
        self, names: Iterable[str], progress: Progress, *, delete: bool = False
    ) -> list[Server]:
        """Stop those that run, and remove the data of all that were named if asked to."""
        chosen = kinds(names or KINDS)
        with self._alone():
            known = [server for server in self.known() if type(server) in chosen]
            running = [server for server in known if server.processes]
            for server in reversed(running):
                progress.begin(f"stopping {server.title}", 0)
                server.stop()
            if delete:
                self._delete(known)
        return running

    def _delete(self, servers: list[Server]) -> None:
        for server in servers:
            server.delete()
            del self._state.records[server.name]
        self._state.save()
        if not self._state.records:
            for name in OUR_FILES:
                (self.directory / name).unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # somebody else's files are there too
                self.directory.rmdir()

    def _server(self, kind: type[Server]) -> Server:
        record = self._state.records.setdefault(kind.name, Record())
        return kind(self.directory, self._launcher, record=record, save=self._state.save)

    @contextmanager
    def _alone(self, *, make: bool = False) -> Iterator[None]:
        """While no other command works here, with what the last one left."""
        if make:
            self.directory.mkdir(parents=True, exist_ok=True)
        elif not self.directory.is_dir():
            raise NotFound(f"no servers were ever started in {self.directory}")
        with locked(self.directory):
            self._state = State(self.directory)
            yield
