"""Spark's classes as Java has read and checked them, kept in a file: Spark starts in half the time.

    python -m tocsin.spark.class_archive

makes the file once, beside Spark's jars, by starting Spark and stopping it. It belongs to one Java
and one class path; another of either finds no file, and Spark starts as it always did.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
import tempfile
from pathlib import Path

from tocsin.errors import TocsinError
from tocsin.settings import SHORT_LIVED_JAVA, Settings
from tocsin.spark.jars import find_bare_local_fs, jar_directory, spark_home
from tocsin.spark.java import find_java

_SUFFIX = ".jsa"
_QUIET = "-Xlog:cds*=off"  # a file that does not fit is no news: Java goes on without it


def archive_file() -> Path | None:
    """Where the file for this Java and this class path lies, if it was made; None without Java."""
    java = find_java()
    if java is None:
        return None
    release = java / "release"
    ingredients = (
        str(java),
        release.read_text(encoding="utf-8") if release.is_file() else "",
        str(spark_home()),
        *sorted(path.name for path in (spark_home() / "jars").glob("*.jar")),
        str(find_bare_local_fs()),
    )
    digest = hashlib.sha256("\n".join(ingredients).encode()).hexdigest()
    return jar_directory() / f"spark-classes-{digest[:12]}{_SUFFIX}"


def archive_options() -> str:
    """Options for Java that make use of the file, if it is there."""
    file = archive_file()
    return f"-XX:SharedArchiveFile={file} {_QUIET}" if file is not None and file.is_file() else ""


def make_archive() -> Path | None:
    """Start Spark, let it do what a channel does, and have Java write down what it loaded."""
    file = archive_file()
    if file is None or file.is_file():
        return file
    file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".classes-", dir=file.parent) as folder:
        part = Path(folder) / "part"
        _run_spark(Path(folder), f"-XX:ArchiveClassesAtExit={part} {_QUIET}")
        part.rename(file)
    for other in file.parent.glob(f"spark-classes-*{_SUFFIX}"):
        if other != file:  # of an older Spark or Java
            other.unlink()
    return file


def _run_spark(data: Path, option: str) -> None:
    from pyspark import SparkContext

    from tocsin.spark.session import build_session
    from tocsin.spark.warm_up import warm_up

    settings = Settings(data=data, master="local[2]", java_options=f"{SHORT_LIVED_JAVA} {option}")
    spark = build_session(settings, app_name="tocsin-classes")
    warm_up(spark)
    stream = spark.readStream.format("rate").load().writeStream.format("noop")
    stream.trigger(availableNow=True).start().awaitTermination()
    spark.stop()
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    java = gateway.proc  # Java ends, and writes, when its input does
    java.stdin.close()
    java.wait()
    shutil.rmtree(data / "spark", ignore_errors=True)


def main() -> None:
    file = archive_file()
    if file is None or file.is_file():
        return
    print("keeping Spark's classes, so that it starts in half the time", flush=True)
    try:
        make_archive()
    except (TocsinError, OSError) as error:
        sys.exit(f"tocsin: {error}")


if __name__ == "__main__":
    main()
