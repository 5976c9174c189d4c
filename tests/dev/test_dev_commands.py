"""`tocsin dev`: servers that outlive the command, come back with their data, and go when told."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from real_servers import skip_or_fail
from tocsin.cli import main
from tocsin.dev.mariadb import MariaDB
from tocsin.dev.postgresql import PostgreSQL
from tocsin.dev.server import Server
from tocsin.dev.servers import Servers
from tocsin.dev.state import FILE
from tocsin.errors import Unavailable

pytestmark = pytest.mark.processes
Call = Callable[..., tuple[int, str, str]]


def words_of(*words: str) -> list[str]:
    return [sys.executable, "-m", "tocsin", "dev", *words]


def in_a_process(*words: str, cwd: Path) -> tuple[int, str, str]:
    done = subprocess.run(
        words_of(*words), cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Call:
    """`tocsin dev …` without the start of a process: exit code, output, errors."""
    monkeypatch.chdir(tmp_path)

    def called(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tocsin", "dev", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        code = ended.value.code
        assert isinstance(code, int)
        return code, *capsys.readouterr()

    return called


class Silent:
    def begin(self, what: str, total: int) -> None:
        pass

    def advance(self, count: int) -> None:
        pass


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A place that PostgreSQL's user cannot enter, as pytest's are; nothing is left running."""
    if reason := PostgreSQL.missing():
        skip_or_fail(reason)
    yield tmp_path
    if (tmp_path / "dev").exists():
        Servers(tmp_path / "dev").down([], Silent(), delete=True)


def server_in(folder: Path) -> Server:
    [server] = [one for one in Servers(folder / "dev").known() if one.name == "postgresql"]
    return server


def test_a_database_from_up_to_down(folder: Path, call: Call) -> None:
    code, out, err = in_a_process("up", "postgresql", "--data", "dev", cwd=folder)
    assert code == 0, err
    assert "starting PostgreSQL" in err
    found = re.fullmatch(
        r"postgresql +(postgresql\+psycopg://tocsin:\w+@127\.0\.0\.1:\d+/tocsin)\n", out
    )
    assert found is not None
    engine = create_engine(found[1])
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE t AS SELECT 7 AS a"))
    engine.dispose()

    # It is there already.
    code, again, err = call("up", "postgresql", "--data", "dev")
    assert (code, again) == (0, out)
    assert "running already" in err

    # It dies; it comes back as it was.
    server = server_in(folder)
    os.kill(server.processes["postgresql"].pid, signal.SIGKILL)
    assert server.processes["postgresql"].wait(60)
    assert "\tdied\t" in call("status", "--data", "dev")[1]
    [back] = Servers(folder / "dev").up(["postgresql"], Silent())
    assert back.url == found[1]
    with engine.begin() as connection:
        assert connection.execute(text("SELECT a FROM t")).scalar() == 7
    engine.dispose()
    assert "\trunning\t" in call("status", "--data", "dev")[1]

    # It goes, and while it is down another program takes its port.
    code, _, err = in_a_process("down", "--data", "dev", cwd=folder)
    assert code == 0
    assert "stopping PostgreSQL" in err
    assert not back.processes["postgresql"].alive
    with socket.create_server(("127.0.0.1", back.port)):
        [moved] = (
            Servers(folder / "dev").up([], Silent())
            if False
            else Servers(folder / "dev").up(["postgresql"], Silent())
        )
    assert moved.port != back.port
    home = (folder / "dev" / "postgresql").resolve()
    assert home.exists()

    # It goes for good.
    code, _, _ = call("down", "--data", "dev", "--delete")
    assert code == 0
    assert not moved.alive
    assert not home.exists()
    assert not (folder / "dev").exists()


def test_when_one_server_fails_the_others_of_that_call_are_stopped(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = list[bool]()

    def fail(server: MariaDB) -> None:
        seen.append(server_in(folder).alive)
        raise Unavailable("no MariaDB today")

    monkeypatch.setattr(MariaDB, "install", lambda *_: None)
    monkeypatch.setattr(MariaDB, "start", fail)
    with pytest.raises(Unavailable, match="no MariaDB today"):
        Servers(folder / "dev").up(["postgresql", "mariadb"], Silent())
    assert seen == [True]
    assert not server_in(folder).processes


def test_what_an_interrupted_up_had_started_is_gone(folder: Path) -> None:
    up = subprocess.Popen(
        words_of("up", "postgresql", "--data", "dev"),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    file = folder / "dev" / FILE
    deadline = time.monotonic() + 100
    while not (file.exists() and server_in(folder).processes):
        assert time.monotonic() < deadline
        assert up.poll() is None, up.stdout and up.stdout.read()
        time.sleep(0.005)
    process = server_in(folder).processes["postgresql"]
    up.send_signal(signal.SIGTERM)
    told, _ = up.communicate(timeout=100)
    if up.returncode == 0:  # it was quicker than the signal
        assert process.alive
    else:
        assert up.returncode == 143, told
        assert not process.alive
        assert not server_in(folder).processes


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["up", "oracle"], "no server is called 'oracle'"),
        (["down", "oracle"], "no server is called 'oracle'"),
        (["install", "oracle"], "kafka, postgresql, mariadb, s3, spark"),
        (["down"], "no servers were ever started in"),
        (["up", "--data", "a file"], "cannot use the data directory"),
        (["status", "--data", "damaged"], "is damaged"),
        (["up", "--data", "damaged"], "is damaged"),
        (["down", "--data", "damaged"], "is damaged"),
        (["status", "--data", "a file"], "cannot read"),
    ],
)
def test_mistake_is_told_in_words(
    words: list[str],
    told: str,
    tmp_path: Path,
    call: Call,
) -> None:
    (tmp_path / "a file").touch()
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / FILE).write_text("{")
    code, out, err = call(*words)
    assert code in (1, 2)
    assert out == ""
    assert told in err
    assert not (tmp_path / "tocsin-data").exists()
