"""The lab's commands: list the experiments, run one on Spark, report from its points."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.status import Status

from tocsin.cli import (
    lab_admission,
    lab_overlay,
    lab_pages,
    lab_prototype,
    lab_survival,
    lab_trace,
)
from tocsin.cli.output import err, show_table
from tocsin.cli.progress import Watch
from tocsin.cli.values import listed, pairs_from, sizes_from
from tocsin.errors import InvalidInput
from tocsin.service.logs import configure_logs

DIRECTORY = Path("lab")
UNTESTED = "not tested"
SHOWN_POLICIES = 9  # of an experiment, in the list


def register(app: typer.Typer) -> None:
    lab = typer.Typer(
        help="Which cache policy, how large a cache? Experiments on Spark, with figures.",
        no_args_is_help=True,
    )
    lab.command("list")(list_experiments)
    lab.command()(run)
    lab.command()(report)
    lab_prototype.register(lab)
    lab_trace.register(lab)
    lab_admission.register(lab)
    lab_pages.register(lab)
    simulate = typer.Typer(
        help="One simulated run, with confidence intervals.", no_args_is_help=True
    )
    lab_survival.register(lab, simulate)
    lab_overlay.register(simulate)
    lab.add_typer(simulate, name="simulate")
    app.add_typer(lab, name="lab")


def list_experiments() -> None:
    """List the experiments."""
    from tocsin.lab.experiments import experiments

    rows = []
    for one in experiments().values():
        values = sum(len(one.full.of(reading.name)) for reading in one.readings)
        points = values * len(one.policies) * one.full.seeds
        rows.append([one.name, points, _some(one.policies), one.purpose])
    show_table(["experiment", "points", "policies", "purpose"], rows)


def _some(policies: tuple[str, ...]) -> str:
    more = len(policies) - SHOWN_POLICIES
    told = ", ".join(policies[:SHOWN_POLICIES])
    return f"{told} and {more} more" if more > 0 else told


def run(
    experiment: Annotated[str, typer.Argument(help="its name (tocsin lab list)")],
    quick: Annotated[
        bool, typer.Option("--quick", help="a smaller workload, fewer sizes and seeds: a minute")
    ] = False,
    seeds: Annotated[int | None, typer.Option(help="how many seeds")] = None,
    policies: Annotated[
        list[str] | None, typer.Option(help="policies, separated by commas or given repeatedly")
    ] = None,
    sizes: Annotated[
        list[str] | None,
        typer.Option(help="where on the x axis: cache sizes such as 50MB,100MB; records: 500"),
    ] = None,
    readings: Annotated[
        list[str] | None, typer.Option(help="which readings of the workload")
    ] = None,
    bound_seeds: Annotated[
        int | None, typer.Option(help="for how many seeds the bound is computed; 0 leaves it out")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="a setting of the workload: FIELD=VALUE")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="recorded workloads, a file or a directory of them: a further reading"),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--out", help="directory; finished points in it are kept")
    ] = None,
    master: Annotated[
        str, typer.Option(help="where Spark runs, such as spark://host:7077")
    ] = "local[*]",
    live: Annotated[
        bool, typer.Option("--live", help="play it through the whole system, beside a prediction")
    ] = False,
    log: Annotated[
        str | None, typer.Option(help="Kafka for --live, kafka://host:9092/lab; else its own")
    ] = None,
    store: Annotated[
        str | None, typer.Option(help="database for --live, mariadb://…; else its own MariaDB")
    ] = None,
    only_plan: Annotated[bool, typer.Option("--plan", help="only say what it would do")] = False,
) -> None:
    """Run an experiment on Spark; an interrupted run goes on where it was."""
    from tocsin.lab.declaring.plan import Options, plan
    from tocsin.lab.experiments import experiments_named

    options = Options(
        quick=quick,
        seeds=seeds,
        bound_seeds=bound_seeds,
        policies=listed(policies),
        readings=listed(readings),
        values=sizes_from(sizes),
        settings=pairs_from(set_),
        data=data,
        live=live,
    )
    for name, given in (("log", log), ("store", store)):
        if given is not None and not live:
            raise InvalidInput(f"--{name} is for a live run", field=name, hint="add --live")
    chosen = experiments_named(experiment)
    for name, given in (("log", log), ("store", store)):
        for one in chosen:
            if given is not None and one.live is not None and not one.live.servers:
                raise InvalidInput(
                    f"{one.name} --live has its own {name}", field=name, hint=f"leave --{name} out"
                )
    plans = [plan(one, options) for one in chosen]
    for one, planned in zip(chosen, plans, strict=True):
        name = one.name + "-live" * _apart(one, live) + "-quick" * quick
        directory = output or DIRECTORY / name
        if output is not None and len(chosen) > 1:
            directory = output / name
        if only_plan:
            print(f"{one.name}: {planned.told}" if len(chosen) > 1 else planned.told)
            _tell_of_live(one, live)
        else:
            _run(one, planned, directory, master, log, store)


def _run(
    chosen: Any, planned: Any, directory: Path, master: str, log: str | None, store: str | None
) -> None:
    from tocsin.lab.running import run_experiment

    how: dict[str, Any] = {"master": master}
    if planned.live:
        from tocsin.lab.prototype.live import play_live

        configure_logs("error", "auto")
        signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
        how = {"swept_by": play_live, "log": log or "", "database": store or ""}
    with Watch(err) as watch:
        done = run_experiment(chosen, planned, directory, watch, **how)
    if done.interrupted:
        err.print(
            f"stopped: {done.there} of {planned.points} points are finished and kept in "
            f"{directory}. Run the same command again to go on.",
            soft_wrap=True,
            style="yellow",
            highlight=False,
        )
        raise typer.Exit(130)
    for reason in done.failures:
        err.print(f"failed: {reason}", style="red", soft_wrap=True, markup=False)
    if done.report is not None:
        _tell(done.report, directory)
    _tell_of_live(chosen, planned.live)
    if done.failures:
        raise typer.Exit(1)


def _apart(experiment: Any, live: bool) -> bool:
    """Live points of other settings than the simulated ones have a directory of their own."""
    return live and bool(experiment.live.full.settings)


def _tell_of_live(experiment: Any, live: bool) -> None:
    if experiment.live is not None and not live:
        err.print(
            f"the same on {experiment.live.on}: tocsin lab run {experiment.name} --live",
            style="dim",
            soft_wrap=True,
            highlight=False,
        )


def report(
    directory: Annotated[Path, typer.Argument(help="where an experiment ran")],
) -> None:
    """Make figures, claims and report anew from points.parquet."""
    from tocsin.lab.reports.report import write_report

    with Status("drawing …", console=err):
        made = write_report(directory)
    _tell(made, directory)


def _tell(made: Any, directory: Path) -> None:
    from tocsin.lab.reports.verdicts import verdict

    readings = list(dict.fromkeys(one.reading for one in made.judged))
    told: dict[str, dict[str, str]] = {}
    for one in made.judged:
        told.setdefault(one.claim.name, {})[one.reading] = verdict(one)
    tested = {name: found for name, found in told.items() if set(found.values()) != {UNTESTED}}
    show_table(
        ["claim", *readings],
        [[name, *(found.get(reading) for reading in readings)] for name, found in tested.items()],
    )
    if len(tested) < len(told):
        left = len(told) - len(tested)
        err.print(f"{left} claims need points that were not asked for", style="dim")
    err.print(
        f"{made.points} points; figures and claims: {directory / 'report.html'}",
        soft_wrap=True,
        highlight=False,
    )
