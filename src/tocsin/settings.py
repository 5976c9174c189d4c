"""One typed settings object for every service, from defaults, a TOML file, the environment, flags.

Later sources win. A key that nobody knows is an error, never ignored.
"""

from __future__ import annotations

import inspect
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from tocsin.errors import SettingError, field_named

PREFIX = "TOCSIN_"
_MASTER = re.compile(
    r"local(\[(\*|[1-9]\d*)(, *[1-9]\d*)?\])?|local-cluster\[.+\]|spark://.+|yarn|k8s://.+"
)
_SECRET = re.compile(r"((?:password|secret|token|\.pem|\.config)=)[^&#]*", re.IGNORECASE)
PROFILES = ("embedded", "company")
SHORT_LIVED_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""Java options for systems that live for minutes: half their processor time would go into
optimising code that never runs often enough to pay for it. Without the last one Java would have
room for 48 MB of compiled code, and run the rest interpreted: a few hundred queries fill that."""


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings. The comment behind each is its documentation (docs/reference/settings.md)."""

    data: Path = Path("tocsin-data")  # directory that holds everything durable
    secret: str = ""  # signs tokens and notices; every service of one system has the same
    host: str = "127.0.0.1"  # address that services listen on
    cluster_port: int = 7400  # the cluster's REST port; 0 takes a free one
    coordinator_port: int = 7410  # the coordinator's REST port; 0 takes a free one
    broker_port: int = 7420  # a broker's REST and SSE port; 0 takes a free one
    broker_ws_port: int = 7421  # a broker's WebSocket port; 0 takes a free one
    cluster_url: str = "http://127.0.0.1:7400"  # where brokers find the cluster
    coordinator_url: str = "http://127.0.0.1:7410"  # where brokers and clients find the coordinator
    broker_name: str = "broker_1"  # a broker's name, unique in the system
    public_host: str = ""  # host that a broker announces to clients; empty: the listening host

    master: str = "local[*]"  # where Spark runs
    spark_memory: str = "1g"  # memory of Spark's driver
    java_options: str = ""  # more options for Java in Spark, such as -XX:TieredStopAtLevel=1
    warm_up: bool = True  # run a made-up channel first, so that the first real one is quick
    profile: str = "embedded"  # embedded: nothing but files; company: Kafka and a database server
    log: str = ""  # publication log, kafka://host:9092/tocsin; empty: files in the data directory
    kafka: str = ""  # Kafka cluster whose topics datasets are fed FROM; empty: that of the log
    store: str = ""  # postgresql:// or mariadb:// address; empty: SQLite in the data directory

    real_time_batch_s: float = 5.0  # after this Spark's real-time query reads subscriptions anew
    real_time_slots: int = 8  # so many channels run in real-time mode at most; 0: none does

    segment_bytes: int = 16 * 1024 * 1024  # a log segment is closed at this size
    batch_bytes: int = 8 * 1024 * 1024  # the most one micro-batch reads from the log
    flush_interval_s: float = 10.0  # how often the log's tail becomes Parquet
    compact_files: int = 8  # so many small files of a dataset are merged into one
    result_retention_s: float = 7 * 24 * 3600.0  # results older than this are dropped
    record_limit_bytes: int = 1024 * 1024  # the largest single record
    result_limit_bytes: int = 4 * 1024 * 1024  # the largest result; a larger one is told as a gap
    body_limit_bytes: int = 64 * 1024 * 1024  # the largest request body
    attachments: str = ""  # directory or s3://… of attachments; empty: in the data directory
    attachment_limit_bytes: int = 64 * 1024 * 1024  # the largest attachment
    attachment_grace_s: float = 24 * 3600.0  # kept so long although nothing mentions it
    java_limit_s: float = 60.0  # Spark's Java that does not answer for so long is started again
    run_limit_s: float = 60.0  # a channel's run that takes longer is stopped and reported
    query_limit_s: float = 30.0  # an ad hoc SELECT that takes longer is stopped

    consumer_log_mark_s: float = 1.0  # a consumer log that is behind for so long is told the head

    cache_policy: str = "lsc"  # the broker's result cache policy (docs/reference/policies.md)
    cache_bytes: int = 64 * 1024 * 1024  # byte budget of the broker's result cache
    message_policy: str = "sel-sub-prt"  # the broker's message cache policy, for routed datasets
    message_slots: int = 1000  # messages that a broker's message cache holds
    page_policy: str = "dc"  # the broker's page cache policy, for attachments
    page_cache_bytes: int = 64 * 1024 * 1024  # byte budget of the broker's page cache
    page_cache: str = ""  # directory of page caches, a folder for each broker; empty: in memory
    connection_bytes: int = 1024 * 1024  # unsent bytes after which a stalled client is closed
    frame_limit_bytes: int = 64 * 1024  # the largest frame a client may send
    heartbeat_s: float = 1.0  # how often a broker reports to the coordinator
    overlay_tree: str = ""  # TOML file with links between brokers; empty: a balanced tree
    news_poll_s: float = 2.0  # how often a broker asks what it may have missed
    marker_flush_s: float = 0.05  # acknowledgements are gathered this long before they are stored

    log_level: str = "info"  # debug, info, warning, error
    log_format: str = "auto"  # json, console, or auto: console in a terminal


def load(
    flags: Mapping[str, Any] | None = None,
    *,
    file: Path | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Settings from all sources. Flags that are None were not given."""
    values: dict[str, Any] = {}
    if file is not None:
        values |= _from_file(file)
    values |= _from_environment(os.environ if environ is None else environ)
    values |= {key: value for key, value in (flags or {}).items() if value is not None}
    return convert(values)


def convert(values: Mapping[str, Any]) -> Settings:
    """Typed settings from loose values; text becomes numbers and paths as each field asks."""
    known = {field.name for field in msgspec.structs.fields(Settings)}
    for key in values:
        if key not in known:
            raise SettingError(
                f"no setting is called {key!r}", field=key, hint="see tocsin settings"
            )
    clean = {key: str(v) if isinstance(v, Path) else v for key, v in values.items()}
    try:
        settings = msgspec.convert(clean, Settings, strict=False, dec_hook=_decode)
    except msgspec.ValidationError as error:
        field = field_named(error)
        raise SettingError(f"setting {field}: {error}", field=field) from None
    for name in ("segment_bytes", "batch_bytes", "record_limit_bytes", "result_limit_bytes"):
        _positive(settings, name)
    for name in ("body_limit_bytes", "attachment_limit_bytes", "attachment_grace_s"):
        _positive(settings, name)
    for name in (
        "flush_interval_s",
        "heartbeat_s",
        "news_poll_s",
        "java_limit_s",
        "run_limit_s",
        "query_limit_s",
        "consumer_log_mark_s",
    ):
        _positive(settings, name)
    _positive(settings, "real_time_batch_s")
    if settings.real_time_slots < 0:
        raise SettingError("setting real_time_slots must not be negative", field="real_time_slots")
    if settings.profile not in PROFILES:
        raise SettingError(
            f"no profile is called {settings.profile!r}",
            field="profile",
            hint=f"one of {', '.join(PROFILES)}",
        )
    if not _MASTER.fullmatch(settings.master):
        raise SettingError(
            f"{settings.master!r} is not where Spark can run",
            field="master",
            hint="local[*], local[4], spark://host:7077, yarn or k8s://https://host:443",
        )
    for name in ("cache_bytes", "message_slots", "page_cache_bytes"):
        if getattr(settings, name) < 0:
            raise SettingError(f"setting {name} must not be negative", field=name)
    return settings


class Described(msgspec.Struct, frozen=True):
    """One setting as people read of it."""

    name: str
    default: Any
    meaning: str

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()


def described() -> list[Described]:
    """Every setting with the comment that stands behind it in this file."""
    comments = dict(re.findall(r"^    (\w+): .*?  # (.*)$", inspect.getsource(Settings), re.M))
    return [
        Described(field.name, field.default, comments[field.name])
        for field in msgspec.structs.fields(Settings)
    ]


def without_secrets(address: str) -> str:
    """An address as people may read it. Up to the last @ everything may belong to a password that
    should have been quoted."""
    hidden = re.sub(r"(?<=//)([^:@]*):.*@", r"\1:***@", address, flags=re.DOTALL)
    return _SECRET.sub(r"\1***", hidden)


def _positive(settings: Settings, name: str) -> None:
    if getattr(settings, name) <= 0:
        raise SettingError(f"setting {name} must be greater than zero", field=name)


def _from_file(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as handle:
            return tomllib.load(handle)
    except OSError as error:
        raise SettingError(f"cannot read the settings file {file}: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingError(f"the settings file {file} is not TOML: {error}") from None


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    found = {k[len(PREFIX) :].lower(): v for k, v in environ.items() if k.startswith(PREFIX)}
    found.pop("token", None)  # the command line's own: TOCSIN_TOKEN is a credential, not a setting
    return found


def _decode(kind: type, value: Any) -> Any:
    if kind is Path:
        return Path(value)
    raise NotImplementedError(kind)
