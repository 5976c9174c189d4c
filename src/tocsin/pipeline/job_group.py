"""Spark's jobs that one thread starts for one purpose, so that they can be cancelled together."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from tocsin.pipeline.failures import Overlong


class JobGroup:
    """Entered by the thread whose jobs they are; cancelled by any."""

    def __init__(self, spark: SparkSession, purpose: str) -> None:
        self._context = spark.sparkContext
        self._purpose = purpose
        self._id = f"{purpose} {uuid.uuid4().hex}"

    def __enter__(self) -> JobGroup:
        self._context.setJobGroup(self._id, self._purpose, interruptOnCancel=True)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(Exception):  # Java may be gone
            self._context._jsc.clearJobGroup()  # what this thread does next is not of it

    def cancel(self) -> None:
        """Those to come as well: Spark may still be planning them."""
        self._context._jsc.sc().cancelJobGroupAndFutureJobs(self._id, "it took too long")


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
