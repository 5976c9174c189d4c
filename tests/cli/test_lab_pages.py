"""`tocsin lab pages`: steps as they happened, sums that fit, mistakes told by row and field."""

from __future__ import annotations

import csv
import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from tocsin.cli import main

Say = Callable[..., tuple[int, str, str]]
HEADER = "operation,page,size,subscriptions,notification\n"
TRACE = (
    HEADER
    + """\
publish,a,2,3,
request,a,2,,1
request,b,3,0,0
request,c,3,0,0
publish,d,4,6,0
publish,e,2,0,0
publish,f,8,1,0
request,g,9,0,1
"""
)


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Say:
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tocsin", "lab", "pages", *words])
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


def steps() -> list[tuple[str, str]]:
    with Path("steps.csv").open() as file:
        header, *rows = csv.reader(file)
    assert header == ["outcome", "evicted"]
    return [(outcome, evicted) for outcome, evicted in rows]


def test_each_operation_is_a_row_with_who_left_and_from_where(say: Say) -> None:
    Path("trace.csv").write_text(TRACE)
    words = ("--policy", "dc", "--capacity", "8", "--steps", "steps.csv", "--json")
    code, out, err = say("replay", "trace.csv", *words)
    assert (code, err) == (0, "")
    assert steps() == [
        ("stored", ""),
        ("hit", ""),  # moves to the access portion: push 2, access 6
        ("miss-stored", ""),
        ("miss-stored", "b:access"),
        ("stored", "a:access"),  # a is stale, and its 2 bytes are what d lacks
        ("none", ""),
        ("aborted", ""),
        ("miss-not-stored", ""),
    ]
    assert json.loads(out) == {
        "policy": "dc",
        "capacity": 8,
        "requests": 4,
        "hits": 1,
        "hit_ratio": 0.25,
        "byte_hit_ratio": 2 / 17,
        "stored": 2,
        "aborted": 1,
        "miss_stored": 2,
        "miss_not_stored": 1,
        "evicted": 2,
    }


def test_a_cache_that_is_not_divided_tells_pages_alone(say: Say) -> None:
    Path("trace.csv").write_text(TRACE)
    assert say("replay", "trace.csv", "--policy", "sg1", "--capacity", "8", "--steps", "steps.csv")
    assert ("stored", "b c") in steps()


def test_parquet_gives_the_same_steps(say: Say) -> None:
    Path("trace.csv").write_text(TRACE)
    pd.read_csv("trace.csv").fillna(0).to_parquet("trace.parquet")
    told = []
    for file in ("trace.csv", "trace.parquet"):
        assert say("replay", file, "--policy", "hug", "--capacity", "8", "--steps", "steps.csv")
        told.append(steps())
    assert told[0] == told[1]


def test_sums_are_those_of_the_steps_also_when_they_are_compiled(
    say: Say, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, _, err = say("make", "made.csv", "--server", "3", "--set", "requests=20000")
    assert code == 0
    assert "requests" in err
    answers = []
    for long in (10**9, 0):
        monkeypatch.setattr("tocsin.lab.simulators.page_cache.replay.LONG", long)
        words = ("--policy", "dc-ta(0.25)", "--capacity", "20KB", "--steps", "steps.csv", "--json")
        code, out, _ = say("replay", "made.csv", *words)
        answers.append((steps(), json.loads(out)))
    assert answers[0] == answers[1]
    rows, told = answers[0]
    count = Counter(outcome for outcome, _ in rows)
    assert told["hits"] == count["hit"]
    assert told["stored"] == count["stored"]
    assert told["aborted"] == count["aborted"]
    assert told["evicted"] == sum(len(evicted.split()) for _, evicted in rows)
    assert told["requests"] == count["hit"] + count["miss-stored"] + count["miss-not-stored"]
    assert told["hits"] > 10


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("fetch,a,2,3,", "row 2: operation is 'fetch'"),
        (",a,2,3,", "row 2: operation is nothing"),
        ("publish,,2,3,", "row 2: page is nothing"),
        ("publish,a b,2,3,", "row 2: page is 'a b'"),
        ("publish,a,0,3,", "row 2: size is '0'"),
        ("publish,a,-1,3,", "row 2: size is '-1'"),
        ("publish,a,two,3,", "row 2: size is 'two'"),
        ("request,a,,,1", "row 2: size is nothing"),
        ("publish,a,1.5,3,", "row 2: size is '1.5'"),
        ("publish,a,2,-1,", "row 2: subscriptions is '-1'"),
        ("publish,a,2,,", "row 2: subscriptions is nothing"),
        ("request,a,2,,2", "row 2: notification is '2'"),
        ("request,a,2,,", "row 2: notification is nothing"),
        ("request,a,2,,yes", "row 2: notification is 'yes'"),
    ],
)
def test_a_wrong_row_is_told_with_its_field(say: Say, row: str, told: str) -> None:
    Path("trace.csv").write_text(f"{HEADER}publish,x,1,1,\n{row}\n")
    code, out, err = say("replay", "trace.csv", "--policy", "dc", "--capacity", "8", "--json")
    assert code != 0
    assert out == ""
    assert told in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("trace.csv", "--policy", "best", "--capacity", "8"), "'best'"),
        (("trace.csv", "--policy", "dc-ta(2)", "--capacity", "8"), "phi is '2'"),
        (("trace.csv", "--policy", "dc", "--capacity", "-8"), "the capacity is '-8'"),
        (("trace.csv", "--policy", "dc", "--capacity", "much"), "the capacity is 'much'"),
        (("nowhere.csv", "--policy", "dc", "--capacity", "8"), "there is no file nowhere.csv"),
        (("bad.csv", "--policy", "dc", "--capacity", "8"), "has no column 'size'"),
        (("empty.csv", "--policy", "dc", "--capacity", "8"), "empty.csv is empty"),
        (("bad.parquet", "--policy", "dc", "--capacity", "8"), "cannot read bad.parquet"),
        (
            ("trace.csv", "--policy", "dc", "--capacity", "8", "--steps", "no/where.csv"),
            "cannot write no/where.csv",
        ),
    ],
)
def test_mistakes_are_told_in_words(say: Say, words: tuple[str, ...], told: str) -> None:
    Path("trace.csv").write_text(TRACE)
    Path("bad.csv").write_text("operation,page,bytes,subscriptions,notification\n")
    Path("empty.csv").write_text("")
    Path("bad.parquet").write_text(TRACE)
    code, out, err = say("replay", *words)
    assert code != 0
    assert out == ""
    assert told in err.replace("\n", " ")
    assert "Traceback" not in err


def test_a_trace_without_rows_has_no_steps(say: Say) -> None:
    Path("trace.csv").write_text(HEADER)
    words = ("--policy", "dc", "--capacity", "8", "--steps", "steps.csv", "--json")
    code, out, _ = say("replay", "trace.csv", *words)
    assert code == 0
    assert steps() == []
    assert json.loads(out)["hit_ratio"] == 0


def test_made_traces_do_not_overwrite(say: Say) -> None:
    Path("made.csv").write_text("mine")
    code, _, err = say("make", "made.csv")
    assert code != 0
    assert "exists already" in err
    assert Path("made.csv").read_text() == "mine"
