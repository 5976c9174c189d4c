"""A cluster that is asked to stop while Spark starts does not wait for Spark."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest
from pyspark import java_gateway

from cluster.sparkless import SECRET
from tocsin.cluster import cluster as module
from tocsin.cluster.cluster import Cluster
from tocsin.settings import Settings
from tocsin.spark.java_environment import java_sees_what_is_allowed
from tocsin.storage.store.store import Store

JAVA = ["sleep", "60"]
LONG_S = 5.0


class Starting:
    """Of an engine, what waits for Java: when it is made, or when it starts."""

    def __init__(self, *, in_start: bool) -> None:
        self._in_start = in_start
        self.begun = threading.Event()
        self.stopped = False

    def make(self, *_: object) -> Starting:
        if not self._in_start:
            self._wait_for_java()
        return self

    def start(self) -> None:
        self._wait_for_java()

    def halt(self) -> None:
        self.stopped = True

    def end(self) -> None:
        assert self.stopped

    def _wait_for_java(self) -> None:
        self.begun.set()
        time.sleep(0.2)  # a signal may come just before Java is there
        with java_sees_what_is_allowed():
            java = vars(java_gateway)["Popen"](JAVA, env={})
        assert java.wait() != 0
        raise RuntimeError("Java has ended")


@pytest.mark.parametrize("in_start", [False, True])
async def test_spark_that_only_starts_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_start: bool
) -> None:
    with java_sees_what_is_allowed():
        others = vars(java_gateway)["Popen"](JAVA, env={})  # another session's, which goes on
    engine = Starting(in_start=in_start)
    monkeypatch.setattr(module, "Engine", engine.make)
    with Store.open(f"sqlite:///{tmp_path}/store.db") as store:
        async with Cluster(Settings(data=tmp_path, secret=SECRET), store):
            await asyncio.to_thread(engine.begun.wait)
            began = time.monotonic()
        assert time.monotonic() - began < LONG_S
    assert engine.stopped is in_start
    assert others.poll() is None
    others.kill()
    others.wait()
