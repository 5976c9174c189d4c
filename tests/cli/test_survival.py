"""`tocsin lab model survival`, `lab simulate survival` and `plan survive`, and their mistakes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tocsin.cli import main

Say = Callable[..., tuple[int, str, str]]
PAPERS = (
    *("--brokers", "3", "--slots", "15", "--publication-rate", "1", "--client-rate", "0.1"),
    *("--client-load", "2", "--policy", "sel-sub-prt"),
)
CITY = ("--brokers", "7", "--rate", "0.8/s", "--clients", "2.5")


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Say:
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tocsin", *words])
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


@pytest.mark.parametrize(
    ("name", "brokers", "mst"),
    [
        ("exact", 1, 15.0),
        ("reduced", 1, 15.0),
        ("multi", 3, 18.319),
        ("balanced", 3, 22.173),
        ("wide", 3, 22.545),
    ],
)
def test_each_model_answers_scripts(say: Say, name: str, brokers: int, mst: float) -> None:
    words = [*PAPERS[:1], str(brokers), *PAPERS[2:], "--model", name, "--json"]
    code, out, _ = say("lab", "model", "survival", *words)
    assert code == 0
    told = json.loads(out)
    assert told["mst"] == pytest.approx(mst, rel=1e-3)
    assert told["p_loss"] == pytest.approx(0.1353**brokers, rel=1e-2)
    assert told["quantiles"]["0.25"] < told["quantiles"]["0.75"]
    assert told["curve"]["time_s"][0] == 0.0
    assert told["curve"]["survives"][-1] == pytest.approx(0.01, abs=0.002)


def test_a_simulation_answers_alike_with_half_widths(say: Say) -> None:
    words = ("lab", "simulate", "survival", *PAPERS, "--messages", "4000", "--seed", "3")
    code, out, err = say(*words, "--json")
    assert code == 0
    assert err.startswith("publications: 4")
    told = json.loads(out)
    assert told["mst"] == pytest.approx(22.1, abs=2 * told["mst_half_width"])
    assert told["mst_by_little"] == pytest.approx(22.1, abs=2 * told["mst_by_little_half_width"])
    assert {"p_loss", "quantiles", "curve", "replicas"} <= set(told)
    assert len(told["curve"]["half_width"]) == len(told["curve"]["survives"])
    code, out, _ = say(*words, "--picture", "curve.png")
    assert code == 0
    assert "mean survival time (s)\t2" in out
    assert "by Little's law" in out
    assert Path("curve.png").stat().st_size > 10_000


def test_two_classes_are_told_apart(say: Say) -> None:
    words = ("--unpopular-share", "0.5", "--unpopular-rate", "0.02", "--messages", "2000")
    code, out, _ = say("lab", "simulate", "survival", *words)
    assert code == 0
    assert "mean of popular messages" in out
    assert "mean of unpopular messages" in out


def test_a_plan_says_how_many_slots_and_is_checked(say: Say) -> None:
    wish = ("plan", "survive", "90%", "for", "60s", "--brokers", "3", "--rate", "1/s")
    words = (*wish, "--clients", "2", "--stay", "20s", "--message-size", "2KB")
    code, out, _ = say(*words, "--messages", "3000", "--json")
    assert code == 0
    told = json.loads(out)
    assert told["survives"] >= 0.9
    assert told["bytes"] == 2000 * told["slots"]
    assert len(told["others"]) == 7
    for one in told["others"]:
        assert one["reason"] or one["slots"] >= told["slots"] * 0.9
    code, out, _ = say(*words, "--policy", "all-fld-nop,sel-sub-prt", "--messages", "3000")
    assert code == 0
    assert out.startswith("policy\tslots\tbytes\tsurvive 60s, model\tsimulated\tmean (s)\n")
    assert "simulated messages survive 60s" in out


def test_what_first_come_first_served_needs_is_known(say: Say) -> None:
    """A message is pushed out by the k-th after it: a sum of k exponentials, 95 % of it above
    100 s at λb = 1, is one of 118."""
    wish = ("plan", "survive", "95%", "for", "100s", "--brokers", "2", "--rate", "1/s")
    words = ("--clients", "2", "--policy", "all-fld-nop", "--messages", "6000", "--json")
    told = json.loads(say(*wish, *words)[1])
    assert told["slots"] == pytest.approx(118, abs=4)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["lab", "model", "survival", "--brokers", "0"], "brokers is 0"),
        (["lab", "model", "survival", "--policy", "lru"], "called 'lru'"),
        (["lab", "model", "survival", "--model", "guess"], "one of exact, reduced"),
        (["lab", "model", "survival", "--model", "exact"], "of 1 broker, not 3"),
        (["lab", "model", "survival", "--client-load", "0"], "client load is 0.0"),
        (["lab", "model", "survival", "--client-load", "-1"], "client load is -1.0"),
        (["lab", "model", "survival", "--client-load", "nan"], "client load is nan"),
        (["lab", "model", "survival", "--publication-rate", "0"], "publication rate is 0.0"),
        (["lab", "model", "survival", "--slots", "400"], "--model wide"),
        (["lab", "model", "survival", "--copying", "some"], "every or first"),
        (["lab", "model", "survival", "--start", "printed"], "stationary or binomial"),
        (["lab", "model", "survival", "--picture", "no/where.png"], "cannot draw into"),
        (["lab", "simulate", "survival", "--messages", "0"], "messages is 0"),
        (["lab", "simulate", "survival", "--unpopular-share", "0.5"], "unpopular rate is 0.0"),
        (["plan", "survive", "99%", "during", "1h", *CITY], "plan survive 99% for 1h"),
        (["plan", "survive", "most", "for", "1h", *CITY], "'most' is not a share"),
        (["plan", "survive", "100%", "for", "1h", *CITY], "between 0 and 100 %"),
        (["plan", "survive", "99%", "for", "long", *CITY], "'long' is not a duration"),
        (["plan", "survive", "99%", "for", "0s", *CITY], "for 0 s"),
        (["plan", "survive", "99%", "for", "1h", *CITY, "--stay", "0s"], "clients stay for 0s"),
        (
            ["plan", "survive", "99%", "for", "1h", *CITY[:4], "--clients", "0"],
            "clients is 0",
        ),
        (
            ["plan", "survive", "99%", "for", "1h", *CITY[:4], "--clients", "-2"],
            "clients is -2",
        ),
        (
            ["plan", "survive", "99%", "for", "1h", *CITY[:2], "--rate", "0/h", *CITY[4:]],
            "nothing is published at 0/h",
        ),
        (
            ["plan", "survive", "99%", "for", "1h", "--brokers", "0", *CITY[2:]],
            "brokers is 0",
        ),
        (["plan", "survive", "200%", "for", "1h", *CITY], "between 0 and 100 %"),
        (["plan", "survive", "99%", "for", "1h", *CITY, "--policy", "lru"], "called 'lru'"),
        (["plan", "survive", "99%", "for", "1h", *CITY, "--policy", "leaf"], "no model of leaf"),
        (
            ["plan", "survive", "99%", "for", "1h", *CITY[:2], "--rate", "fast", *CITY[4:]],
            "'fast' is not a rate",
        ),
        (
            ["plan", "survive", "99%", "for", "1h", *CITY, "--message-size", "big"],
            "'big' is not a size",
        ),
        (["plan", "survive", "99%", "for", "1h", *CITY, "--message-size", "0"], "a message of '0'"),
    ],
)
def test_mistakes_are_told_in_words(say: Say, words: list[str], told: str) -> None:
    code, out, err = say(*words)
    assert code != 0
    assert not out
    assert told in err.replace("\n", " ")


def test_a_wish_that_no_cache_can_meet_is_refused_with_the_reason(say: Say) -> None:
    wish = ("plan", "survive", "99%", "for", "1h", "--brokers", "2", "--rate", "1/s")
    code, _, err = say(*wish, "--clients", "1", "--policy", "sel-sub-prt,sel-fld-nop")
    assert code == 1
    assert "13.53% of the messages have no client when published" in err
    assert "all-" in err
