"""Jars come in whole sets or not at all. The repository is a small web server of the test's own."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tocsin.errors import Unavailable
from tocsin.spark import jars
from tocsin.spark.jars import JarSet

pytestmark = pytest.mark.processes
WANTED = JarSet("few", ("org.one:first:1.0", "org.two:second_2.13:2.0-3"))
FIRST = "/org/one/first/1.0/first-1.0.jar"
SECOND = "/org/two/second_2.13/2.0-3/second_2.13-2.0-3.jar"
FETCH = """
import sys
from pathlib import Path
from tocsin.spark import jars
jars.jar_directory = lambda: Path(sys.argv[1])
jars.JarSet("few", tuple(sys.argv[2:])).fetch()
"""


class Repository:
    """Serves files, counts who asked for them, and can keep everybody waiting."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.open = threading.Event()
        self.open.set()
        self.waiting = threading.Event()
        repository = self

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self._answer(body=False)

            def do_GET(self) -> None:
                repository.asked.append(self.path)
                self._answer(body=True)

            def _answer(self, *, body: bool) -> None:
                known = repository.files.get(self.path)
                self.send_response(200 if known is not None else 404)
                self.send_header("Content-Length", str(len(known or b"")))
                self.end_headers()
                if body and known is not None:
                    self.wfile.write(known[:1])
                    self.wfile.flush()
                    repository.waiting.set()
                    repository.open.wait()
                    self.wfile.write(known[1:])

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/"

    def has(self, path: str, content: bytes) -> None:
        self.files[path] = content
        self.files[path + ".sha1"] = hashlib.sha1(content).hexdigest().encode()

    def close(self) -> None:
        self.open.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    served = Repository()
    served.has(FIRST, b"the first jar")
    served.has(SECOND, b"the second jar")
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", served.url)
    monkeypatch.setattr(jars, "jar_directory", lambda: tmp_path)
    monkeypatch.setattr(jars, "ATTEMPTS", 1)
    yield served
    served.close()


def fetching(directory: Path) -> subprocess.Popen[bytes]:
    """Another process that fetches the same set, in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", FETCH, str(directory), *WANTED.coordinates], start_new_session=True
    )


def left_in(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir() if path.name != ".lock")


def test_processes_that_fetch_at_once_get_the_jars_and_fetch_them_once(
    repository: Repository, tmp_path: Path
) -> None:
    assert WANTED.paths() == []
    others = [fetching(tmp_path) for _ in range(2)]
    told = list[tuple[int, int]]()
    paths = WANTED.fetch(lambda done, total: told.append((done, total)))
    assert [other.wait() for other in others] == [0, 0]
    assert [path.read_bytes() for path in paths] == [b"the first jar", b"the second jar"]
    assert paths == WANTED.paths()
    assert repository.asked.count(FIRST) == repository.asked.count(SECOND) == 1
    assert told in ([], [(0, 2), (1, 2), (2, 2)])
    assert left_in(tmp_path) == [WANTED.directory.name]

    # One that was lost is fetched again with its set.
    paths[0].unlink()
    assert WANTED.paths() == []
    WANTED.fetch(lambda done, total: told.append((done, total)))
    assert len(WANTED.paths()) == 2
    assert told[-1] == (2, 2)


def test_a_jar_that_is_not_there_or_damaged_leaves_nothing(
    repository: Repository, tmp_path: Path
) -> None:
    repository.files[SECOND] += b"?"
    with pytest.raises(Unavailable, match="invalid sha1"):
        WANTED.fetch()
    assert left_in(tmp_path) == []
    del repository.files[SECOND]
    with pytest.raises(Unavailable, match=r"not found.*second"):
        WANTED.fetch()
    assert left_in(tmp_path) == []


def test_a_killed_download_leaves_nothing_that_is_taken_for_whole(
    repository: Repository, tmp_path: Path
) -> None:
    repository.open.clear()
    killed = fetching(tmp_path)
    assert repository.waiting.wait(60)
    os.killpg(killed.pid, 9)
    killed.wait()
    repository.open.set()
    assert WANTED.paths() == []
    assert len(WANTED.fetch()) == 2
    assert left_in(tmp_path) == [WANTED.directory.name]


def test_a_place_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(jars, "jar_directory", lambda: tmp_path / "file" / "jars")
    with pytest.raises(Unavailable, match="jars cannot be kept in"):
        WANTED.fetch()


def test_other_versions_are_another_set(repository: Repository, tmp_path: Path) -> None:
    newer = JarSet("few", ("org.one:first:1.1", WANTED.coordinates[1]))
    assert newer.directory != WANTED.directory


def test_every_pinned_set_names_each_jar_once() -> None:
    from tocsin.dev.kafka_jars import KAFKA

    for pinned in (jars.SPARK, KAFKA):
        names = [coordinate.split(":")[1] for coordinate in pinned.coordinates]
        assert len(set(names)) == len(names)
        assert all(coordinate.count(":") == 2 for coordinate in pinned.coordinates)
