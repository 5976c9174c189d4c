"""Spark's Java process: whether it lives, and how Python forgets one that died.

PySpark keeps its one Java process in class attributes and never looks whether it is still there.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession

from tocsin.spark.failures import JAVA_IS_GONE


class JavaProcess:
    """The process behind a session. Thread-safe."""

    def __init__(self, spark: SparkSession) -> None:
        gateway: Any = spark.sparkContext._gateway
        self._process: Any = getattr(gateway, "proc", None)  # None: somebody else's Java
        self._context: Any = spark.sparkContext._jsc.sc()

    @property
    def pid(self) -> int | None:
        return None if self._process is None else int(self._process.pid)

    def has_ended(self) -> bool:
        return self._process is not None and self._process.poll() is not None

    def answers(self, within_s: float) -> bool:
        """Whether Spark says in time that it works. A call that hangs leaves its thread behind."""
        answered = threading.Event()

        def ask() -> None:
            with contextlib.suppress(*JAVA_IS_GONE):
                if not self._context.isStopped():  # as it is when one of its own threads fails
                    answered.set()

        threading.Thread(target=ask, name="java-pulse", daemon=True).start()
        return answered.wait(within_s)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


def forget_session() -> None:
    """Let the next session have a Java process of its own, after the last one's died."""
    gateway: Any = SparkContext._gateway
    if gateway is not None:
        with contextlib.suppress(*JAVA_IS_GONE):
            gateway.shutdown()
    SparkContext._active_spark_context = None
    SparkContext._gateway = None
    SparkContext._jvm = None
    SparkSession._instantiatedSession = None
