"""Sweeps on Spark: one task a point, and the driver keeps each finished point at once.

Events never become Spark rows: a task carries a few numbers there and one row back, and finds the
workload in files that all tasks of a machine share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct
from pyspark import SparkContext
from pyspark.sql import SparkSession

from tocsin.errors import TocsinError
from tocsin.lab.declaring.experiment import RECORDED
from tocsin.lab.declaring.plan import Circumstances, Plan
from tocsin.lab.declaring.subject import Row
from tocsin.lab.sweeps.points import Store
from tocsin.lab.sweeps.sources import point_digest
from tocsin.lab.sweeps.spark_tasks import each_as_it_ends, job_errors, session_on
from tocsin.lab.sweeps.tasks import Failure, Kind, Place, Task, perform, workload_key, workload_of


class Progress(Protocol):
    """Whoever watches."""

    def begin(self, what: str, total: int) -> None: ...

    def advance(self, count: int) -> None: ...


class Swept(Struct, frozen=True):
    """What a run did."""

    computed: int
    kept: int  # finished earlier
    failures: list[Failure]


def tasks_of(plan: Plan) -> list[Task]:
    """Every point of the plan. Seeds come one after the other, so that an interrupted sweep has
    whole curves. One bound goes first and the others after their seed's simulations: the first
    two tasks then compile different kernels, and the long ones do not come last."""
    found = []
    for seed in range(plan.first_seed, plan.first_seed + plan.seeds):
        bounded = seed < plan.first_seed + plan.bound_seeds
        policies = [*plan.policies, ""] if bounded else plan.policies
        found += [
            _task(plan, reading, policy, value, seed, plan.circumstances[reading])
            for policy in policies
            for reading in (plan.readings if policy else plan.bounded)
            for value in plan.values[reading]
            if plan.runs(policy, value)
        ]
    found += [
        _task(plan, RECORDED, policy, one.value, seed, circumstances, one.digest)
        for one, seed, circumstances in plan.recorded()
        for policy in plan.policies
        if plan.runs(policy, one.value)
    ]
    first = next((task for task in found if task.kind == "bound"), None)
    return found if first is None else [first, *(task for task in found if task is not first)]


def _task(
    plan: Plan,
    reading: str,
    policy: str,
    value: int,
    seed: int,
    circumstances: Circumstances,
    recording: str = "",
) -> Task:
    subject = plan.subject
    kind: Kind = "bound" if not policy else "live" if plan.live else "simulation"
    code = point_digest(subject, kind, policy)
    return Task(
        subject=subject,
        axis=plan.axis.column,
        kind=kind,
        reading=reading,
        policy=policy,
        value=value,
        seed=seed,
        circumstances=circumstances,
        sources=f"{code}-{recording}" if recording else code,
    )


def sweep(
    plan: Plan,
    store: Store,
    progress: Progress,
    *,
    master: str = "local[*]",
    spark: SparkSession | None = None,
    compute: Callable[[Task, Place], Row] = perform,
) -> Swept:
    """Compute what the store lacks. Whatever ends it, finished points are in the store."""
    wanted = tasks_of(plan)
    missing = [task for task in wanted if not store.has(task)]
    failures: list[Failure] = []
    if missing:
        progress.begin("starting Spark", 0)
        with session_on(master, spark) as session, job_errors():
            place = Place.at(store.directory / "workloads")
            _make_workloads(session.sparkContext, missing, place, progress)
            progress.begin("points", len(wanted))
            progress.advance(len(wanted) - len(missing))
            attempt = _attempt(compute, place)
            for batch in each_as_it_ends(session.sparkContext, missing, attempt):
                rows = [found for found in batch if not isinstance(found, Failure)]
                failures += [found for found in batch if isinstance(found, Failure)]
                if rows:
                    store.add(rows)
                progress.advance(len(batch))
    return Swept(len(missing) - len(failures), len(wanted) - len(missing), failures)


def _make_workloads(
    context: SparkContext, tasks: Sequence[Task], place: Place, progress: Progress
) -> None:
    wanted = {workload_key(task): task for task in tasks}
    progress.begin("workloads", len(wanted))

    def make(task: Task) -> int:
        workload_of(task, place)
        return 1

    for made in each_as_it_ends(context, list(wanted.values()), make):
        progress.advance(len(made))


def _attempt(
    compute: Callable[[Task, Place], Row], place: Place
) -> Callable[[Task], Row | Failure]:
    def attempt(task: Task) -> Row | Failure:
        try:
            return compute(task, place)
        except Exception as error:  # a policy that cannot be computed must not take the others
            told = (
                str(error) if isinstance(error, TocsinError) else f"{type(error).__name__}: {error}"
            )
            return Failure(task, told)

    return attempt
