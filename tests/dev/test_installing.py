"""What a machine lacks is installed or told; apt-get and the folders it fills are stand-ins."""

from __future__ import annotations

from pathlib import Path

import pytest

from real_servers import skip_or_fail
from tocsin.dev import java_server, packages, postgresql, servers, spark
from tocsin.dev.mariadb import MariaDB
from tocsin.dev.postgresql import PostgreSQL
from tocsin.errors import SettingError, Unavailable
from tocsin.spark import java


class Told:
    """Hears of progress."""

    def __init__(self) -> None:
        self.begun: list[str] = []

    def begin(self, what: str, total: int) -> None:
        self.begun.append(what)

    def advance(self, count: int) -> None:
        pass


class Machine:
    """A machine without any server, on which a test may be root and have an apt-get."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.folder = folder
        self.calls = folder / "calls"
        self.calls.touch()
        self._monkeypatch = monkeypatch
        monkeypatch.setenv("PATH", f"{self.bin}:/bin")
        monkeypatch.setattr("shutil.which", self._which)
        monkeypatch.setattr(packages, "CLUSTER_FOLDER", folder / "createcluster.d")
        monkeypatch.setattr(postgresql, "FOLDER", folder / "postgresql")
        self.user(1000)

    def user(self, number: int) -> None:
        self._monkeypatch.setattr("os.geteuid", lambda: number)

    def has_apt(self, effect: str) -> None:
        self.script("apt-get", f'echo "$DEBIAN_FRONTEND $*" >>{self.calls}\n{effect}\n')

    def script(self, name: str, text: str) -> None:
        path = self.bin / name
        path.write_text(f"#!/bin/sh\n{text}")
        path.chmod(0o755)

    def called(self) -> list[str]:
        return self.calls.read_text().splitlines()

    def _which(self, name: str, path: str | None = None) -> str | None:
        found = self.bin / name
        return str(found) if found.exists() else None


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_a_plain_user_is_told_what_to_install(machine: Machine) -> None:
    machine.has_apt("exit 0")
    for kind in (PostgreSQL, MariaDB):
        assert kind.packages[0] in str(kind.missing())
        with pytest.raises(Unavailable, match=f"apt-get install {kind.packages[0]}"):
            kind.install(Told())
    assert machine.called() == []


def test_root_without_apt_is_told_the_same(machine: Machine) -> None:
    machine.user(0)
    with pytest.raises(Unavailable, match="apt-get install postgresql"):
        PostgreSQL.install(Told())


def test_root_gets_postgresql_and_no_server_of_the_package(machine: Machine) -> None:
    """While apt-get runs the package is told to make no server; afterwards that word is gone."""
    machine.user(0)
    seen, programs = machine.folder / "seen", machine.folder / "postgresql/15/bin"
    machine.has_apt(
        f"""cat {packages.CLUSTER_FOLDER}/* >{seen}
        [ "$3" = update ] || {{ mkdir -p {programs} && touch {programs}/initdb; }}"""
    )
    told = Told()
    PostgreSQL.install(told)
    assert told.begun == ["installing PostgreSQL"]
    assert PostgreSQL.missing() is None
    assert seen.read_text() == "create_main_cluster = false\n"
    assert list(packages.CLUSTER_FOLDER.iterdir()) == []
    update, install = machine.called()
    assert update.startswith("noninteractive ")
    assert update.endswith(" update")
    assert install.endswith(" install -y --no-install-recommends postgresql")
    PostgreSQL.install(told)
    assert len(machine.called()) == 2


def test_root_gets_mariadb_as_programs_alone(machine: Machine) -> None:
    machine.user(0)
    machine.has_apt(f"touch {machine.bin}/mariadbd {machine.bin}/mariadb-install-db")
    MariaDB.install(Told())
    assert machine.called()[-1].endswith(" mariadb-server-core mariadb-client-core")


def test_an_installation_that_fails_says_why_and_leaves_no_word_behind(machine: Machine) -> None:
    machine.user(0)
    machine.has_apt("echo 'Reading …'; echo 'E: no network'; exit 100")
    with pytest.raises(Unavailable, match="PostgreSQL: E: no network"):
        PostgreSQL.install(Told())
    assert list(packages.CLUSTER_FOLDER.iterdir()) == []


def test_an_installation_without_effect_is_told(machine: Machine) -> None:
    machine.user(0)
    machine.has_apt("exit 0")
    with pytest.raises(Unavailable, match="no server is found"):
        MariaDB.install(Told())


def test_what_can_be_installed_is_though_something_else_cannot(machine: Machine) -> None:
    machine.user(0)
    machine.has_apt(
        f"""case "$*" in
            *postgresql) exit 100 ;;
            *mariadb*) touch {machine.bin}/mariadbd {machine.bin}/mariadb-install-db ;;
        esac"""
    )
    [failed] = servers.install(["postgresql", "mariadb"], Told())
    assert "PostgreSQL" in str(failed)
    assert MariaDB.missing() is None


def test_without_java_its_servers_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "SYSTEM_FOLDER", Path("/nowhere"))
    monkeypatch.setattr(java_server, "find_java", lambda: None)
    monkeypatch.setattr(spark, "find_java", lambda: None)
    for name in ("kafka", "s3", "spark"):
        assert "Java 17" in str(servers.KINDS[name].missing())
    monkeypatch.setattr(
        java_server,
        "require_java",
        lambda: java.require_java({"PATH": ""}, folder=Path("/nowhere")),
    )
    for name in ("kafka", "s3"):
        with pytest.raises(SettingError, match="Java 17"):
            servers.KINDS[name].install(Told())


def test_a_missing_server_skips_a_test_and_fails_it_where_all_must_be_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    either = (pytest.skip.Exception, pytest.fail.Exception)
    for setting, kind in (("", either[0]), ("true", either[1])):
        monkeypatch.setenv("CI", setting)
        with pytest.raises(either, match="no such server") as told:
            skip_or_fail("no such server")
        assert told.type is kind


def test_without_the_proc_file_system_nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psutil.LINUX", False)
    assert all("Linux" in str(kind.missing()) for kind in servers.KINDS.values())
