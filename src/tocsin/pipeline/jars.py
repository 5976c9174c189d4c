"""Jars that make Spark faster, fetched once at set-up into a directory the project owns.

    python -m tocsin.pipeline.jars [DIRECTORY]

Spark itself resolves them, so this module knows names and versions but no address, and whatever
mirror Spark's own settings name is honoured. Without the jars everything works, only slower: Hadoop
starts a `chmod` process for every file of a checkpoint.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tocsin.errors import Unavailable
from tocsin.pipeline.java import require_java

DIRECTORY = Path(".cache") / "jars"
# A local file system that does not start `chmod` for every file Spark creates.
BARE_LOCAL_FS = "com.globalmentor:hadoop-bare-naked-local-fs:0.1.0"
BARE_LOCAL_FS_CLASS = "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"
# Spark carries Hadoop and needs none of the library its author uses in tests.
EXCLUDED = "org.apache.hadoop:hadoop-common,com.globalmentor:globalmentor-root"


def jar_directory() -> Path:
    """`.cache/jars` in the project's folder, else in the working directory."""
    for folder in Path(__file__).resolve().parents:
        if (folder / "pyproject.toml").is_file():
            return folder / DIRECTORY
    return DIRECTORY.resolve()


def find_bare_local_fs(directory: Path | None = None) -> Path | None:
    """The jar, if it was fetched."""
    found = sorted((directory or jar_directory()).glob("*bare-naked-local-fs*.jar"))
    return found[-1] if found else None


def fetch(directory: Path) -> Path:
    """Have Spark resolve the jar and keep it in `directory`; nothing to do if it is there."""
    present = find_bare_local_fs(directory)
    if present is not None:
        return present
    directory.mkdir(parents=True, exist_ok=True)
    resolved = directory.parent / "ivy"
    _resolve(resolved)
    found = sorted((resolved / "jars").glob("*bare-naked-local-fs*.jar"))
    if not found:
        raise Unavailable(
            f"{BARE_LOCAL_FS} could not be fetched", hint="Tocsin works without it, a bit slower"
        )
    partial = directory / f".{found[-1].name}.part"
    shutil.copyfile(found[-1], partial)
    return partial.rename(directory / found[-1].name)


def _resolve(ivy: Path) -> None:
    """Start Spark's launcher with the package and stop it: resolving is its first step."""
    from pyspark.java_gateway import launch_gateway

    os.environ["JAVA_HOME"] = str(require_java())
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        f"--packages {BARE_LOCAL_FS} --exclude-packages {EXCLUDED} "
        f"--conf spark.jars.ivy={ivy.resolve()} pyspark-shell"
    )
    try:
        with _errors_into(ivy / "resolve.txt"):
            gateway = launch_gateway()  # type: ignore[no-untyped-call]
    except Exception as error:  # the launcher reports every failure as "exited"
        raise Unavailable(
            f"{BARE_LOCAL_FS} could not be fetched: {error}",
            hint=f"Tocsin works without it, a bit slower; {ivy / 'resolve.txt'} has the reason",
        ) from None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=30)


@contextmanager
def _errors_into(path: Path) -> Iterator[None]:
    """The launcher writes pages to standard error, which a child inherits: keep them aside."""
    path.parent.mkdir(parents=True, exist_ok=True)
    saved = os.dup(2)
    try:
        with path.open("wb") as target:
            os.dup2(target.fileno(), 2)
            yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def main() -> None:
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else jar_directory()
    try:
        print(fetch(directory))
    except Unavailable as error:
        print(f"tocsin: {error}", file=sys.stderr)  # set-up goes on: the jar is a bonus


if __name__ == "__main__":
    main()
