"""Sweeps on Spark: one task a point, and the driver keeps each finished point at once.

Events never become Spark rows: a task carries a few numbers there and one row back, and finds the
workload in files that all tasks of a machine share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark import SparkContext
from pyspark.sql import SparkSession

from tocsin.errors import TocsinError
from tocsin.lab.spec.plan import Plan
from tocsin.lab.spec.progress import Progress
from tocsin.lab.spec.study import Row
from tocsin.lab.sweeps.points import Store
from tocsin.lab.sweeps.spark_tasks import each_as_it_ends, job_errors, session_on
from tocsin.lab.sweeps.tasks import (
    Failure,
    Place,
    Swept,
    Task,
    perform,
    tasks_of,
    workload_key,
    workload_of,
)


def sweep(
    plan: Plan,
    store: Store,
    progress: Progress,
    *,
    master: str = "local[*]",
    spark: SparkSession | None = None,
) -> Swept:
    """Compute what the store lacks. Whatever ends it, finished points are in the store."""
    tasks = tasks_of(plan)
    missing = [task for task in tasks if not store.has(task)]
    failures: list[Failure] = []
    if missing:
        progress.begin("starting Spark", 0)
        with session_on(master, spark) as session, job_errors():
            place = Place.at(store.directory / "workloads")
            _make_workloads(session.sparkContext, missing, place, progress)
            progress.begin("points", len(tasks))
            progress.advance(len(tasks) - len(missing))
            attempt = _attempt(place)
            for batch in each_as_it_ends(session.sparkContext, missing, attempt):
                rows = [outcome for outcome in batch if not isinstance(outcome, Failure)]
                failures += [outcome for outcome in batch if isinstance(outcome, Failure)]
                if rows:
                    store.add(rows)
                progress.advance(len(batch))
    return Swept(len(missing) - len(failures), len(tasks) - len(missing), failures)


def _make_workloads(
    context: SparkContext, tasks: Sequence[Task], place: Place, progress: Progress
) -> None:
    wanted = {workload_key(task): task for task in tasks}
    progress.begin("workloads", len(wanted))

    def make(task: Task) -> int:
        workload_of(task, place)
        return 1

    for workloads in each_as_it_ends(context, list(wanted.values()), make):
        progress.advance(len(workloads))


def _attempt(place: Place) -> Callable[[Task], Row | Failure]:
    def attempt(task: Task) -> Row | Failure:
        try:
            return perform(task, place)
        except Exception as error:  # a policy that cannot be computed must not take the others
            reason = (
                str(error) if isinstance(error, TocsinError) else f"{type(error).__name__}: {error}"
            )
            return Failure(task, reason)

    return attempt
