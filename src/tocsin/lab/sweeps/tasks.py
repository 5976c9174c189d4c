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

from tocsin.lab.simulators.result_cache.simulator import simulate
from tocsin.lab.workloads.edge import EdgeSettings, edge_workload
from tocsin.lab.workloads.network import Network
from tocsin.lab.workloads.workload import Workload
from tocsin.policies import parse_policy

Kind = Literal["simulation", "bound"]
Row = dict[str, Any]


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
    kind: Kind
    reading: str
    policy: str  # empty for a bound
    size_bytes: int
    seed: int
    settings: EdgeSettings
    network: Network
    sources: str  # digest of the code that decides the result

    @property
    def identity(self) -> tuple[str, str, str, int, int, str]:
        return (self.kind, self.reading, self.policy, self.size_bytes, self.seed, self.sources)


class Failure(Struct, frozen=True):
    """A point that could not be computed: the others go on."""

    task: Task
    reason: str


def perform(task: Task, place: Place) -> Row:
    """The finished row of one point."""
    begun = time.perf_counter()
    workload = workload_of(task.settings, task.seed, place)
    if task.kind == "bound":
        from tocsin.lab.sweeps.bound_rows import bound_row

        measured = bound_row(workload, task.size_bytes, task.network)
    else:
        policy = parse_policy(task.policy)
        measured = simulate(workload, policy, task.size_bytes, task.network).row()
    return {
        "kind": task.kind,
        "reading": task.reading,
        "policy": task.policy,
        "size_bytes": task.size_bytes,
        "seed": task.seed,
        **measured,
        "task_s": time.perf_counter() - begun,
        "sources": task.sources,
    }


def make_workload(settings: EdgeSettings, seed: int, place: Place) -> None:
    workload_of(settings, seed, place)


def workload_of(settings: EdgeSettings, seed: int, place: Place) -> Workload:
    """Mapped from its files; made first if nobody has."""
    directory = place.here()
    digest = hashlib.sha256(msgspec.json.encode(settings)).hexdigest()[:12]
    kept = directory / f"{digest}-{seed}"
    if not kept.exists():
        directory.mkdir(parents=True, exist_ok=True)
        with _locked(directory / f"{kept.name}.lock"):
            if not kept.exists():
                _make(settings, seed, kept)
    return Workload.load(kept, mmap=True)


def _make(settings: EdgeSettings, seed: int, kept: Path) -> None:
    """Written aside and renamed: what is there is whole."""
    aside = Path(tempfile.mkdtemp(prefix="making-", dir=kept.parent))
    try:
        edge_workload(settings, seed).save(aside)
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
