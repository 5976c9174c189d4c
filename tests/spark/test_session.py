"""Finding Java, and the settings a session gets. No session is started here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tocsin.errors import SettingError
from tocsin.settings import Settings
from tocsin.spark.jars import SPARK, find_bare_local_fs
from tocsin.spark.java import find_java, require_java
from tocsin.spark.session import local_cores, session_conf


def make_java(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    return home


def test_java_home_wins_when_it_is_new_enough(tmp_path: Path) -> None:
    named = make_java(tmp_path / "named", "21.0.1")
    make_java(tmp_path / "jvm" / "a", "17.0.2")
    environ = {"JAVA_HOME": str(named), "PATH": ""}
    assert find_java(environ, folder=tmp_path / "jvm") == named


def test_java_on_the_path_is_found(tmp_path: Path) -> None:
    home = make_java(tmp_path / "home", "17")
    assert find_java({"PATH": str(home / "bin")}, folder=tmp_path / "none") == home


def test_an_old_java_home_is_passed_over_for_the_oldest_good_one(tmp_path: Path) -> None:
    old = make_java(tmp_path / "old", "1.8.0_392")
    make_java(tmp_path / "jvm" / "b", "25.0.1")
    wanted = make_java(tmp_path / "jvm" / "c", "17.0.2")
    make_java(tmp_path / "jvm" / "d", "11.0.2")
    environ = {"JAVA_HOME": str(old), "PATH": str(old / "bin")}
    assert find_java(environ, folder=tmp_path / "jvm") == wanted


def test_no_java_gives_one_clear_line(tmp_path: Path) -> None:
    assert find_java({"PATH": ""}, folder=tmp_path) is None
    with pytest.raises(SettingError, match=r"Java 17 or newer.*install") as caught:
        require_java({"PATH": ""}, folder=tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("master", "cores"),
    [("local", 1), ("local[3]", 3), ("local[4,2]", 4), ("spark://a:7077", None), ("yarn", None)],
)
def test_cores_of_a_master(master: str, cores: int | None) -> None:
    assert local_cores(master) == cores


def test_a_session_works_with_and_without_the_faster_file_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tocsin.spark.jars.jar_directory", lambda: tmp_path)
    settings = Settings(data=tmp_path, master="local[2]")
    assert find_bare_local_fs() is None
    assert "spark.hadoop.fs.file.impl" not in session_conf(settings)
    SPARK.directory.mkdir()
    for coordinate in SPARK.coordinates:
        _, artifact, version = coordinate.split(":")
        (SPARK.directory / f"{artifact}-{version}.jar").touch()
    assert "spark.hadoop.fs.file.impl" in session_conf(settings)
    elsewhere = Settings(data=tmp_path, master="spark://a:7077")
    assert "spark.hadoop.fs.file.impl" not in session_conf(elsewhere)


def test_on_one_machine_small_work_gets_small_means(tmp_path: Path) -> None:
    """One task for what the driver holds, all cores for files, no 16 MB per hash table."""
    here = session_conf(Settings(data=tmp_path, master="local[4]"))
    assert here["spark.sql.leafNodeDefaultParallelism"] == "1"
    assert here["spark.sql.files.minPartitionNum"] == "4"
    assert here["spark.buffer.pageSize"] == "1m"
    elsewhere = session_conf(Settings(data=tmp_path, master="spark://a:7077"))
    assert not {"spark.sql.leafNodeDefaultParallelism", "spark.buffer.pageSize"} & elsewhere.keys()
