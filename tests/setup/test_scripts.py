"""Set-up on machines that lack things, played with stand-ins for Java, Python, pip and apt-get."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = [
    "sh",
    "dirname",
    "cat",
    "sed",
    "head",
    "tail",
    "tee",
    "grep",
    "sha256sum",
    "readlink",
    "mktemp",
    "rm",
    "touch",
    "env",
]


def script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)


def java(home: Path, version: str) -> Path:
    script(home / "bin/java", f"echo 'openjdk version \"{version}\" 2024-01-16' >&2\n")
    return home


class Machine:
    """A checkout and a PATH on which nothing is but what a test puts there."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.jvm = folder / "jvm"
        self.checkout = folder / "checkout"
        self.calls = folder / "calls"
        for made in (self.bin, self.jvm, self.checkout):
            made.mkdir()
        self.calls.touch()
        for tool in TOOLS:
            found = shutil.which(tool)
            assert found is not None
            (self.bin / tool).symlink_to(found)
        shutil.copytree(ROOT / "scripts", self.checkout / "scripts")
        (self.checkout / "pyproject.toml").write_text("[project]\n")
        (self.checkout / "constraints.txt").write_text("pyspark==4.2.0\n")
        self.user(1000)

    def user(self, number: int) -> None:
        script(self.bin / "id", f"echo {number}\n")

    def has_python(self, pip: str = "exit 0") -> None:
        """Python 3.11 whose `-m venv` makes an environment with itself in it."""
        text = f"""case "$*" in
            "-m pip install"*) echo "pip $*" >>{self.calls}; {pip} ;;
            "-m venv"*) {shutil.which("mkdir")} -p .venv/bin
                {shutil.which("cp")} "$0" .venv/bin/python ;;
            "-V" | "-VV") echo "Python 3.11.2" ;;
        esac
        """
        script(self.bin / "python3", text)

    def has_apt(self, effect: str) -> None:
        script(self.bin / "apt-get", f'echo "apt-get $*" >>{self.calls}\n{effect}\n')

    def run(self, name: str, **environment: str) -> subprocess.CompletedProcess[str]:
        known = {"PATH": str(self.bin), "TOCSIN_JVM_DIR": str(self.jvm)}
        return subprocess.run(
            [self.checkout / "scripts" / name],
            env=known | environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def called(self) -> list[str]:
        return self.calls.read_text().splitlines()


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_java_home_wins_when_it_is_new_enough(machine: Machine, tmp_path: Path) -> None:
    java(machine.jvm / "seventeen", "17.0.9")
    home = java(tmp_path / "mine", "21")
    assert machine.run("find-java", JAVA_HOME=str(home)).stdout.strip() == str(home)


def test_java_on_the_path_is_found_through_its_link(machine: Machine, tmp_path: Path) -> None:
    home = java(tmp_path / "far away" / "jdk", "17.0.9")
    (machine.bin / "java").symlink_to(home / "bin/java")
    assert machine.run("find-java").stdout.strip() == str(home)


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.21", "no version"])
def test_an_old_java_is_passed_over(machine: Machine, tmp_path: Path, version: str) -> None:
    old = java(tmp_path / "old", version)
    (machine.bin / "java").symlink_to(old / "bin/java")
    assert machine.run("find-java", JAVA_HOME=str(old)).returncode != 0
    good = java(machine.jvm / "good", "17.0.9")
    assert machine.run("find-java", JAVA_HOME=str(old)).stdout.strip() == str(good)


def test_of_several_installed_javas_the_oldest_that_serves_is_taken(machine: Machine) -> None:
    for name, version in (("a", "25-ea"), ("b", "17.0.9"), ("c", "21.0.1"), ("d", "11.0.2")):
        java(machine.jvm / name, version)
    assert machine.run("find-java").stdout.strip() == str(machine.jvm / "b")


def test_no_java_anywhere_is_a_silent_failure(machine: Machine) -> None:
    found = machine.run("find-java")
    assert found.returncode != 0
    assert (found.stdout, found.stderr) == ("", "")


def test_without_java_a_plain_user_is_told_in_one_line_what_to_install(machine: Machine) -> None:
    machine.has_python()
    machine.has_apt("exit 0")
    done = machine.run("setup")
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert "Java 17" in line
    assert "apt-get install openjdk-17-jre-headless" in line
    assert not any(call.startswith("apt-get") for call in machine.called())


def test_without_java_root_gets_it_installed(machine: Machine, tmp_path: Path) -> None:
    machine.has_python()
    machine.user(0)
    ready = java(tmp_path / "package", "17.0.9")
    machine.has_apt(f'[ "$1" = update ] || {shutil.which("cp")} -r {ready} {machine.jvm}/new')
    done = machine.run("setup")
    assert done.returncode == 0, done.stderr
    assert [call for call in machine.called() if call.startswith("apt-get")] == [
        "apt-get update -y --no-install-recommends",
        "apt-get install -y --no-install-recommends openjdk-17-jre-headless",
    ]
    note = machine.checkout / ".venv/tocsin-java"
    assert note.read_text().strip() == str(machine.jvm / "new")


def test_a_release_without_java_17_gets_its_own_java(machine: Machine, tmp_path: Path) -> None:
    machine.has_python()
    machine.user(0)
    ready = java(tmp_path / "package", "21.0.1")
    machine.has_apt(
        f"""case "$*" in
            *openjdk-17*) exit 100 ;;
            *default-jre-headless) {shutil.which("cp")} -r {ready} {machine.jvm}/new ;;
        esac"""
    )
    assert machine.run("setup").returncode == 0


def test_an_installation_that_fails_says_why_and_what_to_do(machine: Machine) -> None:
    machine.has_python()
    machine.user(0)
    machine.has_apt("echo 'E: no network'; exit 100")
    done = machine.run("setup")
    assert done.returncode == 1
    assert "E: no network" in done.stderr
    assert "openjdk-17-jre-headless" in done.stderr.splitlines()[-1]


def test_without_python_a_plain_user_is_told_in_one_line(machine: Machine) -> None:
    done = machine.run("setup")
    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert "Python 3.11 or newer" in line


def test_an_old_python_does_not_serve(machine: Machine) -> None:
    script(machine.bin / "python3", "exit 1\n")
    assert machine.run("find-python").returncode != 0
    script(machine.bin / "python3.12", "exit 0\n")
    assert machine.run("find-python").stdout.strip() == str(machine.bin / "python3.12")


def test_packages_are_installed_pinned_and_only_when_something_changed(machine: Machine) -> None:
    machine.has_python()
    java(machine.jvm / "a", "17.0.9")
    assert machine.run("setup").returncode == 0
    calls = machine.called()
    assert len(calls) == 2
    assert all("-c constraints.txt" in call for call in calls)
    assert calls[1].endswith("-e .[all,dev,bench]")

    assert machine.run("setup").returncode == 0
    assert machine.called() == calls

    (machine.checkout / "constraints.txt").write_text("pyspark==4.2.1\n")
    assert machine.run("setup").returncode == 0
    assert len(machine.called()) == 4


def test_a_failed_installation_shows_its_end_and_is_tried_again(machine: Machine) -> None:
    machine.has_python(pip="echo 'ERROR: no such version'; exit 1")
    java(machine.jvm / "a", "17.0.9")
    done = machine.run("setup")
    assert done.returncode == 1
    assert "ERROR: no such version" in done.stderr
    assert "tocsin-setup.log" in done.stderr.splitlines()[-1]
    assert machine.run("setup").returncode == 1


def test_jars_that_cannot_be_fetched_do_not_stop_the_set_up(machine: Machine) -> None:
    machine.has_python()
    java(machine.jvm / "a", "17.0.9")
    assert machine.run("setup").returncode == 0
    python = machine.checkout / ".venv/bin/python"
    text = python.read_text()
    python.write_text(text.replace('case "$*" in', 'case "$*" in *jars*) exit 1 ;;', 1))
    jars = machine.checkout / "src/tocsin/spark/jars.py"
    jars.parent.mkdir(parents=True)
    jars.touch()
    done = machine.run("setup")
    assert done.returncode == 0
    assert "going on without them" in done.stdout


@pytest.mark.parametrize(
    "target", ["setup", "servers", "demo", "test", "bench", "lint", "format", "clean", "help"]
)
def test_make_help_lists_every_target(target: str) -> None:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
    told = subprocess.run(
        ["make", "help"], cwd=ROOT, env=clean, capture_output=True, text=True, check=True
    )
    assert f"  make {target} " in told.stdout


def test_pins_hold_no_address_and_no_local_path() -> None:
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        assert line.startswith("#") or line.count("==") == 1
        assert not {"/", "@"} & set(line)
