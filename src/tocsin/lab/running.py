"""A run from plan to report: the sweep, the table, the figures; and what is left when it stops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct

from tocsin.errors import SettingError
from tocsin.lab.declaring.experiment import Experiment
from tocsin.lab.declaring.plan import Plan
from tocsin.lab.declaring.subject import Subject
from tocsin.lab.reports.report import Report, write_report
from tocsin.lab.sweeps.points import Store
from tocsin.lab.sweeps.sources import point_digest
from tocsin.lab.sweeps.sweep import Progress, Swept, sweep, tasks_of
from tocsin.lab.sweeps.tasks import Failure


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
    swept_by: Callable[..., Swept] = sweep,
    **how: Any,
) -> Done:
    """Compute what is missing, then report. `how` goes to what computes it: to the sweep on Spark,
    master and session."""
    with Store(directory, plan.conditions) as store:
        try:
            swept = swept_by(plan, store, progress, **how)
        except KeyboardInterrupt:
            there = sum(store.has(task) for task in tasks_of(plan))
            _fold(store, experiment)
            return Done(there=there, interrupted=True)
        points = _fold(store, experiment)
        if not swept.failures:
            store.forget_workloads()
    made = None
    if points:
        progress.begin("figures and claims", 0)
        made = write_report(directory)
    return Done(
        there=swept.computed + swept.kept,
        computed=swept.computed,
        failures=_told(swept.failures),
        report=made,
    )


def _fold(store: Store, experiment: Experiment) -> int:
    subject = experiment.subject
    current = [(kind, policy, _digest(subject, kind, policy)) for kind, policy in store.codes()]
    return store.fold(current, list(experiment.policies))


def _digest(subject: Subject, kind: str, policy: str) -> str:
    try:
        return point_digest(subject, kind, policy)
    except SettingError:  # a policy that is no longer there
        return ""


def _told(failures: list[Failure]) -> list[str]:
    """One line for each policy and reason."""
    counted = Counter((failure.task.policy or "bound", failure.reason) for failure in failures)
    return [f"{policy}: {reason} ({count} points)" for (policy, reason), count in counted.items()]
