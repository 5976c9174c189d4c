"""The store as Spark reads it: the subscriptions of a channel through JDBC."""

from __future__ import annotations

from urllib.parse import urlencode

from msgspec import Struct
from sqlalchemy.engine import URL, make_url

from tocsin.storage import schema

_TLS_OF_MARIADB = {"ssl_ca": "serverSslCert", "ssl_key": "keyStore", "ssl_cert": "keyStore"}


class Jdbc(Struct, frozen=True):
    url: str
    driver: str
    user: str
    password: str

    def parameter_sets(self, channel: str) -> dict[str, str]:
        """Options for `spark.read.format("jdbc")`: id and arguments of its backend subscriptions.
        A channel's name needs no quoting: it is a plain word."""
        table = schema.backend_subscriptions
        return {
            "url": self.url,
            "driver": self.driver,
            "user": self.user,
            "password": self.password,
            "fetchsize": "20000",
            "query": f"SELECT id, arguments FROM {table.name} WHERE channel = '{channel}'",  # noqa: S608
        }


def jdbc_of(store: str) -> Jdbc | None:
    """How Java reaches the store at an SQLAlchemy address; None if it cannot."""
    if not store:
        return None
    url = make_url(store)
    kind = url.get_backend_name()
    if kind == "postgresql":
        return _jdbc(url, "postgresql", "org.postgresql.Driver", dict(url.query))
    if kind in ("mariadb", "mysql"):
        query = {_TLS_OF_MARIADB[k]: v for k, v in url.query.items() if k in _TLS_OF_MARIADB}
        tls = {"sslMode": "verify-full"} if query else {}
        # Under the driver's own scheme Spark would quote columns as MariaDB does not.
        scheme = {"permitMysqlScheme": "true"}
        return _jdbc(url, "mysql", "org.mariadb.jdbc.Driver", {**scheme, **query, **tls})
    return None


def _jdbc(url: URL, name: str, driver: str, query: dict[str, str | tuple[str, ...]]) -> Jdbc:
    host = f"{url.host}:{url.port}" if url.port else str(url.host)
    options = f"?{urlencode(query, doseq=True)}" if query else ""
    return Jdbc(
        f"jdbc:{name}://{host}/{url.database or ''}{options}",
        driver,
        url.username or "",
        str(url.password or ""),
    )
