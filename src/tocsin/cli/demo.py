"""The demo command: a city's emergencies reach hundreds of subscribers, and the account is kept."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from msgspec import Struct
from msgspec.structs import asdict

from tocsin import extras
from tocsin.cli.commands import command
from tocsin.cli.jars import ensure_jars
from tocsin.cli.options import Caching, Config, Master, Profile, Set, data_directory, settings_from
from tocsin.cli.output import err, out
from tocsin.cli.progress import Watch
from tocsin.cli.values import check_target
from tocsin.errors import InvalidInput
from tocsin.settings import SHORT_LIVED_JAVA, Settings

if TYPE_CHECKING:
    from tocsin.demo.driver import Report
    from tocsin.dev.server import Server


def register(app: typer.Typer) -> None:
    app.command()(command(demo))


def company_servers(until: ExitStack) -> dict[str, Server]:
    """Kafka and PostgreSQL until then, installed if they are not there; by the setting that names
    each."""
    extras.require("kafka")
    extras.require("postgresql")
    from tocsin.dev.kafka import Kafka
    from tocsin.dev.postgresql import PostgreSQL
    from tocsin.dev.throwaway import Throwaway

    with Watch(err) as watch:
        for kind in (Kafka, PostgreSQL):
            kind.install(watch)
        throwaway = until.enter_context(Throwaway())
        watch.begin("starting Kafka and PostgreSQL", 0)
        return {"log": throwaway.start(Kafka), "store": throwaway.start(PostgreSQL)}


Subscribers = Annotated[int, typer.Option(min=1, help="people in the city")]
Speed = Annotated[float, typer.Option(min=0.1, help="seconds of the city in one of ours")]
Seed = Annotated[int, typer.Option(help="another seed, another hour")]


class Hour(Struct, frozen=True, kw_only=True):
    """What is played."""

    seconds: Annotated[float, typer.Option(min=1, help="how long it plays")] = 60
    subscribers: Subscribers = 400
    speed: Speed = 60
    seed: Seed = 1


class Files(Struct, frozen=True, kw_only=True):
    """What is written."""

    json: Annotated[Path | None, typer.Option(help="write the account to this file")] = None
    data: Annotated[Path | None, typer.Option(help="an empty directory to work in")] = None
    keep: Annotated[bool, typer.Option(help="leave the data and the logs for a look")] = False

    def check(self) -> None:
        from tocsin.demo.driver import is_empty

        if self.data is not None and not is_empty(self.data):
            raise InvalidInput(
                f"{self.data} is not empty", field="data", hint="name a new directory"
            )
        check_target(self.json, "json")


def demo(
    hour: Hour,
    caching: Caching,
    files: Files,
    profile: Profile = None,
    master: Master = None,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Play a busy hour of a city in a minute, and check that nobody missed anything."""
    files.check()
    with ExitStack() as servers:
        started = company_servers(servers) if profile == "company" else {}
        addresses = {setting: server.url for setting, server in started.items()}
        flags = {"profile": profile, "master": master, **addresses, **caching.flags()}
        data = files.data or Path(tempfile.mkdtemp(prefix="tocsin-demo-"))
        settings = short_lived(settings_from(config, set_, **flags, data=data))
        data_directory(settings.data)
        ensure_jars(settings)
        try:
            report = _play(hour, settings)
        finally:
            if files.keep:
                err.print(f"data and logs are in {settings.data}", soft_wrap=True)
            else:
                shutil.rmtree(settings.data, ignore_errors=True)
    _show(report)
    if files.json is not None:
        _write(report, hour, settings, files.json)
    if report.interrupted:
        raise typer.Exit(130)
    if not report.outcome.total.delivered:
        err.print("nothing was delivered", style="red")
    raise typer.Exit(0 if report.passed else 1)


def short_lived(settings: Settings) -> Settings:
    """As for a cluster that lives for a minute, if nobody has chosen Java's options."""
    if settings.java_options:
        return settings
    return msgspec.structs.replace(settings, java_options=SHORT_LIVED_JAVA, warm_up=False)


def _play(hour: Hour, settings: Settings) -> Report:
    import uvloop

    from tocsin.client.transport import AUTHORITY
    from tocsin.demo import city, driver
    from tocsin.demo.show import Show
    from tocsin.service.logs import configure_logs

    configure_logs("warning", settings.log_format)
    if settings.authority:  # hundreds of clients in here trust it as well
        os.environ[AUTHORITY] = settings.authority
    with Show(err) as show:
        show.line(city.describe(hour.speed))
        return uvloop.run(driver.perform(driver.Course(**asdict(hour)), settings, show))


def _show(report: Report) -> None:
    from tocsin.demo import table

    out.print(table.as_table(report.outcome))
    for promise in report.outcome.broken:
        err.print(f"broken: {promise}", style="red", soft_wrap=True, markup=False)
    err.print(
        "Latency is from the publisher's stamp to the subscriber's screen, of those online. It"
        " includes the wait for the channel's next run. " + (report.pace() or ""),
        style="dim",
        highlight=False,
    )


def _write(report: Report, hour: Hour, settings: Settings, file: Path) -> None:
    from tocsin.demo import table

    given = {
        **asdict(hour),
        "policy": settings.cache_policy,
        "cache_bytes": settings.cache_bytes,
    }
    file.write_bytes(
        table.as_json(
            report.outcome, **report.details, interrupted=report.interrupted, settings=given
        )
    )
