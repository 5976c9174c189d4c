"""Spark's jobs that one thread starts for one purpose, so that they can be ended together.

Spark asks a task of a cancelled job to end, and cannot make it: a task that compares all with all
looks at that only between two rows of its first table, which may be hours later. It would hold its
slot and a core for so long. So what goes on in spite of being asked is stopped as a thread.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import structlog
from prometheus_client import Counter
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from tocsin.spark.failures import JAVA_IS_GONE, Overlong
from tocsin.spark.java_process import JavaProcess

log = structlog.get_logger()

STOPPED = Counter("tocsin_stopped_tasks_total", "Tasks of Spark that did not end when asked to")

ASKED_S = 2.0  # after which a task that goes on is stopped
STOPPED_S = 10.0  # after which Java is ended with it
LOOK_S = 0.5
_TASK = re.compile(r"Executor task launch worker for task .* in stage (\d+)\.")


class JobGroup:
    """Entered by the thread whose jobs they are; cancelled by any."""

    def __init__(self, spark: SparkSession, purpose: str) -> None:
        self._spark = spark
        self._purpose = purpose
        self._id = f"{purpose} {uuid.uuid4().hex}"

    def __enter__(self) -> JobGroup:
        self._spark.sparkContext.setJobGroup(self._id, self._purpose, interruptOnCancel=True)
        return self

    def __exit__(self, *_: object) -> None:
        context: Any = self._spark.sparkContext._jsc  # None: it was stopped
        if context is not None:
            with contextlib.suppress(*JAVA_IS_GONE):
                context.clearJobGroup()  # what this thread does next is not of it

    def cancel(self) -> None:
        """Those to come as well: Spark may still be planning them. Returns at once."""
        context: Any = self._spark.sparkContext._jsc.sc()
        context.cancelJobGroupAndFutureJobs(self._id, "it took too long")
        threading.Thread(target=self._see_to_it, name="reaper", daemon=True).start()

    def tasks(self) -> list[Any]:
        """Java's threads that work for the group, on this machine."""
        context = self._spark.sparkContext
        java: Any = context._jvm
        if context._jsc is None or java is None:  # it was stopped, or Java died and is forgotten
            return []
        tracker = context.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self._id)]
        stages = {stage for job in jobs if job is not None for stage in job.stageIds}
        threads = []
        for thread in java.java.lang.Thread.getAllStackTraces().keySet().toArray():
            stage = _TASK.match(thread.getName())
            if stage is not None and int(stage[1]) in stages and _works(thread):
                threads.append(thread)
        return threads

    def _see_to_it(self) -> None:
        """That nothing of the group goes on."""
        with contextlib.suppress(*JAVA_IS_GONE):  # and with it the tasks
            asked_at = time.monotonic()
            while left := self.tasks():
                waited_s = time.monotonic() - asked_at
                if waited_s > STOPPED_S:
                    log.error("Java is ended: a task cannot be stopped", purpose=self._purpose)
                    JavaProcess(self._spark).kill()
                    return
                if waited_s > ASKED_S:
                    STOPPED.inc(len(left))
                    for thread in left:
                        with contextlib.suppress(Py4JError):  # later Javas have no such thing
                            thread.stop()
                time.sleep(LOOK_S)


def _works(thread: Any) -> bool:
    """One that has nothing to do keeps the name of what it did last."""
    return bool(thread.isAlive()) and str(thread.getState()) == "RUNNABLE"


@contextmanager
def time_limit(spark: SparkSession, purpose: str, limit_s: float) -> Iterator[None]:
    """Jobs that this thread runs in the block are cancelled when their time is over: Overlong."""
    over = threading.Event()

    def stop() -> None:
        over.set()
        group.cancel()

    timer = threading.Timer(limit_s, stop)
    timer.daemon = True
    with JobGroup(spark, purpose) as group:
        timer.start()
        try:
            yield
        except Exception as error:
            if over.is_set():
                raise Overlong(f"it took longer than {limit_s:g} s") from error
            raise
        finally:
            timer.cancel()
