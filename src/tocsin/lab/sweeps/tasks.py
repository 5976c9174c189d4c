"""One point of a sweep, computed wherever Spark puts it: the workload is found or made, and played.

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

from tocsin.lab.declaring.plan import Circumstances
from tocsin.lab.declaring.subject import Row, Subject

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
    subject: Subject
    axis: str  # the column of the value
    kind: Kind
    reading: str
    policy: str  # empty for a bound
    value: int
    seed: int
    circumstances: Circumstances
    sources: str  # digest of the code, and of a recording, that decide the result

    @property
    def workload(self) -> Any:
        """The settings of its workload."""
        return self.subject.at(self.circumstances.workload, self.value)

    def row(self, measured: Row) -> Row:
        """The point: which one it is, and what was measured."""
        return {
            "kind": self.kind,
            "reading": self.reading,
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


def perform(task: Task, place: Place) -> Row:
    """The finished row of one point."""
    begun = time.perf_counter()
    workload = workload_of(task, place)
    subject, surroundings = task.subject, task.circumstances.surroundings
    if task.kind == "bound":
        assert subject.bound is not None
        measured = subject.bound(workload, task.value, surroundings)
    else:
        measured = subject.play(workload, task.policy, task.value, surroundings)
    return task.row(measured | {"task_s": time.perf_counter() - begun})


def workload_key(task: Task) -> str:
    """The same for tasks that play the same workload."""
    told = msgspec.json.encode([task.subject.name, task.workload])
    return f"{hashlib.sha256(told).hexdigest()[:12]}-{task.seed}"


def workload_of(task: Task, place: Place) -> Any:
    """Mapped from its files; made first if nobody has."""
    directory = place.here()
    kept = directory / workload_key(task)
    if not kept.exists():
        directory.mkdir(parents=True, exist_ok=True)
        with _locked(directory / f"{kept.name}.lock"):
            if not kept.exists():
                _make(task, kept)
    return task.subject.load(kept)


def _make(task: Task, kept: Path) -> None:
    """Written aside and renamed: what is there is whole."""
    aside = Path(tempfile.mkdtemp(prefix="making-", dir=kept.parent))
    try:
        task.subject.make(task.workload, task.seed).save(aside)
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
