"""`tocsin lab admission`: the authors' file gives their hit rates; mistakes are told in words."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tocsin.cli import main

Say = Callable[..., tuple[int, str, str]]
AUTHORS = Path(__file__).parents[1] / "policies" / "data" / "cs237_test1000_1.csv"


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Say:
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tocsin", "lab", "admission", *words])
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


@pytest.mark.parametrize(
    ("policy", "hit_rate", "duplication_factor"),
    [
        ("none", 0.0, 1.0),
        ("threshold(0.3,0.2)", 0.309, 614 / 309),
        ("mean(50)", 0.549, 1076 / 549),
        ("buffer(0.5,0.5)", 0.754, 1281 / 754),
        ("all", 1.0, 1.527),
    ],
)
def test_authors_file_gives_the_papers_hit_rates(
    say: Say, policy: str, hit_rate: float, duplication_factor: float
) -> None:
    code, out, _ = say("replay", str(AUTHORS), "--policy", policy, "--json")
    row = json.loads(out)
    assert code == 0
    assert row["policy"] == policy
    assert row["hit_rate"] == hit_rate
    assert row["admitted"] == round(1000 * hit_rate)
    assert row["duplication_factor"] == pytest.approx(duplication_factor)
    assert row["hits"] + row["misses"] == row["deliveries"] == 1527


def test_table_shows_the_papers_five_policies(say: Say) -> None:
    code, out, _ = say("replay", str(AUTHORS))
    lines = [line.split("\t") for line in out.splitlines()]
    assert code == 0
    assert lines[0][:4] == ["policy", "hit rate", "admitted", "duplication factor"]
    assert [line[0] for line in lines[1:]] == [
        "none",
        "threshold(0.3,0.2)",
        "mean(50)",
        "buffer(0.5,0.5)",
        "all",
    ]
    assert [line[2] for line in lines[1:]] == ["0", "309", "549", "754", "1,000"]


def test_made_records_can_be_replayed(say: Say) -> None:
    words = ["--set", "records=300", "--set", "consumers=50", "--set", "restaurants=20"]
    code, _, told = say("make", "crowd.csv", "--crowd", "--subscriptions", "wanted.csv", *words)
    assert code == 0
    assert "300 records for 50 consumers: crowd.csv" in told
    sizes = ["--set", "restaurants=20", "--set", "foods=20", "--set", "discounts=5"]
    code, out, told = say(
        "replay", "crowd.csv", "--subscriptions", "wanted.csv", "--policy", "all", "--json", *sizes
    )
    assert code == 0, told
    row = json.loads(out)
    assert row["records"] + row["unmatched"] == 300
    assert row["hit_rate"] == 1.0


def test_records_for_nobody_are_told(say: Say) -> None:
    Path("some.csv").write_text("1,10001\n0,11001\n")
    code, _, told = say("replay", "some.csv", "--policy", "all")
    assert code == 0
    assert "1 records are for nobody" in told


def test_settings_reach_records_and_logs(say: Say) -> None:
    words = ["--set", "log_read_s=2", "--set", "size_bytes=7", "--policy", "all", "--json"]
    _, out, _ = say("replay", str(AUTHORS), *words)
    row = json.loads(out)
    assert row["admitted_bytes"] == 7 * 1527
    assert row["latency_mean_s"] > 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["AUTHORS", "--policy", "magic"], ["no admission policy is called 'magic'", "threshold"]),
        (["AUTHORS", "--policy", "lru"], ["'lru'", "admission policies: all, buffer"]),
        (["AUTHORS", "--policy", "threshold(1,2,3)"], ["lambda, mu", "write threshold(0.2, 0.8)"]),
        (["AUTHORS", "--policy", "threshold(1,x)"], ["mu is 'x'"]),
        (["AUTHORS", "--policy", "mean(0)"], ["batch is '0'", "at least 1"]),
        (["AUTHORS", "--policy", "evict=lru"], ["is not a policy of admission"]),
        (["AUTHORS", "--set", "people=3"], ["no setting 'people'", "one of"]),
        (["AUTHORS", "--set", "records=3"], ["records cannot be set", "the file tells"]),
        (["AUTHORS", "--set", "batch=0"], ["batch is 0"]),
        (["AUTHORS", "--subscriptions", "bad.csv"], ["bad.csv, line 2, column 2 (bitmap)"]),
        (["nowhere.csv"], ["nowhere.csv cannot be read", "No such file"]),
        (["empty.csv"], ["empty.csv has no records"]),
        (["bad.csv"], ["bad.csv, line 1, column 1 (producer): 'S0'"]),
        (["cut.csv"], ["cut.csv, line 2, column 2 (bitmap): '100' has 3 bits, not 5"]),
        (["columns.csv"], ["columns.csv, line 1 has 3 columns", "producer,bitmap"]),
        (["."], ["cannot be read"]),
    ],
)
def test_mistake_is_told_in_words(say: Say, words: list[str], told: list[str]) -> None:
    Path("empty.csv").touch()
    Path("bad.csv").write_text("S0,10001\nS1,1000\n")
    Path("cut.csv").write_text("1,10001\n0,100")
    Path("columns.csv").write_text("1,10001,7\n")
    given = [str(AUTHORS) if word == "AUTHORS" else word for word in words]
    code, _, output = say("replay", *given)
    assert code in (1, 2)
    assert "Traceback" not in output
    for text in told:
        assert text in output


def test_file_that_exists_is_not_written_over(say: Say) -> None:
    Path("there.csv").write_text("mine")
    code, _, told = say("make", "there.csv")
    assert code == 1
    assert "there.csv exists already" in told
    assert Path("there.csv").read_text() == "mine"
