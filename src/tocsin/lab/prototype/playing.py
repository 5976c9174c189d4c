"""The points of a plan, played live one after the other and kept; then each is predicted from what
the live ones show. What is played, and on what, the caller knows.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

import uvloop
from msgspec.structs import replace

from tocsin.lab.declaring.plan import Plan
from tocsin.lab.declaring.subject import Row
from tocsin.lab.sweeps.points import Store
from tocsin.lab.sweeps.sources import point_digest
from tocsin.lab.sweeps.sweep import Progress, Swept, tasks_of
from tocsin.lab.sweeps.tasks import Failure, Task
from tocsin.settings import Settings
from tocsin.system import System

Found = Sequence[tuple[Task, Row]]


class Broken(Exception):
    """A promise of the live system was not kept: what is measured then is worth nothing."""


def play_points(
    plan: Plan,
    store: Store,
    progress: Progress,
    staged: Callable[[], AbstractContextManager[Callable[[Task], Row]]],
    predicted: Callable[[Found], list[Row]],
) -> Swept:
    """Play what the store lacks. Whatever ends it, finished points are in the store."""
    wanted = tasks_of(plan)
    missing = sorted(
        (task for task in wanted if not store.has(task)), key=lambda task: (task.seed, task.value)
    )
    failures: list[Failure] = []
    if missing:
        with staged() as play:
            progress.begin("live points", len(wanted))
            progress.advance(len(wanted) - len(missing))
            for task in missing:
                try:
                    store.add([task.row(play(task))])
                except Broken as reason:
                    failures.append(Failure(task, str(reason)))
                progress.advance(1)
    found = [(task, row) for task in wanted if (row := store.row_of(task)) is not None]
    if found:
        store.add(predicted(found))
    return Swept(len(missing) - len(failures), len(wanted) - len(missing), failures)


def prediction(task: Task, measured: Row) -> Row:
    """The row of a live point's prediction."""
    code = point_digest(task.subject, "prediction", task.policy)
    recording = task.sources.partition("-")[2]
    sources = f"{code}-{recording}" if recording else code
    return replace(task, kind="prediction", sources=sources).row(measured)


@contextlib.contextmanager
def running(settings: Settings, brokers: int) -> Iterator[tuple[asyncio.Runner, System]]:
    """A whole system, and the event loop that it is watched in."""
    with contextlib.ExitStack() as until:
        runner = until.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))
        system = System(settings, brokers=brokers)
        until.callback(lambda: runner.run(system.stop()))
        runner.run(system.start())
        yield runner, system
