"""A server that will not have us: who is told what, that no password is shown, and TLS."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.engine import URL, make_url

from tocsin.dev.mariadb import MariaDB
from tocsin.dev.postgresql import PostgreSQL
from tocsin.errors import SettingError, TocsinError, Unavailable
from tocsin.storage.store.dialect.mariadb import Mariadb
from tocsin.storage.store.store import Store

from .conftest import DatabaseServer, until

SECRET = "s3cret/of@ours"


def told(url: URL, kind: type[TocsinError]) -> str:
    """What is said of a store that cannot be opened: it names the setting, and no password."""
    with pytest.raises(kind) as caught:
        Store.open(plain(url)).close()
    assert caught.value.field == "store"
    assert caught.value.hint
    said = str(caught.value)
    assert url.password is None or url.password not in said
    return said


def plain(url: URL) -> str:
    return url.render_as_string(hide_password=False)


def test_a_wrong_password_is_refused(server: DatabaseServer) -> None:
    said = told(make_url(server.url).set(password=SECRET), SettingError)
    assert "correct user and password in the setting store" in said


def test_a_wrong_user_is_refused(server: DatabaseServer) -> None:
    said = told(make_url(server.url).set(username="nobody"), SettingError)
    assert "correct user and password in the setting store" in said


def test_a_database_that_is_not_there_is_refused(server: DatabaseServer) -> None:
    said = told(make_url(server.url).set(database="tocsin_nowhere"), SettingError)
    assert "create the database" in said


def test_a_user_who_may_not_make_tables_is_refused(
    server: DatabaseServer,
) -> None:
    url = make_url(server.url).set(database="mysql")
    if isinstance(server, PostgreSQL):
        url = make_url(server.fresh())
        admin = create_engine(url.set(username="postgres"))
        with admin.begin() as connection:
            connection.execute(text("DROP ROLE IF EXISTS guest"))
            connection.execute(text(f"CREATE ROLE guest LOGIN PASSWORD '{url.password}'"))
        admin.dispose()
        url = url.set(username="guest")
    assert "let this user create and change tables" in told(url, SettingError)


def test_a_server_that_is_not_there_is_waited_for(server: DatabaseServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    assert f"127.0.0.1:{port}" in told(make_url(server.url).set(port=port), Unavailable)


def test_an_unknown_host_is_waited_for(server: DatabaseServer) -> None:
    url = make_url(server.url).set(host="no-such-host.invalid")
    assert "no-such-host.invalid" in told(url, Unavailable)


def test_options_that_the_driver_does_not_know_are_refused(server: DatabaseServer) -> None:
    url = make_url(server.url).update_query_dict({"no_such_option": "1"})
    assert "no_such_option" in told(url, SettingError)


@pytest.mark.parametrize(
    "url",
    [
        f"mysql://me:{SECRET}@here/there",
        f"postgresq://me:{SECRET}@here/there",
        f"postgresql://me:{SECRET}@here:port/there",
    ],
)
def test_a_mistyped_address_is_told_without_its_password(url: str) -> None:
    with pytest.raises(SettingError, match="not the address of a store") as caught:
        Store.open(url)
    assert "here" in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert "ours" not in str(caught.value)


@pytest.mark.parametrize("short", ["postgresql://", "mariadb://"])
def test_an_address_need_not_name_the_driver(short: str, request: pytest.FixtureRequest) -> None:
    server: DatabaseServer = request.getfixturevalue(short.removesuffix("://"))
    Store.open(short + server.fresh().partition("://")[2]).close()


class Authority:
    """Whoever signs certificates; this one signs its own."""

    def __init__(self, directory: Path) -> None:
        self.certificate, self.key = directory / "tls.crt", directory / "tls.key"
        words = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
        words += ["-nodes", "-days", "2", "-subj", "/CN=tocsin", "-addext"]
        words += ["subjectAltName=IP:127.0.0.1", "-keyout", str(self.key)]
        subprocess.run([*words, "-out", str(self.certificate)], check=True, capture_output=True)


@pytest.fixture
def with_tls(postgresql: PostgreSQL) -> Iterator[Authority]:
    """The shared server speaks TLS for a while."""
    authority = Authority(postgresql.data)
    owner = postgresql.data.stat()
    for file in (authority.certificate, authority.key):
        os.chown(file, owner.st_uid, owner.st_gid)
    url = make_url(postgresql.url).set(username="postgres")
    admin = create_engine(url, isolation_level="AUTOCOMMIT")

    def alter(*settings: str) -> None:
        with admin.connect() as connection:
            for one in settings:
                connection.execute(text(f"ALTER SYSTEM {one}"))
            connection.execute(text("SELECT pg_reload_conf()"))
        admin.dispose()

    def speaks_tls() -> bool:
        with admin.connect() as connection:
            asked = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"
            speaks = bool(connection.execute(text(asked)).scalar())
        admin.dispose()
        return speaks

    files = (authority.certificate, authority.key)
    named = [f"SET ssl_{n}_file = '{f}'" for n, f in zip(("cert", "key"), files, strict=True)]
    alter(*named, "SET ssl = on")
    until(speaks_tls)
    yield authority
    alter("RESET ssl")
    until(lambda: not speaks_tls())


def test_tls_settings_reach_the_driver_and_the_certificate_is_checked(
    postgresql: PostgreSQL, with_tls: Authority, tmp_path: Path
) -> None:
    url = make_url(postgresql.fresh())
    strict = url.update_query_dict(
        {"sslmode": "verify-full", "sslrootcert": str(with_tls.certificate)}
    )
    with Store.open(plain(strict)) as store:
        assert store.catalog.brokers() == []
        admin = create_engine(url.set(username="postgres"))
        with admin.connect() as connection:
            sessions = connection.execute(
                text(
                    "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)"
                    " WHERE datname = current_database() AND usename = 'tocsin'"
                )
            ).scalars()
            assert set(sessions) == {True}
        admin.dispose()
    another = Authority(tmp_path)
    wrong = strict.update_query_dict({"sslrootcert": str(another.certificate)})
    assert "certificate" in told(wrong, SettingError)
    missing = strict.update_query_dict({"sslrootcert": str(tmp_path / "none")})
    assert "certificate" in told(missing, SettingError)


def test_a_server_without_tls_is_refused_where_it_is_asked_for(
    mariadb: MariaDB, postgresql: PostgreSQL, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    query = {"ssl_ca": str(authority.certificate)}
    said = told(make_url(mariadb.url).update_query_dict(query), SettingError)
    assert "correct ssl_ca" in said
    query = {"ssl_ca": str(tmp_path / "none")}
    told(make_url(mariadb.url).update_query_dict(query), SettingError)
    query = {"sslmode": "require"}
    said = told(make_url(postgresql.url).update_query_dict(query), SettingError)
    assert "correct sslmode" in said


@pytest.mark.parametrize(
    ("logs", "format_", "is_refused"),
    [(1, "STATEMENT", True), (1, "MIXED", False), (1, "ROW", False), (0, "STATEMENT", False)],
)
def test_a_server_that_logs_statements_is_refused(
    logs: int, format_: str, *, is_refused: bool
) -> None:
    """It would refuse each write beside the writer. Our own server has no log to turn on."""

    class Server:
        rolled_back = False

        def execute(self, _: object) -> Server:
            return self

        def one(self) -> tuple[int, str]:
            return logs, format_

        def rollback(self) -> None:
            self.rolled_back = True

    dialect, server = Mariadb(make_url("mariadb://me:s3cret@host/db")), Server()
    if is_refused:
        with pytest.raises(SettingError, match="logs statements") as caught:
            dialect._require_row_log(server)  # type: ignore[arg-type]
        assert caught.value.field == "store"
        assert "s3cret" not in str(caught.value)
    else:
        dialect._require_row_log(server)  # type: ignore[arg-type]
    assert server.rolled_back
