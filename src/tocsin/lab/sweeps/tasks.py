"""The points of a plan as tasks, each computed wherever Spark puts it: the workload is found or
made, and played.

Knows no Spark, so that a task can be run and tested by itself.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from tocsin.lab.spec.experiment import RECORDED
from tocsin.lab.spec.plan import Plan, PointConfig
from tocsin.lab.spec.study import Row, Study
from tocsin.lab.sweeps.sources import point_digest

Kind = Literal["simulation", "bound", "live", "prediction"]


class Place(Struct, frozen=True):
    """Where workloads are kept. A machine that does not see the driver's directory (the token in
    it tells) keeps them in Spark's own local directory, which Spark removes in the end."""

    directory: str
    token: str

    @classmethod
    def at(cls, directory: Path) -> Place:
        directory.mkdir(parents=True, exist_ok=True)
        token = secrets.token_hex(8)
        (directory / f"shared-{token}").touch()
        return cls(str(directory), token)

    def here(self) -> Path:
        given = Path(self.directory)
        if (given / f"shared-{self.token}").exists():
            return given
        local = os.environ.get("SPARK_LOCAL_DIRS", tempfile.gettempdir()).split(",")[0]
        return Path(local) / f"tocsin-workloads-{self.token}"


class Task(Struct, frozen=True, kw_only=True):
    study: Study
    axis: str  # the column of the value
    kind: Kind
    variant: str
    policy: str  # empty for a bound
    value: int
    seed: int
    config: PointConfig
    sources: str  # digest of the code, and of a recording, that decide the result

    @property
    def workload(self) -> Any:
        """The settings of its workload."""
        return self.study.at(self.config.workload, self.value)

    @property
    def environment(self) -> Any:
        return self.config.environment

    def row(self, measured: Row) -> Row:
        """The point: which one it is, and what was measured."""
        return {
            "kind": self.kind,
            "variant": self.variant,
            "policy": self.policy,
            self.axis: self.value,
            "seed": self.seed,
            **measured,
            "sources": self.sources,
        }


class Failure(Struct, frozen=True):
    """A point that could not be computed: the others go on."""

    task: Task
    reason: str


class Swept(Struct, frozen=True):
    """What a run did."""

    computed: int
    kept: int  # finished earlier
    failures: list[Failure]


def tasks_of(plan: Plan) -> list[Task]:
    """Every point of the plan. Seeds come one after the other, so that an interrupted sweep has
    whole curves. One bound goes first and the others after their seed's simulations: the first
    two tasks then compile different kernels, and the long ones do not come last."""
    tasks = []
    for seed in range(plan.first_seed, plan.first_seed + plan.seeds):
        bounded = seed < plan.first_seed + plan.bound_seeds
        policies = [*plan.policies, ""] if bounded else plan.policies
        tasks += [
            _task(plan, variant, policy, value, seed, plan.configs[variant])
            for policy in policies
            for variant in (plan.variants if policy else plan.bounded)
            for value in plan.values[variant]
            if plan.runs(policy, value)
        ]
    tasks += [
        _task(plan, RECORDED, policy, recording.value, seed, config, recording.digest)
        for recording, seed, config in plan.recorded()
        for policy in plan.policies
        if plan.runs(policy, recording.value)
    ]
    first = next((task for task in tasks if task.kind == "bound"), None)
    return tasks if first is None else [first, *(task for task in tasks if task is not first)]


def _task(
    plan: Plan,
    variant: str,
    policy: str,
    value: int,
    seed: int,
    config: PointConfig,
    recording: str = "",
) -> Task:
    study = plan.study
    kind: Kind = "bound" if not policy else "live" if plan.live else "simulation"
    code = point_digest(study, kind, policy)
    return Task(
        study=study,
        axis=plan.axis.column,
        kind=kind,
        variant=variant,
        policy=policy,
        value=value,
        seed=seed,
        config=config,
        sources=f"{code}-{recording}" if recording else code,
    )


def perform(task: Task, place: Place) -> Row:
    """The finished row of one point."""
    begun = time.perf_counter()
    workload = workload_of(task, place)
    study, environment = task.study, task.environment
    if task.kind == "bound":
        assert study.bound is not None
        measured = study.bound(workload, task.value, environment)
    else:
        measured = study.play(workload, task.policy, task.value, environment)
    return task.row(measured | {"task_s": time.perf_counter() - begun})


def workload_key(task: Task) -> str:
    """The same for tasks that play the same workload."""
    content = msgspec.json.encode([task.study.name, task.workload])
    return f"{hashlib.sha256(content).hexdigest()[:12]}-{task.seed}"


def workload_of(task: Task, place: Place) -> Any:
    """Mapped from its files; made first if nobody has."""
    directory = place.here()
    kept = directory / workload_key(task)
    if not kept.exists():
        directory.mkdir(parents=True, exist_ok=True)
        with _locked(directory / f"{kept.name}.lock"):
            if not kept.exists():
                _make(task, kept)
    return task.study.load(kept)


def _make(task: Task, kept: Path) -> None:
    """Written aside and renamed: what is there is whole."""
    aside = Path(tempfile.mkdtemp(prefix="making-", dir=kept.parent))
    try:
        task.study.make(task.workload, task.seed).save(aside)
        aside.rename(kept)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Tasks that want the same workload at the same time make it once."""
    with file.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
