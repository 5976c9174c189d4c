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
from pyspark.sql import SparkSession

from tocsin.pipeline.failures import Overlong
from tocsin.pipeline.java_process import JavaProcess

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
        with contextlib.suppress(Exception):  # Java may be gone
            self._spark.sparkContext._jsc.clearJobGroup()  # what this thread does next is not of it

    def cancel(self) -> None:
        """Those to come as well: Spark may still be planning them. Returns at once."""
        context: Any = self._spark.sparkContext._jsc.sc()
        context.cancelJobGroupAndFutureJobs(self._id, "it took too long")
        threading.Thread(target=self._see_to_it, name="reaper", daemon=True).start()

    def tasks(self) -> list[Any]:
        """Java's threads that work for the group, on this machine."""
        tracker = self._spark.sparkContext.statusTracker()
        jobs = [tracker.getJobInfo(each) for each in tracker.getJobIdsForGroup(self._id)]
        stages = {stage for job in jobs if job is not None for stage in job.stageIds}
        java: Any = self._spark.sparkContext._jvm
        found = []
        for thread in java.java.lang.Thread.getAllStackTraces().keySet().toArray():
            stage = _TASK.match(thread.getName())
            if stage is not None and int(stage[1]) in stages and _works(thread):
                found.append(thread)
        return found

    def _see_to_it(self) -> None:
        """That nothing of the group goes on."""
        with contextlib.suppress(Exception):  # Java is gone, and with it the tasks
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
                        with contextlib.suppress(Exception):  # later Javas have no such thing
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
