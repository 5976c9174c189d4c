"""What Spark's Java, and the Python workers that it starts, get of our environment.

The cluster's own environment may hold the secret, passwords of databases and keys of object stores.
Java gets none of them: only what is allowed by name is passed on. What real-time mode needs of a
database (its address and password) reaches Spark as an option of that one reader, because Java
reads the subscriptions itself; it is in no variable and no setting of the session.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from subprocess import Popen
from typing import Any

from pyspark import java_gateway

_NAMES = frozenset((
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR", "TERM",
    "HOSTNAME", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME", "PYTHONHASHSEED", "VIRTUAL_ENV",
    "JAVA_HOME", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "XDG_CACHE_HOME",
    "_PYSPARK_DRIVER_CONN_INFO_PATH",
))  # fmt: skip
_PREFIXES = ("LC_", "SPARK_", "PYSPARK_", "HADOOP_", "YARN_", "NUMBA_", "OMP_", "OPENBLAS_", "MKL_")


def passed_on(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environ.items()
        if name in _NAMES or name.startswith(_PREFIXES)
    }


_NEWEST: list[Popen[bytes]] = []


def newest_java() -> Popen[bytes] | None:
    """The last that was started here; pyspark tells nobody of it before it answers."""
    return _NEWEST[0] if _NEWEST else None


def kill_newer(former: Popen[bytes] | None) -> None:
    """A Java that was started since the former one was the newest. Whoever waits for it hears that
    it has ended."""
    newest = newest_java()
    if newest is not None and newest is not former:
        newest.kill()


@contextmanager
def java_sees_what_is_allowed() -> Iterator[None]:
    """While this lasts, pyspark starts Java with what is passed on. It offers no other way: it
    gives Java all of `os.environ`, which is not ours to empty, for other threads read it."""

    def start(command: list[str], **options: Any) -> Popen[bytes]:
        java = Popen(command, **{**options, "env": passed_on(options["env"])})
        _NEWEST[:] = [java]
        return java

    names = vars(java_gateway)
    given, names["Popen"] = names["Popen"], start
    try:
        yield
    finally:
        names["Popen"] = given
