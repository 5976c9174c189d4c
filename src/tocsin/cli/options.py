"""Options that several commands take, and the settings they make."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from msgspec import Struct
from msgspec.structs import asdict

from tocsin import settings as configuration
from tocsin.cli.values import bytes_from
from tocsin.errors import SettingError
from tocsin.settings import Settings

Config = Annotated[Path | None, typer.Option(help="TOML file with settings")]
Set = Annotated[
    list[str] | None, typer.Option("--set", help="any setting: KEY=VALUE (see tocsin settings)")
]
Data = Annotated[Path | None, typer.Option(help="directory that holds everything durable")]
Master = Annotated[str | None, typer.Option(help="where Spark runs, such as spark://host:7077")]
Profile = Annotated[
    str | None, typer.Option(help="embedded: nothing but files; company: Kafka and a database")
]
Log = Annotated[str | None, typer.Option(help="publication log, such as kafka://host:9092/tocsin")]
Store = Annotated[
    str | None, typer.Option(help="database, such as postgresql+psycopg://user@host/tocsin")
]
Tables = Annotated[
    str | None, typer.Option(help="Delta tables of datasets, such as s3a://bucket/folder")
]
Policy = Annotated[str | None, typer.Option(help="result cache policy: lru, lsc, ttl, none")]
CacheBytes = Annotated[str | None, typer.Option("--cache", help="cache budget, such as 64MB")]


class Storage(Struct, frozen=True, kw_only=True):
    """Where a cluster keeps everything and computes: settings of the same names."""

    data: Data = None
    profile: Profile = None
    log: Log = None
    store: Store = None
    tables: Tables = None
    master: Master = None

    def flags(self) -> dict[str, Any]:
        return asdict(self)


class Caching(Struct, frozen=True, kw_only=True):
    """The result caches of brokers."""

    policy: Policy = None
    cache: CacheBytes = None

    def flags(self) -> dict[str, Any]:
        return {"cache_policy": self.policy, "cache_bytes": bytes_from(self.cache)}


def settings_from(config: Path | None, given: list[str] | None, **flags: Any) -> Settings:
    """Settings from file, environment and flags, the later ones winning."""
    extra: dict[str, Any] = {}
    for pair in given or []:
        key, equals, value = pair.partition("=")
        if not equals:
            raise SettingError(f"--set {pair!r} is not KEY=VALUE", field="set")
        extra[key.strip().replace("-", "_")] = value
    flags = {key: value for key, value in flags.items() if value is not None}
    return with_servers(configuration.load(extra | flags, file=config))


def with_servers(settings: Settings) -> Settings:
    """In the company profile, the log and the store that no setting names are those of
    `tocsin dev up`."""
    wanted = [name for name in ("log", "store") if not getattr(settings, name)]
    if settings.profile != "company" or not wanted:
        return settings
    from tocsin.dev.servers import Servers

    running = {
        server.name: server.url for server in Servers(settings.data / "dev").known() if server.alive
    }
    database = running.get("postgresql") or running.get("mariadb")
    addresses = {"log": running.get("kafka"), "store": database}
    for name in wanted:
        if addresses[name] is None:
            raise SettingError(
                f"profile company needs the setting {name}",
                field=name,
                hint=f"give --{name}, or start servers here: tocsin dev up",
            )
    return msgspec.structs.replace(settings, **{name: addresses[name] for name in wanted})


def data_directory(path: Path) -> Path:
    """The directory, or a clear word why it cannot be used."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingError(
            f"cannot use the data directory {path}: {error.strerror}", field="data"
        ) from None
    return path
