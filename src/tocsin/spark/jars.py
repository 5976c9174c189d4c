"""Jars from Maven's public repository, fetched in whole sets into the cache directory.

    python -m tocsin.spark.jars

Ivy fetches them: it lies in pyspark's own folder and knows where the public repository is, so this
module knows names and versions but no address (DEFAULT_ARTIFACT_REPOSITORY names a mirror, as it
does for Spark). Every jar of a set is pinned, none is looked up. Imports no pyspark, starts no
Spark, and works without jars: then Hadoop starts a `chmod` process for every file of a checkpoint,
and Spark reaches neither Kafka nor a database.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import quoteattr

from tocsin.cache_directory import cache_directory
from tocsin.errors import Unavailable
from tocsin.spark.java import require_java

ATTEMPTS = 3  # what one attempt has fetched, the next one keeps
BARE_LOCAL_FS_CLASS = "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"
_BARE_LOCAL_FS = "hadoop-bare-naked-local-fs"


def jar_directory() -> Path:
    return cache_directory() / "jars"


def spark_home() -> Path:
    """Where pyspark lies, with Spark's own scripts and jars."""
    package = importlib.util.find_spec("pyspark")
    if package is None or not package.submodule_search_locations:
        raise Unavailable("pyspark is not installed", hint="pip install 'tocsin[server]'")
    return Path(next(iter(package.submodule_search_locations)))


@dataclass(frozen=True)
class JarSet:
    """Jars that are there all together or not at all. Other versions make another directory."""

    name: str
    coordinates: tuple[str, ...]
    """group:artifact:version, with everything that they need."""

    @property
    def directory(self) -> Path:
        digest = hashlib.sha256("\n".join(self.coordinates).encode()).hexdigest()
        return jar_directory() / f"{self.name}-{digest[:12]}"

    def paths(self) -> list[Path]:
        """The jars in the order of the list; none unless all are there."""
        paths = [self.directory / _file_name(coordinate) for coordinate in self.coordinates]
        return paths if all(path.is_file() for path in paths) else []

    def fetch(
        self,
        on_progress: Callable[[int, int], None] = lambda done, total: None,
        *,
        attempts: int = ATTEMPTS,
    ) -> list[Path]:
        """Fetch what is missing; `on_progress` gets how many of how many are there."""
        if paths := self.paths():
            return paths
        with _lock(self.directory.parent):
            if not self.paths():  # another process may have fetched them while we waited
                self._fetch(on_progress, attempts)
        return self.paths()

    def _fetch(self, on_progress: Callable[[int, int], None], attempts: int) -> None:
        place = self.directory.parent
        for left in place.glob(f".{self.name}-*.part"):  # of a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        part = Path(tempfile.mkdtemp(prefix=f".{self.name}-", suffix=".part", dir=place))
        try:
            for attempt in range(1, attempts + 1):
                on_progress(0, len(self.coordinates))
                if (reason := _run_ivy(part, self, on_progress)) is None:
                    break
                if attempt == attempts:
                    raise Unavailable(
                        f"the jars of {self.name} could not be fetched: {reason}",
                        hint="look at the network, or set DEFAULT_ARTIFACT_REPOSITORY to a mirror",
                    )
            for path in (part / "jars").iterdir():
                with path.open("rb") as handle:
                    os.fsync(handle.fileno())
            shutil.rmtree(self.directory, ignore_errors=True)  # had lost some of its jars
            (part / "jars").rename(self.directory)
        finally:
            shutil.rmtree(part, ignore_errors=True)


SPARK = JarSet(
    "spark",
    (
        # A local file system that does not start `chmod` for every file Spark creates.
        f"com.globalmentor:{_BARE_LOCAL_FS}:0.1.0",
        # Kafka as source and sink. The token provider of 4.2.0 was never published; that of 4.0.0
        # serves.
        "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
        "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
        "org.apache.kafka:kafka-clients:3.9.2",
        "org.apache.commons:commons-pool2:2.13.1",
        # Databases. MariaDB's 4.0 refuses servers without TLS, which the 10.11 of Debian is.
        "org.postgresql:postgresql:42.7.14",
        "org.mariadb.jdbc:mariadb-java-client:3.5.11",
    ),
)

DELTA = JarSet(
    "delta",
    (
        "io.delta:delta-spark_4.2_2.13:4.4.0",
        "io.delta:delta-storage:4.4.0",
        "io.delta:delta-kernel-api:4.4.0",
        "io.delta:delta-kernel-defaults:4.4.0",
        "io.delta:delta-kernel-unitycatalog:4.4.0",
        # Delta's classes name those of its catalog, whether there is one or not.
        "io.unitycatalog:unitycatalog-client:0.6.0",
        "io.unitycatalog:unitycatalog-hadoop:0.6.0",
    ),
)
"""Delta Lake for Spark. What else it names, Spark has."""

S3A = JarSet(
    "s3a",
    (
        # Of the version of Spark's own Hadoop; of Amazon's SDK the one that it asks for. Its parts
        # are a thirtieth of the bundle that has all.
        "org.apache.hadoop:hadoop-aws:3.5.0",
        "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
        *(
            f"software.amazon.awssdk:{part}:2.35.4"
            for part in (
                *("annotations", "apache-client", "arns", "auth", "aws-core"),
                *("aws-query-protocol", "aws-xml-protocol", "checksums", "checksums-spi"),
                *("crt-core", "endpoints-spi", "http-auth", "http-auth-aws"),
                *("http-auth-aws-eventstream", "http-auth-spi", "http-client-spi"),
                *("identity-spi", "json-utils", "metrics-spi", "netty-nio-client", "profiles"),
                *("protocol-core", "regions", "retries", "retries-spi", "s3"),
                *("s3-transfer-manager", "sdk-core", "sts", "third-party-jackson-core"),
                *("utils", "utils-lite"),
            )
        ),
        "software.amazon.eventstream:eventstream:1.0.1",
        "org.reactivestreams:reactive-streams:1.0.4",
    ),
)
"""What Spark reaches S3 with."""


def find_bare_local_fs() -> Path | None:
    """The file system's jar, if it was fetched."""
    return next((path for path in SPARK.paths() if path.name.startswith(_BARE_LOCAL_FS)), None)


def connector_jars() -> list[Path]:
    """What Spark needs to reach Kafka, PostgreSQL and MariaDB (`spark.jars`); none if not there."""
    return [path for path in SPARK.paths() if not path.name.startswith(_BARE_LOCAL_FS)]


def require_connector_jars() -> list[Path]:
    """The same, fetched if they are not there."""
    SPARK.fetch()
    return connector_jars()


def table_jar_sets(tables: str) -> list[JarSet]:
    """What Spark needs for the setting `tables`."""
    if not tables:
        return []
    return [DELTA, S3A] if tables.startswith(("s3:", "s3a:")) else [DELTA]


def _file_name(coordinate: str) -> str:
    _, artifact, version = coordinate.split(":")
    return f"{artifact}-{version}.jar"


@contextmanager
def _lock(place: Path) -> Iterator[None]:
    try:
        place.mkdir(parents=True, exist_ok=True)
        handle = (place / ".lock").open("w")
    except OSError as error:
        raise Unavailable(f"jars cannot be kept in {place}: {error.strerror}") from None
    with handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _run_ivy(part: Path, wanted: JarSet, on_progress: Callable[[int, int], None]) -> str | None:
    """Put the jars into `part/jars`; the reason if that failed. Ivy checks each one's checksum."""
    (part / "settings.xml").write_text(_settings())
    (part / "ivy.xml").write_text(_module(wanted))
    command = [str(require_java() / "bin" / "java"), "-XX:TieredStopAtLevel=1"]
    command += ["-jar", str(_ivy_jar()), "-confs", "default"]
    command += ["-settings", str(part / "settings.xml"), "-ivy", str(part / "ivy.xml")]
    command += ["-cache", str(part / "ivy")]
    command += ["-retrieve", f"{part / 'jars'}/[artifact]-[revision].[ext]"]
    lines, done = list[str](), 0
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as ivy:
        assert ivy.stdout is not None
        try:
            for line in ivy.stdout:
                lines.append(line.strip())
                if "[SUCCESSFUL" in line:
                    done += 1
                    on_progress(done, len(wanted.coordinates))
        except BaseException:
            ivy.kill()
            raise
    if ivy.returncode == 0:
        return None
    for telling in ("access error", "Host ", "invalid", "not found"):  # the best reason first
        for line in lines:
            if telling in line:
                return line
    return f"Ivy ended with code {ivy.returncode}"


def _ivy_jar() -> Path:
    for jar in (spark_home() / "jars").glob("ivy-*.jar"):
        return jar
    raise Unavailable(
        "pyspark's folder has no Ivy, which fetches jars", hint="pip install 'tocsin[server]'"
    )


def _settings() -> str:
    mirror = os.environ.get("DEFAULT_ARTIFACT_REPOSITORY")
    root = f" root={quoteattr(mirror)}" if mirror else ""
    return f"""<ivysettings>
  <settings defaultResolver="public"/>
  <timeout-constraints>
    <timeout-constraint name="patient" connectionTimeout="15000" readTimeout="60000"/>
  </timeout-constraints>
  <resolvers>
    <ibiblio name="public" m2compatible="true" usepoms="false" timeoutConstraint="patient"{root}/>
  </resolvers>
</ivysettings>
"""


def _module(wanted: JarSet) -> str:
    lines = []
    for coordinate in wanted.coordinates:
        group, artifact, version = map(quoteattr, coordinate.split(":"))
        lines.append(
            f'    <dependency org={group} name={artifact} rev={version} transitive="false"/>'
        )
    return f"""<ivy-module version="2.0">
  <info organisation="tocsin" module={quoteattr(wanted.name)}/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
{chr(10).join(lines)}
  </dependencies>
</ivy-module>
"""


def main() -> None:
    def on_progress(done: int, total: int) -> None:
        print(f"fetching Spark's jars: {done} of {total}", flush=True)

    try:
        SPARK.fetch(on_progress)
    except Unavailable as error:
        sys.exit(f"tocsin: {error}")


if __name__ == "__main__":
    main()
