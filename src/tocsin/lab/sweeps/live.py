"""The points of a plan, played live one after the other and kept; then each is predicted from what
the live ones show. What is played, and on what, the study of the plan knows.
"""

from __future__ import annotations

from msgspec.structs import replace

from tocsin.lab.spec.plan import Plan
from tocsin.lab.spec.progress import Progress
from tocsin.lab.spec.study import BrokenPromise, LiveForm, Row, Servers
from tocsin.lab.sweeps.points import Store
from tocsin.lab.sweeps.sources import point_digest
from tocsin.lab.sweeps.tasks import Failure, Swept, Task, tasks_of


def sweep_live(plan: Plan, store: Store, progress: Progress, servers: Servers) -> Swept:
    """Play what the store lacks. Whatever ends it, finished points are in the store."""
    live = plan.study.live
    assert live is not None
    tasks = tasks_of(plan)
    missing = sorted(
        (task for task in tasks if not store.has(task)), key=lambda task: (task.seed, task.value)
    )
    failures: list[Failure] = []
    if missing:
        with live.stage(tasks, progress, servers) as play:
            progress.begin("live points", len(tasks))
            progress.advance(len(tasks) - len(missing))
            for task in missing:
                try:
                    row = play(_drawn(live, task), task.policy, task.environment)
                    store.add([task.row(row)])
                except BrokenPromise as reason:
                    failures.append(Failure(task, str(reason)))
                progress.advance(1)
    _predict(live, tasks, store)
    return Swept(len(missing) - len(failures), len(tasks) - len(missing), failures)


def _predict(live: LiveForm, tasks: list[Task], store: Store) -> None:
    rows = [(task, row) for task in tasks if (row := store.row_of(task)) is not None]
    if rows:
        predict = live.predictor([task for task, _ in rows], [row for _, row in rows])
        store.add([_prediction(task, predict(_drawn(live, task), task.policy)) for task, _ in rows])


def _drawn(live: LiveForm, task: Task) -> object:
    return live.draw(task.workload, task.seed)


def _prediction(task: Task, measured: Row) -> Row:
    """The row of a live point's prediction."""
    code = point_digest(task.study, "prediction", task.policy)
    recording = task.sources.partition("-")[2]
    sources = f"{code}-{recording}" if recording else code
    return replace(task, kind="prediction", sources=sources).row(measured)
