"""The store as Spark reads it: the subscriptions of channels through JDBC."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct
from sqlalchemy.engine import URL, make_url

from tocsin.storage.store import schema


class Jdbc(Struct, frozen=True):
    url: str
    driver: str
    properties: dict[str, str]

    def parameter_sets(self, channels: Iterable[str]) -> dict[str, str]:
        """Options for `spark.read.format("jdbc")`: id, channel and arguments of their backend
        subscriptions, but those set aside. A channel's name needs no quoting: it is a plain
        word."""
        table, names = schema.backend_subscriptions, ", ".join(f"'{name}'" for name in channels)
        return {
            "url": self.url,
            "driver": self.driver,
            **self.properties,
            "fetchsize": "20000",
            "query": f"SELECT id, channel, arguments FROM {table.name}"  # noqa: S608
            f" WHERE channel IN ({names}) AND failure IS NULL",
        }


def jdbc_of(store: str) -> Jdbc | None:
    """How Java reaches the store at an SQLAlchemy address; None if it cannot. Options are given as
    properties: in an address each driver would quote them in its own way."""
    if not store:
        return None
    url = make_url(store)
    kind = url.get_backend_name()
    options = {key: str(value) for key, value in url.query.items()}
    login = {"user": url.username or "", "password": str(url.password or "")}
    if kind == "postgresql":
        address = f"jdbc:postgresql://{_place(url)}"
        return Jdbc(address, "org.postgresql.Driver", options | login)
    if kind == "mariadb":
        ca = options.get("ssl_ca")
        tls = {"sslMode": "verify-full", "serverSslCert": ca} if ca else {}
        # Under the driver's own scheme Spark would quote columns as MariaDB does not.
        address = f"jdbc:mysql://{_place(url)}?permitMysqlScheme=true"
        return Jdbc(address, "org.mariadb.jdbc.Driver", tls | login)
    return None


def _place(url: URL) -> str:
    host = f"{url.host}:{url.port}" if url.port else str(url.host)
    return f"{host}/{url.database or ''}"
