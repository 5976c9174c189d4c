"""What Kafka and S3Proxy share: a set of pinned jars, fetched once, and the Java that runs them."""

from __future__ import annotations

from typing import ClassVar

from tocsin.dev.server import Progress, Server
from tocsin.settings import SHORT_LIVED_JAVA
from tocsin.spark.jars import JarSet
from tocsin.spark.java import OLDEST, find_java, require_java


class JavaServer(Server):
    jars: ClassVar[JarSet]
    memory: ClassVar[str]

    @classmethod
    def _lacks(cls) -> str | None:
        if find_java() is None:
            return f"{cls.title} needs Java {OLDEST} or newer: install it, or set JAVA_HOME"
        if cls.jars.paths():
            return None
        return f"{cls.title}'s jars are not here: call tocsin dev install {cls.name}"

    @classmethod
    def install(cls, progress: Progress) -> None:
        require_java()
        if cls.jars.paths():
            return
        reached = 0

        def advance(done: int, total: int) -> None:
            nonlocal reached
            if done == 0:
                progress.begin(f"fetching {cls.title}'s jars", total)
            progress.advance(done - reached if done else 0)
            reached = done

        cls.jars.fetch(advance)

    def _java(self, *words: str) -> list[str]:
        libraries = f"{self.jars.directory}/*"
        options = [f"-Xmx{self.memory}", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"]
        if self._short_lived:
            options += SHORT_LIVED_JAVA.split()
        return [str(require_java() / "bin" / "java"), *options, "-cp", libraries, *words]
