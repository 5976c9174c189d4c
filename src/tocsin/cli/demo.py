"""The demo command: a city's emergencies reach hundreds of subscribers, and the account is kept."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from tocsin.cli.output import err, out
from tocsin.cli.progress import Watch
from tocsin.cli.services import (
    CacheBytes,
    Config,
    Master,
    Policy,
    Profile,
    Set,
    bytes_from,
    settings_from,
)
from tocsin.cli.values import check_target
from tocsin.errors import InvalidInput
from tocsin.service.logs import configure_logs
from tocsin.settings import SHORT_LIVED_JAVA
from tocsin.system import data_directory


def register(app: typer.Typer) -> None:
    app.command()(demo)


def company_servers(until: ExitStack) -> dict[str, str]:
    """Kafka and PostgreSQL for as long as the demo lasts, installed if they are not there."""
    from tocsin.dev.kafka import Kafka
    from tocsin.dev.postgresql import PostgreSQL
    from tocsin.dev.throwaway import Throwaway

    with Watch(err) as watch:
        for kind in (Kafka, PostgreSQL):
            kind.install(watch)
        throwaway = until.enter_context(Throwaway())
        watch.begin("starting Kafka and PostgreSQL", 0)
        return {"log": throwaway.start(Kafka).url, "store": throwaway.start(PostgreSQL).url}


def demo(
    seconds: Annotated[float, typer.Option(min=1, help="how long it plays")] = 60,
    subscribers: Annotated[int, typer.Option(min=1, help="people in the city")] = 400,
    speed: Annotated[float, typer.Option(min=0.1, help="seconds of the city in one of ours")] = 60,
    policy: Policy = None,
    cache: CacheBytes = None,
    json: Annotated[Path | None, typer.Option(help="write the account to this file")] = None,
    seed: Annotated[int, typer.Option(help="another seed, another hour")] = 1,
    data: Annotated[Path | None, typer.Option(help="an empty directory to work in")] = None,
    keep: Annotated[bool, typer.Option(help="leave the data and the logs for a look")] = False,
    profile: Profile = None,
    master: Master = None,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Play a busy hour of a city in a minute, and check that nobody missed anything."""
    import uvloop

    from tocsin.demo import city, driver, table
    from tocsin.demo.show import Show

    if data is not None and not driver.is_empty(data):
        raise InvalidInput(f"{data} is not empty", field="data", hint="name a new directory")
    check_target(json, "json")
    servers = ExitStack()
    addresses = company_servers(servers) if profile == "company" else {}
    settings = settings_from(
        config,
        set_,
        profile=profile,
        **addresses,
        master=master,
        cache_policy=policy,
        cache_bytes=bytes_from(cache),
        data=data or Path(tempfile.mkdtemp(prefix="tocsin-demo-")),
    )
    if not settings.java_options:
        settings = msgspec.structs.replace(settings, java_options=SHORT_LIVED_JAVA, warm_up=False)
    data_directory(settings.data)
    configure_logs("warning", settings.log_format)
    asked = driver.Asked(seconds=seconds, subscribers=subscribers, speed=speed, seed=seed)
    try:
        with Show(err) as show:
            show.line(city.describe(speed))
            report = uvloop.run(driver.perform(asked, settings, show))
    finally:
        servers.close()
        if keep:
            err.print(f"data and logs are in {settings.data}", soft_wrap=True)
        else:
            shutil.rmtree(settings.data, ignore_errors=True)
    out.print(table.as_table(report.outcome))
    for told in report.outcome.broken:
        err.print(f"broken: {told}", style="red", soft_wrap=True, markup=False)
    err.print(
        "Latency is from the publisher's stamp to the subscriber's screen, of those online. It"
        " includes the wait for the channel's next run. " + (report.pace() or ""),
        style="dim",
        highlight=False,
    )
    if json is not None:
        given = {
            "seconds": seconds,
            "subscribers": subscribers,
            "speed": speed,
            "seed": seed,
            "policy": settings.cache_policy,
            "cache_bytes": settings.cache_bytes,
        }
        json.write_bytes(
            table.as_json(
                report.outcome, **report.details, interrupted=report.interrupted, settings=given
            )
        )
    if report.interrupted:
        raise typer.Exit(130)
    if not report.outcome.total.delivered:
        err.print("nothing was delivered", style="red")
    raise typer.Exit(0 if report.passed else 1)
