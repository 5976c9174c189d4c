"""The lab's commands: list the experiments, run one on Spark, report from its points."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.status import Status

from tocsin.cli import lab_admission, lab_pages, lab_survival, lab_trace
from tocsin.cli.commands import Command, command, group
from tocsin.cli.lab_overlay import overlay
from tocsin.cli.lab_prototype import prototype
from tocsin.cli.lab_run import Selection, Site
from tocsin.cli.output import err, show_table
from tocsin.cli.progress import Watch

UNTESTED = "not tested"
SHOWN_POLICIES = 9  # of an experiment, in the list
GROUPS: dict[str, tuple[str, dict[str, Command]]] = {
    "trace": (
        "What your own broker saw: recorded, and played under other policies and sizes.",
        {
            "record": lab_trace.record,
            "replay": lab_trace.replay,
            "convert": lab_trace.convert,
            "show": lab_trace.show,
        },
    ),
    "admission": (
        "What to write into consumers' logs: files of records under admission policies.",
        {"replay": lab_admission.replay, "make": lab_admission.make},
    ),
    "pages": (
        "Which pages (attachments) a broker keeps: traces under the policies of page caches.",
        {"replay": lab_pages.replay, "make": lab_pages.make},
    ),
    "model": ("What a model says, without simulating.", {"survival": lab_survival.model}),
    "simulate": (
        "One simulated run, with confidence intervals.",
        {"survival": lab_survival.simulate, "overlay": overlay},
    ),
}


def register(app: typer.Typer) -> None:
    lab = typer.Typer(
        help="Which cache policy, how large a cache? Experiments on Spark, with figures.",
        no_args_is_help=True,
    )
    alone: dict[str, Command] = {
        "list": list_experiments,
        "run": run,
        "report": report,
        "prototype": prototype,
    }
    for name, function in alone.items():
        lab.command(name)(command(function))
    for name, (help, commands) in GROUPS.items():
        group(lab, name, help, commands)
    app.add_typer(lab, name="lab")


def list_experiments() -> None:
    """List the experiments."""
    from tocsin.lab.experiments import experiments

    rows = []
    for experiment in experiments().values():
        values = sum(len(experiment.full.of(variant.name)) for variant in experiment.variants)
        points = values * len(experiment.policies) * experiment.full.seeds
        policies = _first(experiment.policies)
        rows.append([experiment.name, points, policies, experiment.purpose])
    show_table(["experiment", "points", "policies", "purpose"], rows)


def _first(policies: tuple[str, ...]) -> str:
    more = len(policies) - SHOWN_POLICIES
    shown = ", ".join(policies[:SHOWN_POLICIES])
    return f"{shown} and {more} more" if more > 0 else shown


def run(
    experiment: Annotated[str, typer.Argument(help="its name (tocsin lab list)")],
    selection: Selection,
    site: Site,
) -> None:
    """Run an experiment on Spark; an interrupted run goes on where it was."""
    from tocsin.lab.experiments import experiments_named
    from tocsin.lab.spec.plan import plan

    site.refuse_servers_unless_live()
    experiments = experiments_named(experiment)
    site.refuse_servers_of_its_own(experiments)
    plans = [plan(chosen, selection.options(site.live)) for chosen in experiments]
    several = len(experiments) > 1
    for chosen, planned in zip(experiments, plans, strict=True):
        if site.only_plan:
            print(f"{chosen.name}: {planned.summary}" if several else planned.summary)
            _tell_of_live(chosen, site.live)
        else:
            _run(chosen, planned, site.directory(chosen, selection.quick, several), site)


def _run(chosen: Any, planned: Any, directory: Path, site: Site) -> None:
    from tocsin.lab.running import run_experiment
    from tocsin.lab.spec.study import Servers

    if planned.live:
        from tocsin.service.logs import configure_logs

        configure_logs("error", "auto")
        signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    servers = Servers(log=site.log or "", database=site.store or "")
    with Watch(err) as watch:
        done = run_experiment(
            chosen, planned, directory, watch, master=site.master, servers=servers
        )
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
        written = write_report(directory)
    _tell(written, directory)


def _tell(report: Any, directory: Path) -> None:
    from tocsin.lab.reports.verdicts import verdict

    variants = list(dict.fromkeys(judged.variant for judged in report.judged))
    verdicts: dict[str, dict[str, str]] = {}
    for judged in report.judged:
        verdicts.setdefault(judged.claim.name, {})[judged.variant] = verdict(judged)
    tested = {name: row for name, row in verdicts.items() if set(row.values()) != {UNTESTED}}
    show_table(
        ["claim", *variants],
        [[name, *(row.get(variant) for variant in variants)] for name, row in tested.items()],
    )
    if len(tested) < len(verdicts):
        left = len(verdicts) - len(tested)
        err.print(f"{left} claims need points that were not asked for", style="dim")
    err.print(
        f"{report.points} points; figures and claims: {directory / 'report.html'}",
        soft_wrap=True,
        highlight=False,
    )
