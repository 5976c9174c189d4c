"""A Spark standalone cluster from pyspark's own folder: one master, some workers.

Workers come and go: a test kills one and starts another while a job runs. Imports no pyspark.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import urllib.request
from pathlib import Path
from typing import Any

from tocsin.dev.server import Progress, Server
from tocsin.errors import NotFound
from tocsin.settings import SHORT_LIVED_JAVA
from tocsin.spark.jars import spark_home
from tocsin.spark.java import OLDEST, find_java, require_java
from tocsin.system.launching import Command
from tocsin.system.ports import HOST, free_port

MASTER = "master"


class SparkCluster(Server):
    name = "spark"
    title = "Spark's cluster"
    host = HOST  # of the master, as workers and drivers reach it
    worker_host = HOST

    def __init__(
        self, *given: Any, workers: int = 2, cores: int = 1, memory: str = "1g", **named: Any
    ) -> None:
        """Cores and memory are what each worker gives to executors."""
        super().__init__(*given, **named)
        self._wanted = workers
        self._cores = cores
        self._memory = memory
        self._numbers = itertools.count(1)
        self._page_port = 0

    @classmethod
    def _lacks(cls) -> str | None:
        if find_java() is None:
            return f"Spark needs Java {OLDEST} or newer: install it, or set JAVA_HOME"
        return None

    @classmethod
    def install(cls, progress: Progress) -> None:
        require_java()

    @property
    def url(self) -> str:
        return self.master_url

    @property
    def master_url(self) -> str:
        """What Spark calls its master (`--master`)."""
        return f"spark://{self.host}:{self.port}"

    @property
    def workers(self) -> list[str]:
        return [name for name in self.processes if name != MASTER]

    def add_worker(self) -> str:
        """Start one more and wait until the master knows it; its name."""
        name = self._start_worker()
        self._until(lambda: self.alive_workers() >= len(self.workers))
        return name

    def kill_worker(self, name: str | None = None) -> str:
        """kill -9 of a worker and its executors, the first one if none is named; its name."""
        chosen = name or next(iter(self.workers), "")
        if chosen not in self.workers:
            raise NotFound(f"Spark's cluster has no worker {chosen!r}")
        self.processes.pop(chosen).kill()
        self._save()
        self._until(lambda: self.alive_workers() <= len(self.workers))
        return chosen

    def alive_workers(self) -> int:
        """As the master counts them; -1 if it does not answer."""
        with contextlib.suppress(OSError, ValueError):
            page = f"http://{self.host}:{self._page_port}/json/"
            with urllib.request.urlopen(page, timeout=5) as answer:
                return int(json.load(answer)["aliveworkers"])
        return -1

    def heal(self) -> None:
        super().heal()
        while len(self.workers) < self._wanted:
            self.add_worker()

    def _launch(self) -> None:
        self._page_port = free_port()
        words = [
            "--host",
            self.host,
            "--port",
            str(self.port),
            "--webui-port",
            str(self._page_port),
        ]
        self._start_process(MASTER, self._daemon("master.Master", self.host, *words))
        self._until(lambda: self.alive_workers() >= 0)
        for _ in range(self._wanted):
            self._start_worker()
        self._until(lambda: self.alive_workers() >= self._wanted)

    def _start_worker(self) -> str:
        name = f"worker_{next(self._numbers)}"
        words = ["--host", self.worker_host, "--cores", str(self._cores), "--memory", self._memory]
        words += ["--work-dir", str(self.data / name), "--webui-port", "0", self.master_url]
        command = self._daemon("worker.Worker", self.worker_host, *words)
        self._start_process(name, self._elsewhere(command))
        return name

    def _elsewhere(self, command: Command) -> Command:
        """How a worker is started. Here: as everything else."""
        return command

    def _make_data(self, data: Path) -> None:
        data.mkdir()

    def _daemon(self, kind: str, host: str, *words: str) -> Command:
        home = spark_home()
        environment = {
            "SPARK_HOME": str(home),
            "JAVA_HOME": str(require_java()),
            "SPARK_LOCAL_IP": host,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": SHORT_LIVED_JAVA if self._short_lived else "",
        }
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *words]
        return Command(command, str(self.log), environment)
