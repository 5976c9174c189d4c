"""The table of optional libraries agrees with the metadata, and a missing one is named."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from setup.installation import ROOT, needed
from tocsin.extras import EXTRAS

SECRET = "a secret that is long enough to sign with"
ENVIRONMENT = {key: text for key, text in os.environ.items() if not key.startswith("TOCSIN_")}
WITHOUT = """
import sys
sys.modules.update(dict.fromkeys(sys.argv.pop(1).split(",")))
"""


def project() -> dict[str, Any]:
    declared: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return declared


def requirements() -> dict[str, list[Requirement]]:
    """What each extra names itself; "" is for everybody."""
    declared = project()
    lists = {"": declared["dependencies"], **declared["optional-dependencies"]}
    return {extra: [Requirement(text) for text in texts] for extra, texts in lists.items()}


def brought_by(extra: str) -> set[str]:
    texts = [str(requirement) for requirement in requirements()[extra]]
    return {canonicalize_name(name) for name in needed(texts, ())}


def call_without(modules: str, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The command line where these modules cannot be imported."""
    return subprocess.run(
        [
            sys.executable,
            "-c",
            WITHOUT + "from tocsin.cli import main\nmain()",
            modules,
            *words,
        ],
        cwd=cwd,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_every_extra_of_users_is_in_the_table_and_in_all() -> None:
    for_developers = {"", "all", "dev", "bench"}
    assert set(requirements()) - for_developers == set(EXTRAS)
    (everything,) = requirements()["all"]
    assert everything.extras == set(EXTRAS)


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_table_names_the_modules_that_an_extra_installs(extra: str) -> None:
    of_module = {
        module: {canonicalize_name(name) for name in names}
        for module, names in packages_distributions().items()
    }
    installed = brought_by(extra)
    for module in EXTRAS[extra].modules:
        assert of_module[module] & installed, f"{extra} does not install {module}"
    named = set().union(*(of_module[module] for module in EXTRAS[extra].modules))
    for requirement in requirements()[extra]:
        if requirement.name != "tocsin":
            assert canonicalize_name(requirement.name) in named, f"no module of {requirement.name}"


def test_the_metadata_has_ranges_and_the_pins_lie_within() -> None:
    pins = dict(
        line.split("==")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if not line.startswith("#")
    )
    versions = {canonicalize_name(name): version for name, version in pins.items()}
    for named in requirements().values():
        for requirement in named:
            if requirement.name == "tocsin":
                continue
            assert requirement.specifier, f"{requirement.name} has no bound"
            assert "==" not in str(requirement.specifier)
            version = versions[canonicalize_name(requirement.name)]
            assert requirement.specifier.contains(version, prereleases=True), str(requirement)


def test_every_dependency_says_what_it_is_for() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    section = text[text.index("\ndependencies = [") : text.index("\ndev = [")]
    for line in section.splitlines():
        if line.strip().startswith('"') or ("= [" in line and "]" in line):
            assert "  # " in line or line.startswith("all ="), line


@pytest.mark.parametrize(
    ("modules", "words", "extra"),
    [
        ("confluent_kafka", ["up", "--log", "kafka://127.0.0.1:9092/tocsin"], "kafka"),
        ("confluent_kafka", ["cluster", "--set", "kafka=kafka://127.0.0.1:9092"], "kafka"),
        ("psycopg", ["up", "--store", "postgresql://me@127.0.0.1/tocsin"], "postgresql"),
        ("psycopg", ["up", "--store", "postgresql+psycopg://me@127.0.0.1/tocsin"], "postgresql"),
        ("pymysql", ["cluster", "--store", "mariadb://me@127.0.0.1/tocsin"], "mariadb"),
        ("s3fs", ["up", "--set", "attachments=s3://bucket/folder"], "s3"),
        ("confluent_kafka", ["demo", "--profile", "company"], "kafka"),
        ("uvloop", ["up"], "server"),
        ("pyspark", ["cluster"], "server"),
        ("scipy", ["lab", "list"], "lab"),
        ("pyspark", ["lab", "list"], "lab"),
        (
            "numba",
            ["plan", "survive", "9%", "for", "1h", "--brokers=3", "--rate=1/s", "--clients=1"],
            "lab",
        ),
    ],
)
def test_a_setting_or_command_names_the_extra_it_lacks(
    modules: str, words: list[str], extra: str, tmp_path: Path
) -> None:
    done = call_without(modules, *words, cwd=tmp_path)
    assert done.returncode == 2
    message, hint = done.stderr.splitlines()
    assert message == f"error: {EXTRAS[extra].title} is not installed"
    assert hint.strip() == f"pip install 'tocsin[{extra}]'"
    assert list(tmp_path.iterdir()) == []  # nothing was begun


def test_a_server_of_files_needs_no_other_extra() -> None:
    others = ",".join(
        module for name in EXTRAS if name != "server" for module in EXTRAS[name].modules
    )
    text = WITHOUT + "import tocsin.cluster.service, tocsin.broker.server, tocsin.coordinator"
    done = subprocess.run(
        [sys.executable, "-c", text, others], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_missing_library_that_is_not_optional_is_a_fault_of_ours(tmp_path: Path) -> None:
    done = call_without("msgspec", "settings", cwd=tmp_path)
    assert "Traceback" in done.stderr
