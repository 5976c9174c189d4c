"""Wrong input on the command line ends in one clear message and a failing exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SECRET = "a secret that is long enough to sign with"
PLAN = ("plan", "survive", "9%", "for", "1h", "--brokers", "3", "--rate", "1", "--clients", "1")
FREE_BROKER = ("broker", "--port", "0", "--ws-port", "0")
ENVIRONMENT = {key: text for key, text in os.environ.items() if not key.startswith("TOCSIN_")}


def call(*words: str, cwd: Path) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "tocsin", *words],
        cwd=cwd,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["sql", "-e", "SHOW DATASETS"], "no token"),
        (["sql", "missing.sql"], "cannot read missing.sql"),
        (["publish", "d", "missing.csv"], "no file missing.csv"),
        (["publish", "d", "notes.docx", "--token", "t"], ".parquet"),
        (["listen", "channel", "word"], "NAME=VALUE"),
        (["listen"], "channel or to a --dataset"),
        (["listen", "channel", "--dataset", "reports"], "channel or to a --dataset"),
        (["listen", "channel", "--where", "n > 1"], "not conditions"),
        (["listen", "--dataset", "reports", "--from", "soon"], "10 minutes, or last 100"),
        (["token", "--scope", "admin"], "TOCSIN_SECRET"),
        (["up", "--cache", "lots"], "is not a size"),
        (["up", "--set", "nonsense"], "KEY=VALUE"),
        (["up", "--set", "nope=1"], "nope"),
        (["up", "--data", "notes.docx"], "notes.docx"),
        ([*FREE_BROKER, "--policy", "magic", "--set", f"secret={SECRET}"], "gdsf, lru, lsc,"),
        (["broker", "--set", "secret=short"], "at least 16"),
        (["coordinator", "--port", "99999", "--set", f"secret={SECRET}"], "from 0 to 65535"),
        (["settings", "--config", "missing.toml"], "missing.toml"),
        (["settings", "--set", "cache_bytes=-1"], "cache_bytes"),
        (["up", "--profile", "vast"], "embedded, company"),
        (["up", "--profile", "company"], "tocsin dev up"),
        (["up", "--log", "kafka://nowhere"], "kafka://127.0.0.1:9092"),
        (["up", "--store", "oracle://x"], "store"),
        (["up", "--master", "nonsense"], "spark://host:7077"),
        (["sql", "-e", "x", "--token", "t", "--cluster", "nonsense"], "not the address"),
        (["sql", ".", "--token", "t"], "cannot read ."),
        (["publish", "d", "notes.csv", "--token", "t", "--cluster", "ftp://x"], "not the address"),
        (["upload", "notes.docx", "--token", "t", "--cluster", "http://"], "not the address"),
        (["listen", "c", "--token", "t", "--coordinator", "nonsense"], "not the address"),
        ([*PLAN, "--picture", "missing/curve.png"], "its directory is missing"),
        (["lab", "simulate", "survival", "--picture", "."], "is a directory"),
        (["lab", "pages", "make", "missing/trace.csv"], "its directory is missing"),
        (["lab", "simulate", "survival", "--unpopular-rate", "-1"], "unpopular-rate"),
        (["demo", "--seconds", "-1"], "seconds"),
        (["frobnicate"], "frobnicate"),
        (
            ["sql", "-e", "SHOW DATASETS", "--token", "t", "--cluster", "http://127.0.0.1:9"],
            "answer",
        ),
    ],
)
def test_mistake_is_told_in_words(words: list[str], told: str, tmp_path: Path) -> None:
    for name in ("notes.docx", "notes.csv"):
        (tmp_path / name).write_text("no records")
    code, output = call(*words, cwd=tmp_path)
    assert code in (1, 2)
    assert told in output
    assert "Traceback" not in output


def test_token_and_settings_need_no_service(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    code, output = call("token", "--scope", "publish", "--data", ".", cwd=tmp_path)
    assert code == 0
    assert output.count(".") == 2
    code, output = call("settings", "--set", f"secret={SECRET}", cwd=tmp_path)
    assert code == 0
    assert SECRET not in output
    assert "cache_bytes" in output
