"""One typed settings object for every service, from defaults, a TOML file, the environment, flags.

Later sources win. A key that nobody knows is an error, never ignored. What a setting accepts is
part of its type: the check, the message of a refusal and the docs page follow from it.
"""

from __future__ import annotations

import inspect
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import msgspec
from msgspec import Meta
from msgspec import inspect as types

from tocsin.errors import SettingError, field_named

PREFIX = "TOCSIN_"
_SECRET = re.compile(r"((?:password|secret|token|\.pem|\.config)=)[^&#]*", re.IGNORECASE)
CONFIDENTIAL = ("secret", "broker_token", "gateway_token", "writer_token")
"""Settings that are shown to nobody."""
_NO_SETTINGS = ("token", "cache_directory")
"""What TOCSIN_ variables say besides settings: a credential, and where the machine keeps jars."""
SHORT_LIVED_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
"""Java options for systems that live for minutes: half their processor time would go into
optimising code that never runs often enough to pay for it. Without the last one Java would have
room for 48 MB of compiled code, and run the rest interpreted: a few hundred queries fill that."""

Port = Annotated[int, Meta(ge=0, le=65535)]
Count = Annotated[int, Meta(ge=0)]
Several = Annotated[int, Meta(ge=2)]
Size = Annotated[int, Meta(gt=0)]
Seconds = Annotated[float, Meta(gt=0)]
Age = Annotated[float, Meta(ge=0)]
Profile = Literal["embedded", "company"]
Master = Annotated[
    str,
    Meta(
        pattern=r"^(local(\[(\*|[1-9]\d*)(, *[1-9]\d*)?\])?|local-cluster\[.+\]|spark://.+|yarn"
        r"|k8s://.+)\Z",
        examples=["local[*]", "local[4]", "spark://host:7077", "yarn", "k8s://https://host:443"],
    ),
]
Origins = Annotated[
    str,
    Meta(
        pattern=r"^(\*|https?://[^/,\s]+(, ?https?://[^/,\s]+)*)?\Z",
        examples=["*", "https://app.example.org, http://localhost:3000"],
    ),
]
PublicUrl = Annotated[
    str,
    Meta(
        pattern=r"^(https?://[^/?#\s]+(/[^?#\s]*)?)?\Z", examples=["https://example.org/broker_1"]
    ),
]
PublicWsUrl = Annotated[
    str,
    Meta(pattern=r"^(wss?://[^/?#\s]+(/[^?#\s]*)?)?\Z", examples=["wss://example.org/broker_1"]),
]
HostAndPort = Annotated[
    str,
    Meta(pattern=r"^((\[[0-9a-fA-F:]+\]|[^:/\s]+):\d{1,5})?\Z", examples=["127.0.0.1:9400"]),
]
InnerScope = Literal["none", "admin", "broker", "publish", "subscribe"]
LogLevel = Literal["debug", "info", "warning", "error", "critical"]
LogFormat = Literal["auto", "json", "console"]


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings. The comment behind each is its documentation (docs/reference/settings.md)."""

    data: Path = Path("tocsin-data")  # directory that holds everything durable
    secret: str = ""  # signs tokens and notices; every service of one system has the same
    token_keys: str = ""  # public keys of tokens: JWKS file or address; empty: the secret signs
    token_issuer: str = ""  # OpenID Connect provider whose tokens are taken, by its address
    token_audience: str = ""  # what tokens of the provider must name as their audience
    token_claims: str = ""  # claims of its tokens: subject=sub scopes=scope roles=roles
    token_scopes: str = ""  # scopes that roles of its tokens give: admin=ops,root subscribe=*
    token_leeway_s: Age = 60.0  # so far may the clock that signed a token be from ours
    key_retry_s: Seconds = 10.0  # keys at an address are fetched no more often than that
    secret_tokens: bool = False  # with public keys: tokens of the secret are taken as well
    revocations: str = ""  # file of what is revoked; empty: revoked.json in the data directory
    broker_key: str = ""  # file with a broker's private key, or a directory with one for each
    broker_token: str = ""  # a broker's token, or a file that holds it, instead of a key
    gateway_key: str = ""  # file with a gateway's private key, or a directory with one for each
    gateway_token: str = ""  # a gateway's token, or a file that holds it, instead of a key
    writer_key: str = ""  # file with a writer's private key, or a directory with one for each
    writer_token: str = ""  # a writer's token, or a file that holds it, instead of a key
    host: str = "127.0.0.1"  # address that services listen on
    cluster_port: Port = 7400  # the cluster's REST port; 0 takes a free one
    coordinator_port: Port = 7410  # the coordinator's REST port; 0 takes a free one
    broker_port: Port = 7420  # a broker's REST and SSE port; 0 takes a free one
    broker_ws_port: Port = 7421  # a broker's WebSocket port; 0 takes a free one
    gateway_port: Port = 7430  # a gateway's REST port; 0 takes a free one
    writer_port: Port = 7440  # where a writer of matches tells its health; 0 takes a free one
    cluster_url: str = "http://127.0.0.1:7400"  # where brokers find the cluster; several by commas
    coordinator_url: str = "http://127.0.0.1:7410"  # where they find the coordinator, or several
    gateway_url: str = ""  # where brokers hand publications on; empty: to the cluster itself
    broker_name: str = "broker_1"  # a broker's name, unique in the system
    gateway_name: str = "gateway_1"  # a gateway's name, unique in the system
    writer_name: str = "writer_1"  # a writer's name, unique in the system
    public_host: str = ""  # host that a service announces; empty: the listening host
    public_url: PublicUrl = ""  # where a broker says that its REST is; empty: where it listens
    public_ws_url: PublicWsUrl = ""  # where it says that its WebSockets are; empty: as above

    certificate: str = ""  # PEM file with the certificate of all listeners; empty: no TLS
    certificate_key: str = ""  # PEM file with its private key; empty: it is in the same file
    authority: str = ""  # PEM file with the authorities that calls trust; empty: the machine's
    cors_origins: Origins = ""  # web pages of these origins may call; *: of any; empty: of none
    inner_address: HostAndPort = ""  # only here are /metrics, /docs, /v1/status; empty: they stay
    inner_scope: InnerScope = "none"  # the scope that they ask of a token; none: of nobody

    master: Master = "local[*]"  # where Spark runs
    spark_memory: str = "1g"  # memory of Spark's driver
    java_options: str = ""  # more options for Java in Spark, such as -XX:TieredStopAtLevel=1
    warm_up: bool = True  # run a made-up channel first, so that the first real one is quick
    profile: Profile = "embedded"  # embedded: only files; company: Kafka and a database server
    log: str = ""  # publication log, kafka://host:9092/tocsin; empty: files in the data directory
    kafka: str = ""  # Kafka cluster whose topics datasets are fed FROM; empty: that of the log
    store: str = ""  # postgresql:// or mariadb:// address; empty: SQLite in the data directory
    store_lease_s: Seconds = 5.0  # a cluster silent for so long loses its store to another one
    standby: bool = False  # a cluster waits while another one has the store, and takes its place

    real_time_batch_s: Seconds = 60.0  # after this Spark's real-time query reads subscriptions anew
    real_time_slots: Count = 8  # queries in real-time mode, each of one dataset; 0: none

    segment_bytes: Size = 16 * 1024 * 1024  # a log segment is closed at this size
    batch_bytes: Size = 4 * 1024 * 1024  # the most one micro-batch reads from the log
    flush_interval_s: Seconds = 10.0  # how often the log's tail becomes Parquet
    compact_files: Several = 8  # so many small files of a dataset are merged into one
    result_retention_s: Age = 7 * 24 * 3600.0  # results older than this are dropped
    clock_doubt_s: Age = 3600.0  # a clock that was set forward deletes nothing by age for so long
    record_limit_bytes: Size = 1024 * 1024  # the largest single record
    result_limit_bytes: Size = 4 * 1024 * 1024  # the largest result; a larger one is told as a gap
    body_limit_bytes: Size = 64 * 1024 * 1024  # the largest request body, unfolded if it is Parquet
    request_records: Size = 100_000  # the most records of one request
    statements_limit_bytes: Size = 1024 * 1024  # the longest text of statements in one request
    connection_limit: Count = 0  # a service's connections at once; 0: as its open files allow
    stranger_limit: Size = 4096  # of these, how many on which no token was shown yet
    request_patience_s: Seconds = 10.0  # a request's head, or a pause in its body, takes no longer
    tables: str = ""  # s3a://, hdfs:// or file:/// of Delta tables; empty: Parquet in data
    attachments: str = ""  # directory or s3://… of attachments; empty: in the data directory
    attachment_limit_bytes: Size = 64 * 1024 * 1024  # the largest attachment
    attachment_grace_s: Seconds = 24 * 3600.0  # kept so long although nothing mentions it
    java_limit_s: Seconds = 60.0  # Spark's Java that does not answer for so long is started again
    run_limit_s: Seconds = 60.0  # a channel's run that takes longer is stopped and reported
    query_limit_s: Seconds = 30.0  # an ad hoc SELECT that takes longer is stopped

    consumer_log_mark_s: Seconds = 1.0  # a consumer log that is behind for so long is told the head

    cache_policy: str = "lsc"  # the broker's result cache policy (docs/reference/policies.md)
    cache_bytes: Count = 64 * 1024 * 1024  # byte budget of the broker's result cache
    message_policy: str = "sel-sub-prt"  # the broker's message cache policy, for routed datasets
    message_slots: Count = 1000  # messages that a broker's message cache holds
    page_policy: str = "dc"  # the broker's page cache policy, for attachments
    page_cache_bytes: Count = 64 * 1024 * 1024  # byte budget of the broker's page cache
    page_cache: str = ""  # directory of page caches, a folder for each broker; empty: in memory
    connection_bytes: Size = 1024 * 1024  # unsent bytes after which a stalled client is closed
    frame_limit_bytes: Size = 64 * 1024  # the largest frame a client may send
    writers: Count = 0  # processes that store what real-time mode finds; 0: the cluster does it
    standbys: Count = 0  # so many standbys tocsin up starts beside the cluster
    coordinators: Size = 1  # so many coordinators it starts
    gateways: Count = 0  # so many gateways it starts, which publishers may use
    heartbeat_s: Seconds = 1.0  # how often a broker reports to the coordinator
    overlay_tree: str = ""  # TOML file with links between brokers; empty: a balanced tree
    news_poll_s: Seconds = 2.0  # how often a broker asks what it may have missed
    marker_flush_s: Seconds = 0.05  # acknowledgements are gathered this long before they are stored

    log_level: LogLevel = "info"  # the least important messages that are logged
    log_format: LogFormat = "auto"  # auto: console in a terminal, json elsewhere


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
    if isinstance(level := clean.get("log_level"), str):
        clean["log_level"] = level.lower()
    try:
        return msgspec.convert(clean, Settings, strict=False, dec_hook=_decode)
    except msgspec.ValidationError as error:
        raise _refused(error) from None


class Described(msgspec.Struct, frozen=True):
    """One setting as people read of it."""

    name: str
    default: Any
    accepts: str
    meaning: str

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper()


def described() -> list[Described]:
    """Every setting with the comment that stands behind it in this file."""
    comments = dict(re.findall(r"^    (\w+): .*?  # (.*)$", inspect.getsource(Settings), re.M))
    return [
        Described(field.name, field.default, _accepts(field.type), comments[field.name])
        for field in msgspec.structs.fields(Settings)
    ]


def _accepts(kind: Any) -> str:
    """What a setting of this type may be."""
    if get_origin(kind) is Literal:
        return f"one of {', '.join(get_args(kind))}"
    match types.type_info(kind):
        case types.Metadata(extra_json_schema={"examples": [*examples]}):
            return f"one like {', '.join(examples)}"
        case types.BoolType():
            return "true or false"
        case types.IntType() as number:
            return f"a whole number, {_bounds(number)}"
        case types.FloatType() as number:
            return f"a number, {_bounds(number)}"
        case types.CustomType():
            return "a path"
    return "text"


def _bounds(number: types.IntType | types.FloatType) -> str:
    if number.le is not None:
        return f"from {number.ge} to {number.le}"
    return f"greater than {number.gt}" if number.ge is None else f"at least {number.ge}"


def _refused(error: msgspec.ValidationError) -> SettingError:
    name = field_named(error)
    kind = next(field.type for field in msgspec.structs.fields(Settings) if field.name == name)
    accepted = _accepts(kind)
    if re.match(r"Expected `\w+` [<>]", str(error)):  # it is a number, but out of bounds
        accepted = accepted.partition(", ")[2]
    return SettingError(f"setting {name} must be {accepted}", field=name)


def without_secrets(address: str) -> str:
    """An address as people may read it. Up to the last @ everything may belong to a password that
    should have been quoted."""
    hidden = re.sub(r"(?<=//)([^:@]*):.*@", r"\1:***@", address, flags=re.DOTALL)
    return _SECRET.sub(r"\1***", hidden)


def _from_file(file: Path) -> dict[str, Any]:
    try:
        with file.open("rb") as handle:
            return tomllib.load(handle)
    except OSError as error:
        raise SettingError(f"cannot read the settings file {file}: {error.strerror}") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingError(f"the settings file {file} is not TOML: {error}") from None


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    values = {k[len(PREFIX) :].lower(): v for k, v in environ.items() if k.startswith(PREFIX)}
    for name in _NO_SETTINGS:
        values.pop(name, None)
    return values


def _decode(kind: type, value: Any) -> Any:
    if kind is Path:
        return Path(value)
    raise NotImplementedError(kind)
