"""A run from plan to report: the sweep, the table, the figures; and what is left when it stops."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from msgspec import Struct

from tocsin.errors import SettingError
from tocsin.lab.reports.report import Report, write_report
from tocsin.lab.spec.experiment import Experiment
from tocsin.lab.spec.plan import Plan
from tocsin.lab.spec.progress import Progress
from tocsin.lab.spec.study import OWN_SERVERS, Servers, Study
from tocsin.lab.sweeps.live import sweep_live
from tocsin.lab.sweeps.points import Store
from tocsin.lab.sweeps.sources import point_digest
from tocsin.lab.sweeps.spark_tasks import Session
from tocsin.lab.sweeps.sweep import sweep
from tocsin.lab.sweeps.tasks import Failure, tasks_of


class Done(Struct, frozen=True, kw_only=True):
    """How a run ended."""

    there: int  # points of the plan that are finished, now or earlier
    computed: int = 0
    interrupted: bool = False
    failures: list[str] = []
    report: Report | None = None


def run_experiment(
    experiment: Experiment,
    plan: Plan,
    directory: Path,
    progress: Progress,
    *,
    master: str = "local[*]",
    spark: Session | None = None,
    servers: Servers = OWN_SERVERS,
) -> Done:
    """Compute what is missing, on Spark, or play it on live servers; then report."""
    with Store(directory, plan.conditions) as store:
        try:
            if plan.live:
                swept = sweep_live(plan, store, progress, servers)
            else:
                swept = sweep(plan, store, progress, master=master, spark=spark)
        except KeyboardInterrupt:
            there = sum(store.has(task) for task in tasks_of(plan))
            _fold(store, plan.study, experiment)
            return Done(there=there, interrupted=True)
        points = _fold(store, plan.study, experiment)
        if not swept.failures:
            store.forget_workloads()
    report = None
    if points:
        progress.begin("figures and claims", 0)
        report = write_report(directory)
    return Done(
        there=swept.computed + swept.kept,
        computed=swept.computed,
        failures=_summarize(swept.failures),
        report=report,
    )


def _fold(store: Store, study: Study, experiment: Experiment) -> int:
    current = [(kind, policy, _digest(study, kind, policy)) for kind, policy in store.codes()]
    return store.fold(current, list(experiment.policies))


def _digest(study: Study, kind: str, policy: str) -> str:
    try:
        return point_digest(study, kind, policy)
    except SettingError:  # a policy that is no longer there
        return ""


def _summarize(failures: list[Failure]) -> list[str]:
    """One line for each policy and reason."""
    counted = Counter((failure.task.policy or "bound", failure.reason) for failure in failures)
    return [f"{policy}: {reason} ({count} points)" for (policy, reason), count in counted.items()]
