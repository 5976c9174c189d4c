"""`tocsin chaos`: a whole system under load, broken in every way that this machine allows."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from tocsin.cli.demo import company_servers
from tocsin.cli.jars import ensure_jars
from tocsin.cli.options import Config, Profile, Set, settings_from
from tocsin.cli.output import complain, err, show_table
from tocsin.errors import Unavailable
from tocsin.settings import SHORT_LIVED_JAVA, Settings

if TYPE_CHECKING:
    from tocsin.dev.server import Server
    from tocsin.testing.chaos.play import Outcome, Place

DISK_BYTES = 1024 * 1024 * 1024


def register(app: typer.Typer) -> None:
    app.command()(chaos)


def chaos(
    minutes: Annotated[float, typer.Option(min=0.1, help="how long things are broken")] = 5.0,
    profile: Profile = "embedded",
    seed: Annotated[int, typer.Option(min=0, help="another seed, another order of faults")] = 1,
    brokers: Annotated[int, typer.Option(min=1, max=8)] = 2,
    standbys: Annotated[
        int, typer.Option(min=0, max=3, help="beside the cluster; needs --profile company")
    ] = 0,
    gateways: Annotated[int, typer.Option(min=0, max=3, help="which publishers use")] = 0,
    tls: Annotated[bool, typer.Option("--tls", help="TLS on every listener and link")] = False,
    keep: Annotated[bool, typer.Option(help="leave the logs for a look")] = False,
    config: Config = None,
    set_: Set = None,
) -> None:
    """Break the parts of a system under load, in an order drawn from the seed, and judge at the
    end what publishers and subscribers were told."""
    import uvloop

    from tocsin.service.logs import configure_logs
    from tocsin.testing.chaos.play import Course, play

    configure_logs("error", "auto")
    with ExitStack() as until:
        folder = Path(tempfile.mkdtemp(prefix="tocsin-chaos-"))
        if keep:
            until.callback(err.print, f"the logs are in {folder}/data/logs", soft_wrap=True)
        else:
            until.callback(shutil.rmtree, folder, ignore_errors=True)
        servers = company_servers(until) if profile == "company" else {}
        place = _place(folder, list(servers.values()), until)
        addresses = {setting: server.url for setting, server in servers.items()}
        flags = {"profile": profile, **DEFAULTS, **addresses}
        settings = settings_from(config, set_, **flags, data=(place.disk or folder) / "data")
        if tls:
            settings = _with_certificates(settings, folder / "certificates")
        ensure_jars(settings)
        course = Course(
            seconds=minutes * 60,
            seed=seed,
            brokers=brokers,
            standbys=standbys,
            gateways=gateways,
        )
        outcome = uvloop.run(play(course, settings, place, _Shown()))
        if keep and place.disk is not None:
            shutil.copytree(place.disk / "data" / "logs", folder / "data" / "logs")
    _show(outcome)
    for promise in outcome.broken:
        complain(Unavailable(promise))
    raise typer.Exit(1 if outcome.broken else 0)


def _with_certificates(settings: Settings, directory: Path) -> Settings:
    """Of an authority that services and everybody in this process trust."""
    from tocsin.client.transport import AUTHORITY
    from tocsin.dev.certificates import make_certificates

    made = make_certificates(directory)
    os.environ[AUTHORITY] = str(made.authority)
    return msgspec.structs.replace(settings, **made.settings())


DEFAULTS = {
    "master": "local[2]",
    "java_options": SHORT_LIVED_JAVA,
    "warm_up": False,
    "flush_interval_s": 2.0,
    "java_limit_s": 5.0,
    "real_time_batch_s": 2.0,
    "log_level": "warning",
}
"""Quick to start, soon busy with its files, and not patient with Java that hangs."""


def _place(folder: Path, servers: list[Server], until: ExitStack) -> Place:
    """What of this machine may be broken; what may not is said."""
    from tocsin.dev.packages import apt_install
    from tocsin.testing.chaos import clocks
    from tocsin.testing.chaos.faults import small_disk
    from tocsin.testing.chaos.play import Place

    disk: Path | None = folder / "disk"
    if not until.enter_context(small_disk(folder / "disk", DISK_BYTES)):
        err.print("not here: full disks (it takes the right to mount a file system)")
        disk = None
    library: Path | None = None
    try:
        if reason := clocks.missing():
            apt_install(reason, clocks.PACKAGES)
        library = clocks.build(folder / "clocks")
    except Unavailable as error:
        err.print(f"not here: clocks that are set ({error.message})")
    return Place(servers=servers, disk=disk, clocks=library)


class _Shown:
    def phase(self, what: str) -> None:
        err.print(what, highlight=False)

    def happened(self, at_s: float, what: str) -> None:
        err.print(f"{at_s:7.1f} s  {what}", highlight=False)


def _show(outcome: Outcome) -> None:
    figures, takeover_s = outcome.figures, outcome.longest_takeover_s
    takeover = [] if takeover_s is None else [["longest takeover", f"{takeover_s:.1f} s"]]
    show_table(
        ["what became of it", "count"],
        [
            ["records acknowledged", figures.acknowledged],
            ["sent, and nobody knows", figures.in_doubt],
            ["subscribers", figures.people],
            ["their visits", figures.visits],
            ["results shown", figures.shown],
            ["shown again after coming back", figures.repeated],
            ["longest wait for an acknowledgement", f"{figures.longest_wait_s:.1f} s"],
            *takeover,
            ["restarts of services", sum(outcome.restarts.values())],
            ["promises broken", len(outcome.broken)],
        ],
    )
    show_table(["fault", "times"], [[name, count] for name, count in outcome.faults.items()])
