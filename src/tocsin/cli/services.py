"""Commands that run services: up, cluster, broker, coordinator; and settings, token."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
import uvloop
from rich.status import Status

from tocsin import settings as configuration
from tocsin.cli.output import complain, err, out, show_table
from tocsin.errors import Conflict, Damaged, InvalidInput, SettingError
from tocsin.service.logs import configure_logs
from tocsin.service.serving import until_stopped
from tocsin.service.tokens import SCOPES, mint
from tocsin.settings import Settings, without_secrets
from tocsin.system import (
    MISCONFIGURED,
    SUPERVISED,
    System,
    data_directory,
    ensure_secret,
    find_secret,
)

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
Policy = Annotated[str | None, typer.Option(help="result cache policy: lru, lsc, ttl, none")]
CacheBytes = Annotated[str | None, typer.Option("--cache", help="cache budget, such as 64MB")]


def register(app: typer.Typer) -> None:
    app.command()(up)
    app.command()(cluster)
    app.command()(coordinator)
    app.command()(broker)
    app.command()(token)
    app.command("settings")(list_settings)


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

    running = {one.name: one.url for one in Servers(settings.data / "dev").known() if one.alive}
    database = running.get("postgresql") or running.get("mariadb")
    found = {"log": running.get("kafka"), "store": database}
    for name in wanted:
        if found[name] is None:
            raise SettingError(
                f"profile company needs the setting {name}",
                field=name,
                hint=f"give --{name}, or start servers here: tocsin dev up",
            )
    return msgspec.structs.replace(settings, **{name: found[name] for name in wanted})


def bytes_from(text: str | None) -> int | None:
    """64MB, 512 KiB, 1000 → bytes."""
    if text is None:
        return None
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmg]?)(i?)b?\s*", text.lower())
    if match is None:
        raise InvalidInput(f"{text!r} is not a size", field="cache", hint="such as 64MB or 100KB")
    unit = (1024 if match[3] else 1000) ** ("", "k", "m", "g").index(match[2])
    return int(float(match[1]) * unit)


def seconds_from(text: str, field: str) -> float:
    """30s, 5m, 12h, 7d → seconds."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smhd]?)\s*", text.lower())
    if match is None:
        raise InvalidInput(f"{text!r} is not a duration", field=field, hint="such as 90s or 30d")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[match[2]]


def up(
    data: Data = None,
    brokers: Annotated[int, typer.Option(min=1, help="how many brokers")] = 1,
    policy: Policy = None,
    cache: CacheBytes = None,
    profile: Profile = None,
    log: Log = None,
    store: Store = None,
    master: Master = None,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Start cluster, coordinator and broker together; stop with Ctrl-C."""
    settings = settings_from(
        config,
        set_,
        data=data,
        profile=profile,
        log=log,
        store=store,
        master=master,
        cache_policy=policy,
        cache_bytes=bytes_from(cache),
    )
    data_directory(settings.data)
    configure_logs(settings.log_level, settings.log_format)
    asyncio.run(_up(settings, brokers))


async def _up(settings: Settings, brokers: int) -> None:
    system = System(settings, brokers=brokers, fixed_ports=True)
    stopped = asyncio.create_task(until_stopped())  # a signal counts from the first moment
    starting = asyncio.create_task(
        system.start(
            lambda name, url: err.print(f"  {name:<12} {url}"),
            lambda name, reason: err.print(f"  {name:<12} waits: {reason}", soft_wrap=True),
        )
    )
    try:
        with Status("starting (Spark takes some seconds) …", console=err):
            await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            err.print("stopping …")
            return
        await starting
        scopes = ("publish", "subscribe", "admin")
        out.print(f"data         {settings.data.absolute()}", soft_wrap=True)
        out.print(f"cluster      {system.cluster_url}   (routes: {system.cluster_url}/docs)")
        out.print(f"coordinator  {system.coordinator_url}")
        for name, url in system.broker_urls.items():
            out.print(f"{name:<12} {url}")
        out.print(f"token        {system.token('me', *scopes)}", soft_wrap=True)
        out.print("\nready. Stop with Ctrl-C; everything is there again at the next start.")
        await stopped
        err.print("stopping …")
    finally:
        for task in (starting, stopped):
            task.cancel()
        await asyncio.gather(starting, stopped, return_exceptions=True)
        await system.stop()


def cluster(
    data: Data = None,
    port: Annotated[int | None, typer.Option(help="REST port")] = None,
    profile: Profile = None,
    log: Log = None,
    store: Store = None,
    master: Master = None,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Run the data cluster: datasets, channels, Spark, results."""
    from tocsin.cluster import service

    settings = settings_from(
        config,
        set_,
        data=data,
        cluster_port=port,
        profile=profile,
        log=log,
        store=store,
        master=master,
    )
    data_directory(settings.data)
    _serve(service.run, ensure_secret(settings))


def coordinator(
    port: Annotated[int | None, typer.Option(help="REST port")] = None,
    data: Data = None,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Run the coordinator: which broker for whom."""
    from tocsin.coordinator import run

    settings = settings_from(config, set_, data=data, coordinator_port=port)
    _serve(run, find_secret(settings))


def broker(
    name: Annotated[str | None, typer.Option(help="unique name of this broker")] = None,
    port: Annotated[int | None, typer.Option(help="REST and SSE port")] = None,
    ws_port: Annotated[int | None, typer.Option(help="WebSocket port")] = None,
    cluster: Annotated[str | None, typer.Option(help="the cluster's address")] = None,
    coordinator: Annotated[str | None, typer.Option(help="the coordinator's address")] = None,
    policy: Policy = None,
    cache: CacheBytes = None,
    data: Data = None,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Run a broker: subscribers, result cache, delivery."""
    from tocsin.broker.server import run

    settings = settings_from(
        config,
        set_,
        data=data,
        broker_name=name,
        broker_port=port,
        broker_ws_port=ws_port,
        cluster_url=cluster,
        coordinator_url=coordinator,
        cache_policy=policy,
        cache_bytes=bytes_from(cache),
    )
    _serve(run, find_secret(settings))


def _serve(run: Any, settings: Settings) -> None:
    configure_logs(settings.log_level, settings.log_format)
    if os.environ.get(SUPERVISED):
        threading.Thread(target=_stop_when_input_ends, daemon=True).start()
    try:
        uvloop.run(run(settings))
    except (Conflict, Damaged) as error:  # somebody else has what it needs, or nobody
        complain(error)
        sys.exit(MISCONFIGURED)


def _stop_when_input_ends() -> None:
    """Whoever started us is gone, and nobody would stop us."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def token(
    scope: Annotated[list[str], typer.Option(help=f"what it may do: {', '.join(SCOPES)}")],
    subject: Annotated[str, typer.Option(help="who it speaks for")] = "me",
    expires: Annotated[str, typer.Option(help="lifetime: 90s, 12h, 30d")] = "30d",
    data: Data = None,
    config: Config = None,
) -> None:
    """Make a token with the system's secret."""
    settings = find_secret(settings_from(config, None, data=data))
    lifetime_s = seconds_from(expires, "expires")
    print(mint(settings.secret, subject, scope, expires_s=lifetime_s, now=time.time()))


def list_settings(config: Config = None, set_: Set = None) -> None:
    """List every setting with its value here, and where it can be set."""
    settings = settings_from(config, set_)
    rows = []
    for one in configuration.described():
        value = getattr(settings, one.name)
        shown = "(set)" if one.name == "secret" and value else without_secrets(str(value))
        rows.append([one.name, shown, one.variable, one.meaning])
    show_table(["setting", "value", "environment", "meaning"], rows)
