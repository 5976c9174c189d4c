"""Commands for real servers on a developer's machine: dev up, down, status, install."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from tocsin import extras
from tocsin.cli.options import data_directory
from tocsin.cli.output import complain, err, out, show_table
from tocsin.cli.progress import Watch

Names = Annotated[
    list[str] | None,
    typer.Argument(help="kafka, postgresql, mariadb, s3 (all four if none is named) or spark"),
]
Data = Annotated[Path, typer.Option(help="directory that holds the servers' data")]
DATA = Path("tocsin-data") / "dev"
CERTIFICATES = Path("tocsin-data") / "certificates"

app = typer.Typer(no_args_is_help=True, help="Real servers on this machine: Kafka, databases, S3.")


def register(parent: typer.Typer) -> None:
    parent.add_typer(app, name="dev")


@app.command()
def up(names: Names = None, data: Data = DATA) -> None:
    """Install what is missing, start servers, and print their addresses. They stay up."""
    from tocsin.dev.servers import Servers, kinds

    kinds(names or [])  # before anything is made
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was begun is undone
    servers = Servers(data_directory(data))
    before = {server.name for server in servers.known() if server.alive}
    with Watch(err) as watch:
        started = servers.up(names or [], watch)
    for server in started:
        if server.name in before:
            err.print(f"{server.title} was running already", highlight=False)
    for server in started:
        out.print(f"{server.name:<12} {server.url}", soft_wrap=True, highlight=False)


@app.command()
def down(
    names: Names = None,
    data: Data = DATA,
    delete: Annotated[bool, typer.Option("--delete", help="remove their data too")] = False,
) -> None:
    """Stop servers (all if none is named). Their data stays for the next start."""
    from tocsin.dev.servers import Servers

    servers = Servers(data)
    with Watch(err) as watch:
        stopped = servers.down(names or [], watch, delete=delete)
    if not stopped:
        err.print("no server was running")


@app.command()
def status(data: Data = DATA) -> None:
    """Show which servers run, and their addresses."""
    from tocsin.dev.servers import Servers

    rows = []
    known = Servers(data).known()
    if not known:
        err.print(f"no servers were started in {data}", soft_wrap=True, highlight=False)
        return
    for server in known:
        state = "running" if server.alive else "died" if server.processes else "stopped"
        pids = " ".join(str(process.pid) for process in server.processes.values())
        address = server.url if server.port else ""
        rows.append([server.name, state, address, pids if server.alive else ""])
    show_table(["server", "state", "address", "process"], rows)


@app.command()
def certificates(
    names: Annotated[
        list[str] | None, typer.Argument(help="more host names and IP addresses to certify")
    ] = None,
    output: Annotated[
        Path, typer.Option("--out", help="directory for the authority, the certificate, and keys")
    ] = CERTIFICATES,
) -> None:
    """Make a local authority and a certificate for this machine; called again, renew it."""
    extras.require("server")
    from tocsin.dev.certificates import make_certificates

    for setting, file in make_certificates(output, names or []).settings().items():
        out.print(f'{setting} = "{file}"', soft_wrap=True, highlight=False)


@app.command()
def install(names: Names = None) -> None:
    """Get what servers lack on this machine: packages when you are root on Debian, and jars."""
    from tocsin.dev import servers

    with Watch(err) as watch:
        failed = servers.install(names or [], watch)
    for error in failed:
        complain(error)
    if failed:
        raise typer.Exit(1)
