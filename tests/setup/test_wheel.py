"""What `pip install tocsin` gives: the client and its commands, small, and whole by itself."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from setup.installation import ROOT, Environment

pytestmark = pytest.mark.processes
LIMIT_BYTES = 25_000_000
TOKEN = ("--token", "t")
NOWHERE = "http://127.0.0.1:9"


def test_the_wheel_holds_every_file_of_the_package(wheel: Path) -> None:
    here = {
        file.relative_to(ROOT / "src").as_posix()
        for file in (ROOT / "src" / "tocsin").rglob("*")
        if file.is_file() and file.suffix != ".pyc"
    }
    with zipfile.ZipFile(wheel) as opened:
        packed = {name for name in opened.namelist() if ".dist-info/" not in name}
    assert packed == here


def test_the_client_is_small_and_needs_nothing_undeclared(client: Environment) -> None:
    assert "No broken requirements" in client.check()
    assert client.size_bytes() < LIMIT_BYTES


def test_the_client_imports_without_any_extra(client: Environment, tmp_path: Path) -> None:
    text = "import tocsin.client, tocsin; print(tocsin.__file__)"
    done = client.run(str(client.python), "-c", text, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(client.site)


@pytest.mark.parametrize("words", [["--help"], ["lab", "--help"], ["up", "--help"], ["version"]])
def test_help_needs_no_extra(client: Environment, tmp_path: Path, words: list[str]) -> None:
    done = client.run(str(client.command), *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["sql", "-e", "SHOW DATASETS", "--cluster", NOWHERE, *TOKEN],
        ["publish", "reports", "records.json", "--cluster", NOWHERE, *TOKEN],
        ["upload", "records.json", "--cluster", NOWHERE, *TOKEN],
    ],
)
def test_client_commands_reach_out_without_any_extra(
    client: Environment, tmp_path: Path, words: list[str]
) -> None:
    (tmp_path / "records.json").write_text(json.dumps({"id": 1}))
    done = client.run(str(client.command), *words, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert done.stderr.startswith("error: ")
    assert "answer" in done.stderr
    assert "Traceback" not in done.stderr


def test_listening_needs_no_extra(client: Environment, tmp_path: Path) -> None:
    words = ["listen", "alerts", "--from", "10 minutes", "--coordinator", "nonsense", *TOKEN]
    done = client.run(str(client.command), *words, cwd=tmp_path)
    assert done.returncode == 1
    assert "not the address" in done.stderr
    assert "Traceback" not in done.stderr


def test_token_and_settings_need_no_extra(client: Environment, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("a secret that is long enough to sign with")
    words = ["token", "--scope", "publish", "--data", "."]
    done = client.run(str(client.command), *words, cwd=tmp_path)
    assert (done.returncode, done.stdout.count(".")) == (0, 2)
    assert client.run(str(client.command), "settings", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["up"], "server"),
        (["broker"], "server"),
        (["demo"], "server"),
        (["repair"], "server"),
        (["backup", "there"], "server"),
        (["dev", "status"], "server"),
        (["lab", "list"], "lab"),
        (["lab", "simulate", "survival"], "lab"),
    ],
)
def test_a_command_names_the_extra_it_lacks(
    client: Environment, tmp_path: Path, words: list[str], extra: str
) -> None:
    done = client.run(str(client.command), *words, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == f"error: the {extra} is not installed\n  pip install 'tocsin[{extra}]'\n"
    assert list(tmp_path.iterdir()) == []


def test_the_client_names_the_extra_that_consumer_logs_need(
    client: Environment, tmp_path: Path
) -> None:
    text = (
        "from tocsin.errors import NotInstalled\n"
        "try:\n    from tocsin.client import consumer_log\n"
        "except NotInstalled as error:\n    print(error.hint)"
    )
    done = client.run(str(client.python), "-c", text, cwd=tmp_path)
    assert done.stdout.strip() == "pip install 'tocsin[kafka]'", done.stderr


def test_an_installed_package_keeps_jars_in_the_users_cache(
    client: Environment, tmp_path: Path
) -> None:
    (tmp_path / "pyproject.toml").touch()  # somebody's project, with its environment inside
    text = "from tocsin.cache_directory import cache_directory; print(cache_directory())"
    done = client.run(
        str(client.python), "-c", text, cwd=tmp_path, XDG_CACHE_HOME=str(tmp_path / "cache")
    )
    assert done.stdout.strip() == str(tmp_path / "cache" / "tocsin")
