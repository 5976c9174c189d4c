"""The lab on the command line: a killed run goes on; Ctrl-C and mistakes are told in words."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from lab.made_up import table
from tocsin.cli import main
from tocsin.lab.experiments.edge_caching import EXPERIMENT
from tocsin.lab.spec.plan import Options, plan
from tocsin.lab.sweeps.points import Store, write_points

ENVIRONMENT = {key: text for key, text in os.environ.items() if not key.startswith("TOCSIN_")}
Say = Callable[..., tuple[int, str]]
TINY = ["--quick", "--bound-seeds", "0", "--sizes", "300KB,600KB", "--policies", "lru,ttl"]
TINY += ["--set", "subscribers=60", "--set", "backends=10", "--set", "hours=0.2"]
TINY += ["--master", "local[2]"]


def start(*words: str, cwd: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tocsin", "lab", *words],
        cwd=cwd,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def call(*words: str, cwd: Path) -> tuple[int, str]:
    process = start(*words, cwd=cwd)
    output, _ = process.communicate(timeout=240)
    return process.returncode, output


def batches(out: Path) -> list[Path]:
    return sorted((out / "finished").glob("*.json"))


def wait_for_points(process: subprocess.Popen[str], out: Path, count: int) -> None:
    deadline = time.monotonic() + 200
    while len(batches(out)) < count:
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "no points"
        time.sleep(0.02)


@pytest.mark.processes
@pytest.mark.timeout(600)
def test_killed_run_goes_on_and_ctrl_c_is_told(tmp_path: Path) -> None:
    """One run's life: kill -9, then Ctrl-C, then to the end; nothing is computed twice."""
    out = tmp_path / "out"
    words = ("run", "edge-caching", *TINY, "--seeds", "4", "--out", str(out))
    killed = start(*words, cwd=tmp_path)
    wait_for_points(killed, out, 2)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    kept = {path.name: path.read_bytes() for path in batches(out)}
    assert kept
    assert not (out / "points.parquet").exists()

    interrupted = start(*words, cwd=tmp_path)
    wait_for_points(interrupted, out, len(kept) + 2)
    os.killpg(interrupted.pid, signal.SIGINT)  # as a terminal does: to the whole group
    output, _ = interrupted.communicate(timeout=60)
    assert interrupted.returncode == 130, output
    assert "Traceback" not in output
    assert "of 32 points are finished and kept" in output
    assert "again to go on" in output
    before = pd.read_parquet(out / "points.parquet")
    assert len(before) < 32
    assert batches(out) == []

    code, output = call(*words, cwd=tmp_path)
    assert code == 0, output
    after = pd.read_parquet(out / "points.parquet")
    assert len(after) == 32
    same = before.merge(after)  # on all columns: also the time that each took
    assert len(same) == len(before)
    assert (out / "report.html").exists()
    assert not (out / "workloads").exists()

    code, output = call(*words, cwd=tmp_path)  # nothing is left to do
    assert code == 0
    assert "Spark" not in output
    (out / "report.html").unlink()
    code, output = call("report", str(out), cwd=tmp_path)
    assert code == 0
    assert "ttl-exceeds-limit" in output
    assert (out / "report.html").exists()


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Say:
    """`tocsin lab …` in this process: what it exits with, and all that it prints."""

    def call(cwd: Path, *words: str) -> tuple[int, str]:
        monkeypatch.chdir(cwd)
        monkeypatch.setattr(sys, "argv", ["tocsin", "lab", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return int(ended.value.code or 0), printed.out + printed.err

    return call


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with things in the way."""
    here = tmp_path_factory.mktemp("wrong")
    (here / "file").write_text("in the way")
    conditions = plan(EXPERIMENT, Options()).conditions
    (here / "other").mkdir()
    rows = table({"hit_ratio": lambda *_: 0.5}).to_dict("records")
    other = type(conditions)(experiment="other", quick=False, axis="size_bytes", variants={})
    write_points(here / "other", [{str(k): v for k, v in row.items()} for row in rows], other)
    with Store(here / "full", conditions):
        pass
    (here / "broken").mkdir()
    (here / "broken" / "points.parquet").write_bytes(b"not a table")
    (here / "empty").mkdir()
    return here


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["run", "edge-cashing"], ["edge-cashing", "edge-caching"]),
        (["run", "edge-caching", "--policies", "lru,magic"], ["magic", "policies", "return-rate"]),
        (["run", "edge-caching", "--policies", "mean"], ["policies", "admit=mean"]),
        (["run", "edge-caching", "--sizes", "lots"], ["'lots' is not a size", "sizes"]),
        (["run", "edge-caching", "--sizes=-5MB"], ["-5MB", "sizes"]),
        (["run", "edge-caching", "--sizes", "0"], ["0 is none of the sizes", "such as 1MB"]),
        (["run", "edge-caching", "--seeds", "0"], ["seeds", "1 or more"]),
        (["run", "edge-caching", "--seeds", "few"], ["seeds"]),
        (["run", "edge-caching", "--variants", "never"], ["never", "always, spread"]),
        (["run", "edge-caching", "--set", "skew"], ["FIELD=VALUE"]),
        (["run", "edge-caching", "--set", "people=5"], ["people", "subscribers"]),
        (["run", "edge-caching", "--set", "hours=soon"], ["hours"]),
        (["run", "edge-caching", "--set", "hours=-1"], ["hours", "-1"]),
        (["run", "edge-caching", "--set", "joining=spread"], ["--variants"]),
        (["run", "edge-caching", "--out", "file"], ["cannot write to file", "out"]),
        (["run", "edge-caching", "--out", "other"], ["experiment other", "--out"]),
        (["run", "edge-caching", "--out", "full", "--quick"], ["a full run", "--out"]),
        (["run", "edge-caching", "--out", "broken"], ["points.parquet", "remove it"]),
        (["run", "edge-caching", "--out", "new", "--master", "mars"], ["'mars'", "local[*]"]),
        (
            ["run", "edge-caching", "--out", "new", "--master", "spark://127.0.0.1:9"],
            ["no Spark master answers", "master"],
        ),
        (["run", "edge-caching", "--live"], ["not played live", "live"]),
        (["run", "kafka-admission", "--log", "kafka://h:1"], ["for a live run", "--live"]),
        (["run", "kafka-admission", "--store", "mariadb://h"], ["for a live run", "--live"]),
        (
            ["run", "overlay-testbed-load", "--live", "--log", "kafka://h:1"],
            ["has its own log", "leave --log out"],
        ),
        (
            ["run", "kafka-admission", "--live", "--out", "live", "--log", "kafka://127.0.0.1:x"],
            ["host:port", "log"],
        ),
        (
            ["run", "kafka-admission", "--live", "--out", "live", "--store", "oracle://h/d"],
            ["oracle", "store"],
        ),
        (["report", "nowhere"], ["no directory nowhere"]),
        (["report", "file"], ["no directory file"]),
        (["report", "empty"], ["no points.parquet", "tocsin lab run"]),
        (["report", "broken"], ["points.parquet", "remove it"]),
        (["report", "other"], ["no experiment 'other'"]),
    ],
)
def test_mistake_is_told_in_words(words: list[str], told: list[str], made: Path, say: Say) -> None:
    code, output = say(made, *words)
    assert code != 0
    assert "Traceback" not in output
    for text in told:
        assert text in output


def test_list_tells_about_every_experiment(tmp_path: Path, say: Say) -> None:
    code, output = say(tmp_path, "list")
    assert code == 0
    assert "edge-caching\t1800\t" in output


def test_how_to_run_it_live_is_told(tmp_path: Path, say: Say) -> None:
    code, output = say(tmp_path, "run", "kafka-admission", "--plan")
    assert code == 0
    assert "tocsin lab run kafka-admission --live" in output
    code, output = say(tmp_path, "run", "kafka-admission", "--live", "--quick", "--plan")
    assert code == 0
    assert output.startswith("28 live points")
    assert "--live" not in output
    _, output = say(tmp_path, "run", "overlay-testbed-slots", "--plan")
    assert "the same on seven live brokers: tocsin lab run overlay-testbed-slots" in output


def test_plan_is_told_without_running_it(tmp_path: Path, say: Say) -> None:
    words = ["--policies", "lru,admit=threshold(0.2,0.8) evict=lsc", "--seeds", "3"]
    code, output = say(tmp_path, "run", "edge-caching", *words, "--bound-seeds", "1", "--plan")
    assert code == 0
    assert output.startswith("140 points: 2 policies × 10 sizes × 3 seeds × variants always and")
    assert list(tmp_path.iterdir()) == []
