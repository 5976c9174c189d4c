"""A Spark session that is awake before there is a store to work on.

Spark takes seconds to start, and more until it is quick. A standby has it ready, so that channels
go on at once when it leads. Touches neither store nor log.
"""

from __future__ import annotations

import contextlib
import threading

from pyspark.sql import SparkSession

from tocsin.settings import Settings
from tocsin.spark.failures import JAVA_IS_GONE
from tocsin.spark.java_process import JavaProcess, forget_session
from tocsin.spark.session import build_session
from tocsin.spark.warm_up import warm_up

ROUNDS = 5
"""So often a standby runs the made-up channel, in time: Java compiles what it has run often."""


class WarmSession:
    """Safe to call from any thread; who takes it waits until it is awake."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._over = False
        self._rounds = 0
        self._spark: SparkSession | None = None
        self._java: JavaProcess | None = None
        self.is_awake = False

    def keep(self) -> None:
        """To be called regularly. Start it, or start it again if its Java has ended; it is awake
        when this returns."""
        with self._lock:
            if self._over:
                return
            if self._java is not None and not self._java.has_ended():
                self._warm_up()
                return
            self.is_awake = False
            if self._java is not None:
                forget_session()
            self._spark = build_session(self._settings)
            self._java = JavaProcess(self._spark)
            self._rounds = 0
            self._warm_up()
            self.is_awake = True

    def _warm_up(self) -> None:
        if self._settings.warm_up and self._rounds < ROUNDS and self._spark is not None:
            self._rounds += 1
            warm_up(self._spark)

    def take(self) -> SparkSession | None:
        """It is the caller's from now on, and is kept no more; None: there is none."""
        with self._lock:
            self._over = True
            spark, java = self._spark, self._java
            self._spark = self._java = None
        if java is not None and java.has_ended():
            forget_session()
            return None
        return spark

    def stop(self) -> None:
        """Unless somebody has taken it."""
        spark = self.take()
        if spark is not None:
            with contextlib.suppress(*JAVA_IS_GONE):
                spark.stop()
