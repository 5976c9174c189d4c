"""A run from plan to report: the sweep, the table, the figures; and what is left when it stops."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from msgspec import Struct

from tocsin.errors import SettingError
from tocsin.lab.declaring.experiment import Experiment
from tocsin.lab.declaring.plan import Plan
from tocsin.lab.declaring.subject import Subject
from tocsin.lab.reports.report import Report, write_report
from tocsin.lab.sweeps.points import Store
from tocsin.lab.sweeps.sources import bound_digest, policy_digest
from tocsin.lab.sweeps.sweep import Progress, sweep, tasks_of
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
    **how: Any,
) -> Done:
    """Compute what is missing, then report. `how` goes to the sweep: master, session."""
    with Store(directory, plan.conditions) as store:
        try:
            swept = sweep(plan, store, progress, **how)
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
    current = [(kind, policy, _digest(subject, policy)) for kind, policy in store.codes()]
    return store.fold(current, list(experiment.policies))


def _digest(subject: Subject, policy: str) -> str:
    try:
        return policy_digest(subject, policy) if policy else bound_digest(subject)
    except SettingError:  # a policy that is no longer there
        return ""


def _told(failures: list[Failure]) -> list[str]:
    """One line for each policy and reason."""
    counted = Counter((failure.task.policy or "bound", failure.reason) for failure in failures)
    return [f"{policy}: {reason} ({count} points)" for (policy, reason), count in counted.items()]
