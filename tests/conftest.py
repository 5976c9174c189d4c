"""What all tests share: one small Spark session and real servers, started only when asked for."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pytest
import structlog
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling

from log.media import MEDIA
from real_servers import RealServers
from tocsin.dev.kafka import Kafka
from tocsin.dev.mariadb import MariaDB
from tocsin.dev.postgresql import PostgreSQL
from tocsin.dev.s3 import S3
from tocsin.dev.spark import SparkCluster
from tocsin.errors import Unavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tocsin.spark.jars import JarSet

# How long an example takes says something of the machine, and nothing of the code.
settings.register_profile(
    "shared-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("shared-machine")

MEMORY = Path("/dev/shm")
ENOUGH_BYTES = 4 * 1024**3
if "TMPDIR" not in os.environ and MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ENOUGH_BYTES:
    # Servers and stores sync all the time, and would wait for a disk that others use as well. What
    # disks do when they are full or fail has tests of its own.
    os.environ["TMPDIR"] = tempfile.tempdir = str(MEMORY)  # for processes, and for this one


SLOW = {"spark", "real_servers", "s3", "spark_cluster"}
"""Fixtures that start something; those of the other servers are made with these."""
SHARED = ("spark", "live", "kafka", "mariadb", "postgresql", "s3")
"""Fixtures that cost most to start, and whose tests one worker therefore runs: a second Java would
have to compile again what the first one has."""
AT_ONCE = {
    *("broker_core", "caching", "client", "contracts", "coordinator", "overlay", "sql"),
    *("policies", "service", "unit"),
}
"""Directories of tests that start nothing by themselves."""


class SharingScheduler(LoadScopeScheduling):  # type: ignore[misc]  # xdist's types are its own
    """What shares something that is slow to start goes to one worker, the rest file by file."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::")[0]
        shared = _shared(Path(__file__).parents[1] / file)
        if shared == "spark" and "delta" in nodeid:  # long: they pay for a Java of their own
            return "delta"
        return shared or file


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> SharingScheduler:
    return SharingScheduler(config, log)


@cache
def _shared(file: Path) -> str | None:
    """The first of the shared fixtures that tests of a file ask for, by their source: the process
    that distributes tests does not collect them."""
    source = file.read_text()
    return next((name for name in SHARED if re.search(rf"\b{name}: [A-Z]", source)), None)


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest goes first, so that none is waited for at the end. Of the rest, files
    whose tests wait stand among those whose tests compute. What starts nothing is marked as quick.
    """
    items.sort(key=_turn)
    for item in items:
        if _is_quick(item):
            item.add_marker(pytest.mark.quick)


def _turn(item: pytest.Item) -> tuple[int, int]:
    shared = _shared(item.path)
    if shared is not None:
        return SHARED.index(shared), 0
    if item.get_closest_marker("processes") is not None:
        return len(SHARED), 0
    return len(SHARED) + 1, crc32(item.nodeid.split("::")[0].encode())


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Who wants the quick ones alone need not import the others."""
    only_quick = config.getoption("markexpr") == "quick" and collection_path.is_dir()
    if only_quick and collection_path.parent == Path(__file__).parent:
        return collection_path.name not in AT_ONCE or None
    return None


def _is_quick(item: pytest.Item) -> bool:
    if any(item.get_closest_marker(name) for name in ("spark", "processes", "long")):
        return False
    directory = item.path.relative_to(Path(__file__).parent).parts[0]
    return directory in AT_ONCE and SLOW.isdisjoint(getattr(item, "fixturenames", ()))


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """A command that a test calls here sets them for the whole process."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from tocsin.settings import SHORT_LIVED_JAVA, Settings
    from tocsin.spark.jars import DELTA, S3A, connector_jars
    from tocsin.spark.session import build_session

    data = tmp_path_factory.mktemp("spark")
    settings = Settings(
        data=data,
        master="local[2]",
        java_options=SHORT_LIVED_JAVA,
        log="kafka://127.0.0.1:1" if connector_jars() else "",  # it loads what reads from there
        # And what writes Delta tables, in S3 as well.
        tables="s3a://bucket/tables" if _fetched(DELTA) and _fetched(S3A) else "",
    )
    session = build_session(settings, app_name="tocsin-tests")
    yield session
    session.stop()


def _fetched(jars: JarSet) -> bool:
    with suppress(Unavailable):
        jars.fetch(attempts=1)
    return bool(jars.paths())


@pytest.fixture(scope="session")
def real_servers() -> Iterator[RealServers]:
    with RealServers() as servers:
        yield servers


@pytest.fixture(scope="session")
def kafka(real_servers: RealServers) -> Kafka:
    """`.address` for Kafka's clients, `.url` for Tocsin's settings; topics are the test's own."""
    return real_servers.start(Kafka)


@pytest.fixture(scope="session")
def postgresql(real_servers: RealServers) -> PostgreSQL:
    """`.url` of a database that all share, `.fresh()` for one of the test's own."""
    return real_servers.start(PostgreSQL)


@pytest.fixture(scope="session")
def mariadb(real_servers: RealServers) -> MariaDB:
    """`.url` of a database that all share, `.fresh()` for one of the test's own."""
    return real_servers.start(MariaDB)


@pytest.fixture(scope="session")
def s3(real_servers: RealServers) -> S3:
    """`.fresh()` is the address of an empty bucket of the test's own."""
    return real_servers.start(S3)


@pytest.fixture(scope="session")
def spark_cluster(real_servers: RealServers) -> SparkCluster:
    """A standalone cluster of two workers, one core each: `.master_url`."""
    return real_servers.start(SparkCluster)


@pytest.fixture
def log_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of a log that nobody else uses; `over_every_log` makes it each medium in turn."""
    return MEDIA[getattr(request, "param", "segments")](request, tmp_path).address


@pytest.fixture(autouse=True)
def _whole_servers_for_the_next(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test may kill or pause a shared server; the next test finds it serving."""
    yield
    if "real_servers" in request.fixturenames:
        request.getfixturevalue("real_servers").heal()
