"""Work on Spark for the lab: a session of its own, and tasks whose results come as each one ends.

Knows nothing of points or policies.
"""

from __future__ import annotations

import contextlib
import gc
import os
import re
import shutil
import socket
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pyspark import InheritableThread, SparkContext
from pyspark.accumulators import AccumulatorParam
from pyspark.sql import SparkSession

from tocsin.errors import SettingError, TocsinError, Unavailable
from tocsin.settings import SHORT_LIVED_JAVA, Settings
from tocsin.spark.session import build_session

T = TypeVar("T")
R = TypeVar("R")
Session = SparkSession  # what callers may bring
POLL_S = 0.1
MASTERS = "local[*], or the address of a running master such as spark://host:7077"


class _Gathered(AccumulatorParam[list[Any]]):
    """Tasks' results, in the order in which they end. Spark counts each task of an action once,
    and tells the driver as soon as the task ends, long before the job does."""

    def zero(self, value: list[Any]) -> list[Any]:
        return []

    def addInPlace(self, value1: list[Any], value2: list[Any]) -> list[Any]:
        return value1 + value2


def each_as_it_ends(
    context: SparkContext, items: Sequence[T], function: Callable[[T], R]
) -> Iterator[list[R]]:
    """One task an item; results in small batches while the job runs. Leaving ends the job."""
    gathered = context.accumulator(list[Any](), _Gathered())

    def work(item: T) -> None:
        gathered.add([function(item)])
        spare_collector()

    job = _Job(context, lambda: context.parallelize(items, len(items)).foreach(work))
    seen = 0
    try:
        while True:
            running = job.wait(POLL_S)
            results = gathered.value[seen:]
            seen += len(results)
            if results:
                yield results
            if not running:
                break
    finally:
        job.cancel()
    job.check()


_modules_seen = 0


def spare_collector() -> None:
    """Spark collects garbage after every task of a Python worker, which takes 50 ms with all that
    is imported here: leave what was imported out of it."""
    global _modules_seen
    if len(sys.modules) != _modules_seen:
        _modules_seen = len(sys.modules)
        gc.freeze()


class _Job:
    """An action on a thread of its own, so that the driver can look at results meanwhile."""

    def __init__(self, context: SparkContext, action: Callable[[], object]) -> None:
        self._context = context
        self._group = f"lab-{uuid.uuid4()}"
        self._action = action
        self._error: BaseException | None = None
        self._thread = InheritableThread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._context.setJobGroup(self._group, "lab", interruptOnCancel=True)
            self._action()
        except BaseException as error:
            self._error = error

    def wait(self, seconds: float) -> bool:
        """Whether it still runs."""
        self._thread.join(seconds)
        return self._thread.is_alive()

    def cancel(self) -> None:
        if self._thread.is_alive():
            with contextlib.suppress(Exception):  # the context may be gone already
                self._context.cancelJobGroup(self._group)
            self._thread.join(10)

    def check(self) -> None:
        if self._error is not None:
            raise self._error


def check_master(master: str) -> None:
    """Say at once what Spark would say after a minute."""
    if not re.fullmatch(r"local(-cluster)?(\[[\d*,\s]+\])?|spark://.+|yarn|k8s://.+", master):
        raise SettingError(f"{master!r} is no Spark master", field="master", hint=MASTERS)
    tried = re.findall(r"([^/,:]+|\[[^\]]+\]):(\d+)", master) if "spark://" in master else []
    for host, port in tried:
        with contextlib.suppress(OSError), socket.create_connection((host.strip("[]"), port), 5):
            return
    if tried:
        raise Unavailable(f"no Spark master answers at {master}", field="master", hint=MASTERS)


@contextlib.contextmanager
def session_on(master: str, given: SparkSession | None) -> Iterator[SparkSession]:
    if given is not None:
        yield given
        return
    check_master(master)
    scratch = Path(tempfile.mkdtemp(prefix="tocsin-lab-"))
    settings = Settings(data=scratch, master=master, java_options=SHORT_LIVED_JAVA)
    try:
        try:
            with _errors_to(scratch / "java.log"):
                session = build_session(settings, app_name="tocsin-lab")
        except TocsinError:
            raise
        except Exception as error:
            raise Unavailable(
                f"Spark does not start on {master}: {first_line(error)}",
                field="master",
                hint=MASTERS,
            ) from None
        try:
            yield session
        finally:
            with contextlib.suppress(Exception):
                session.stop()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextlib.contextmanager
def _errors_to(file: Path) -> Iterator[None]:
    """What is started meanwhile writes its warnings there, not between the lines of our progress.
    Python's own standard error stays where it is."""
    sys.stderr.flush()
    kept, ours = os.dup(2), sys.stderr
    with file.open("wb") as log, os.fdopen(os.dup(kept), "w", buffering=1) as sys.stderr:
        os.dup2(log.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr = ours
            os.dup2(kept, 2)
            os.close(kept)


@contextlib.contextmanager
def job_errors() -> Iterator[None]:
    try:
        yield
    except (TocsinError, OSError):
        raise
    except Exception as error:
        raise Unavailable(
            f"the sweep stopped: {first_line(error)}",
            hint="finished points are kept: run the same again to go on",
        ) from error


def first_line(error: BaseException) -> str:
    """The line of a Java error that says what happened."""
    lines = [line.strip().removeprefix(": ") for line in str(error).splitlines()]
    lines = [line for line in lines if line and not line.startswith("An error occurred while")]
    return lines[0] if lines else type(error).__name__
