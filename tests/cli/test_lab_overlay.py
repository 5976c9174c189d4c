"""`tocsin lab simulate overlay`: its numbers, and mistakes told in words."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tocsin.cli import main

Say = Callable[..., tuple[int, str, str]]
CALL = (
    "--brokers 7 --messages 25 --slots 6 --client-rate 0.2 --client-load 0.45 --policy leaf"
    " --runs 300 --json"
)
MEASURES = (
    "absorption_time", "hops", "responses", "delivered", "slots_searched", "delivery_ratio",
)  # fmt: skip


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Say:
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tocsin", "lab", "simulate", "overlay", *words])
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


def test_every_measure_with_its_half_width(say: Say) -> None:
    code, out, _ = say(*CALL.split())
    assert code == 0
    told = json.loads(out)
    for name in MEASURES:
        assert 0 < told[f"{name}_half_width"] < 0.2 * told[name]
    assert told["policy"] == "leaf"


def test_one_run_has_no_half_width(say: Say) -> None:
    code, out, _ = say("--runs", "1", "--json")
    assert code == 0
    assert json.loads(out)["absorption_time_half_width"] is None


def test_a_table_for_people_and_another_tree(say: Say, tmp_path: Path) -> None:
    (tmp_path / "star.toml").write_text('links = [["m", "a"], ["m", "b"], ["m", "c"]]')
    code, out, err = say("--tree", "star.toml", "--runs", "50", "--duration", "2")
    assert code == 0
    assert "delivery ratio" in out
    assert "still there when the runs ended" in err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--policy lru", "no policy of message caches is called 'lru'"),
        ("--runs 0", "runs is 0"),
        ("--brokers 0", "brokers is 0"),
        ("--client-load 0", "client load is 0.0"),
        ("--duration -1", "duration s is -1.0"),
        ("--tree nowhere.toml", "cannot read nowhere.toml"),
        ("--tree cycle.toml", "a cycle: a – b – c – a"),
        ("--tree pair.toml --brokers 7", "the tree has 2 brokers, not 7"),
    ],
)
def test_mistakes_are_told_in_words(say: Say, tmp_path: Path, words: str, told: str) -> None:
    (tmp_path / "cycle.toml").write_text('links = [["a", "b"], ["b", "c"], ["c", "a"]]')
    (tmp_path / "pair.toml").write_text('links = [["a", "b"]]')
    code, out, err = say(*words.split())
    assert code != 0
    assert out == ""
    assert told in " ".join(err.split())
    assert "Traceback" not in err
