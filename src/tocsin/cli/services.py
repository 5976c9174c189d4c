"""Commands that run services: up, cluster, gateway, broker, coordinator, writer.

What a service needs is imported when its command runs: the client's installation has none of it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from typing import Annotated, Any

import typer
from msgspec import Struct
from msgspec.structs import replace
from rich.status import Status

from tocsin import extras
from tocsin.cli.commands import command
from tocsin.cli.jars import ensure_jars
from tocsin.cli.options import Caching, Config, Data, Set, Storage, data_directory, settings_from
from tocsin.cli.output import complain, err, out
from tocsin.cli.status import cluster_status
from tocsin.errors import DEPOSED, MISCONFIGURED, Conflict, Damaged, NotLeading
from tocsin.service.secret import ensure_secret, find_secret, takes_secret
from tocsin.settings import Settings

NOTHING_GRANTED = (
    "none: every token with the scope may subscribe to, publish to and read everything;"
    " CREATE ROLE and GRANT change that"
)


def register(app: typer.Typer) -> None:
    app.command()(command(up))
    app.command()(command(cluster))
    app.command()(command(gateway))
    app.command()(command(coordinator))
    app.command()(command(broker))
    app.command()(command(writer))


def up(
    storage: Storage,
    caching: Caching,
    brokers: Annotated[int, typer.Option(min=1, help="how many brokers")] = 1,
    tls: Annotated[
        bool, typer.Option("--tls", help="TLS everywhere, with a certificate of a local authority")
    ] = False,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Start cluster, coordinator and broker together; stop with Ctrl-C."""
    from tocsin.service.logs import configure_logs
    from tocsin.service.tls import certificate_of

    settings = settings_from(config, set_, **storage.flags(), **caching.flags())
    require_libraries(settings)
    data_directory(settings.data)
    configure_logs(settings.log_level, settings.log_format)
    if tls:
        settings = _with_certificates(settings)
    certificate_of(settings)  # before any process is started
    ensure_jars(settings)
    asyncio.run(_up(settings, brokers))


def _with_certificates(settings: Settings) -> Settings:
    """The certificate that settings name, or one that this machine's own authority signs."""
    if settings.certificate:
        return settings
    from tocsin.dev.certificates import make_certificates, usable

    directory = settings.data.absolute() / "certificates"
    own = [name for name in (settings.host, settings.public_host) if name]
    made = usable(directory) or make_certificates(directory, own)
    return replace(settings, **made.settings())


def require_libraries(settings: Settings) -> None:
    """Before any process is started: can every address that is set be reached at all?"""
    for address in (settings.log, settings.kafka, settings.store, settings.attachments):
        extras.require_for_address(address)
    if settings.tables:
        extras.require("delta")


async def _up(settings: Settings, brokers: int) -> None:
    from tocsin.service.serving import until_stopped
    from tocsin.system import System

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
        token = system.token("me", *scopes) if takes_secret(settings) else ""
        out.print(f"data         {settings.data.absolute()}", soft_wrap=True)
        out.print(
            f"cluster      {system.cluster_url}   (routes: {system.inner_urls['cluster']}/docs)"
        )
        out.print(f"coordinator  {system.coordinator_url}")
        for name, url in (system.gateway_urls | system.broker_urls).items():
            out.print(f"{name:<12} {url}")
        if settings.authority:
            out.print(f"authority    {settings.authority}", soft_wrap=True)
        if settings.inner_scope == "none" or (token and settings.inner_scope in scopes):
            inner = system.inner_urls["cluster"]
            said = await cluster_status(inner, token, settings.authority)
            for warning in said.warnings:
                out.print(f"warning      {warning}", soft_wrap=True)
        if token:
            out.print(f"token        {token}", soft_wrap=True)
            if not await _grants_decide(system.cluster_url, token, settings.authority):
                out.print(f"grants       {NOTHING_GRANTED}", soft_wrap=True)
        out.print("\nready. Stop with Ctrl-C; everything is there again at the next start.")
        await stopped
        err.print("stopping …")
    finally:
        for task in (starting, stopped):
            task.cancel()
        await asyncio.gather(starting, stopped, return_exceptions=True)
        await system.stop()


async def _grants_decide(cluster_url: str, token: str, authority: str) -> bool:
    from tocsin.client.cluster import Cluster

    cluster = Cluster(cluster_url, token, authority=authority)
    try:
        (roles,) = await cluster.sql("SHOW ROLES")
    finally:
        await cluster.close()
    return any(in_force for _, in_force in roles.rows)


def cluster(
    storage: Storage,
    port: Annotated[int | None, typer.Option(help="REST port")] = None,
    standby: Annotated[
        bool, typer.Option("--standby", help="wait while another has the store, then lead")
    ] = False,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Run the data cluster: datasets, channels, Spark, results."""
    given = {"cluster_port": port, "standby": standby or None}
    settings = settings_from(config, set_, **given, **storage.flags())
    require_libraries(settings)
    from tocsin.cluster import service
    from tocsin.system import SUPERVISED

    data_directory(settings.data)
    if not os.environ.get(SUPERVISED):  # whoever started us has seen to it
        ensure_jars(settings)
    # A standby that made a secret of its own would take nobody's tokens.
    _serve(service.run, (find_secret if settings.standby else ensure_secret)(settings))


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


def gateway(
    name: Annotated[str | None, typer.Option(help="unique name of this gateway")] = None,
    port: Annotated[int | None, typer.Option(help="REST port")] = None,
    cluster: Annotated[str | None, typer.Option(help="the cluster's address")] = None,
    data: Data = None,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Run a gateway: publications are checked here, and handed on to the cluster."""
    given = {"gateway_name": name, "gateway_port": port, "cluster_url": cluster}
    settings = settings_from(config, set_, data=data, **given)
    from tocsin.gateway import run

    _serve(run, find_secret(settings))


class BrokerPlace(Struct, frozen=True, kw_only=True):
    """Who a broker is, and where it and those it needs are reached."""

    name: Annotated[str | None, typer.Option(help="unique name of this broker")] = None
    port: Annotated[int | None, typer.Option(help="REST and SSE port")] = None
    ws_port: Annotated[int | None, typer.Option(help="WebSocket port")] = None
    cluster: Annotated[str | None, typer.Option(help="the cluster's address")] = None
    coordinator: Annotated[str | None, typer.Option(help="the coordinator's address")] = None

    def flags(self) -> dict[str, Any]:
        return {
            "broker_name": self.name,
            "broker_port": self.port,
            "broker_ws_port": self.ws_port,
            "cluster_url": self.cluster,
            "coordinator_url": self.coordinator,
        }


def broker(
    place: BrokerPlace,
    caching: Caching,
    data: Data = None,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Run a broker: subscribers, result cache, delivery."""
    from tocsin.broker.server import run

    settings = settings_from(config, set_, data=data, **place.flags(), **caching.flags())
    _serve(run, find_secret(settings))


def writer(
    name: Annotated[str | None, typer.Option(help="unique name of this writer")] = None,
    port: Annotated[int | None, typer.Option(help="where it tells its health")] = None,
    log: Annotated[str | None, typer.Option(help="the cluster's log on Kafka")] = None,
    store: Annotated[str | None, typer.Option(help="the cluster's store")] = None,
    cluster: Annotated[str | None, typer.Option(help="the cluster's address")] = None,
    data: Data = None,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Run a writer: it stores what channels in real-time mode find."""
    given = {"writer_name": name, "writer_port": port, "cluster_url": cluster}
    given |= {"log": log, "store": store}
    settings = settings_from(config, set_, data=data, **given)
    for address in (settings.log, settings.store):
        extras.require_for_address(address)
    from tocsin.cluster.writing.process import run

    _serve(run, find_secret(settings))


def _serve(run: Any, settings: Settings) -> None:
    import uvloop

    from tocsin.service.connections import raise_file_limit
    from tocsin.service.logs import configure_logs
    from tocsin.system import SUPERVISED

    configure_logs(settings.log_level, settings.log_format)
    raise_file_limit()
    if os.environ.get(SUPERVISED):
        threading.Thread(target=_stop_when_input_ends, daemon=True).start()
    try:
        uvloop.run(run(settings))
    except (Conflict, Damaged) as error:  # somebody else has what it needs, or nobody
        complain(error)
        sys.exit(MISCONFIGURED)
    except NotLeading as error:
        complain(error)
        sys.exit(DEPOSED)


def _stop_when_input_ends() -> None:
    """Whoever started us is gone, and nobody would stop us."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
