"""`tocsin plan capacity`: what it shows, and what it refuses."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from lab.capacity.made import costs
from tocsin.cli import main
from tocsin.cli.values import count_from, rate_from, share_from
from tocsin.errors import InvalidInput
from tocsin.lab.capacity.costs import Costs, encode, reference

Say = Callable[..., tuple[int, str, str]]
WISH = ("--subscribers", "20k", "--records", "100/s")


@pytest.fixture
def say(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Say:
    monkeypatch.chdir(tmp_path)
    Path("costs.json").write_bytes(encode(costs()))

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["tocsin", "plan", "capacity", *words])
        with pytest.raises(SystemExit) as end:
            main()
        told = capsys.readouterr()
        return int(end.value.code or 0), told.out, told.err

    return run


def test_a_wish_that_fits_is_answered_part_by_part(say: Say) -> None:
    code, out, _ = say(*WISH, "--costs", "costs.json")
    assert code == 0
    rows = {line.split("\t")[0]: line.split("\t") for line in out.splitlines() if "\t" in line}
    assert list(rows) == [
        *("part", "cluster", "Spark", "log and Parquet", "store", "brokers", "coordinator"),
    ]
    assert rows["brokers"][1:3] == ["1", "1"]
    assert "cluster: cores = process 1 × 10k µs idle + runs/s 1 × 5k µs" in out
    assert "costs: costs.json, embedded, measured 2026-01-01 on 2 cores" in out
    assert "the next wall: Spark: one run at a time" in out
    assert "records/s (100 wished)" in out
    assert "cores =" not in say(*WISH, "--costs", "costs.json", "--no-formulas")[1]


def test_a_wish_beyond_a_wall_is_told_so_and_what_would_move_it(say: Say) -> None:
    words = ("--subscribers", "10M", "--records", "50k/s", "--costs", "costs.json")
    code, out, _ = say(*words)
    assert code == 0
    assert "none is enough" in out
    assert "wall: cluster: the cluster's process: Python runs on one core" in out
    assert "what moves it: several systems" in out
    plain = json.loads(say(*words, "--json")[1])
    assert plain["fits"] is False
    assert plain["machines"] is None
    assert plain["highest_records_per_s"] < 50_000
    [cluster] = [part for part in plain["parts"] if part["part"] == "cluster"]
    assert cluster["machines"] is None
    assert any(limit["passed"] for limit in cluster["limits"])


def test_costs_come_with_the_package_and_are_named_as_such(say: Say) -> None:
    code, out, _ = say(*WISH)
    assert code == 0
    assert "costs: a reference that comes with Tocsin, embedded, measured 20" in out
    plain = json.loads(say(*WISH, "--json")[1])
    assert plain["costs"]["reference"] is True
    assert plain["costs"]["machine"]["cores"] == reference("embedded").machine.cores


def test_a_profile_without_a_reference_says_how_to_measure_it(say: Say) -> None:
    code, out, err = say(*WISH, "--profile", "company")
    assert (code, out) == (1, "")
    assert "no costs of the profile company come with the package" in err
    assert "python -m bench.capacity --profile company" in err


def test_costs_that_say_little_are_told_as_such(say: Say) -> None:
    assert "note:" not in _notes(say, costs())
    busy = replace(costs(), machine=replace(costs().machine, others_cores=1.7))
    assert "was busy with other work" in _notes(say, busy)
    java = replace(costs().of("Java"), bytes_per_set=0)
    blind = replace(costs(), processes={**costs().processes, "Java": java})
    assert "Spark needs more than is shown" in _notes(say, blind)


def _notes(say: Say, given: Costs) -> str:
    Path("given.json").write_bytes(encode(given))
    sizes = ("--record-size", "300B", "--result-size", "300B")
    return say(*WISH, *sizes, "--costs", "given.json")[1]


def test_larger_records_than_were_measured_with_are_told(say: Say) -> None:
    assert (
        "note:"
        not in say(
            *WISH, "--costs", "costs.json", "--record-size", "300B", "--result-size", "300B"
        )[1]
    )
    assert "CPU was measured with records of 250 B" in say(*WISH, "--costs", "costs.json")[1]


@pytest.mark.parametrize(
    ("words", "field", "hint"),
    [
        (("--subscribers", "10m", "--records", "1/s"), "subscribers", "10M (millions)"),
        (("--subscribers", "-5", "--records", "1/s"), "subscribers", "10M"),
        (("--subscribers", "0", "--records", "1/s"), "subscribers", "more than 0"),
        (("--subscribers", "1k", "--records", "50k/y"), "records", "20k/s"),
        (("--subscribers", "1k", "--records", "0/s"), "records", "more than 0"),
        ((*WISH, "--record-size", "big"), "record-size", "2KB"),
        ((*WISH, "--record-size", "0"), "record-size", "2KB"),
        ((*WISH, "--online", "120%"), "online", "between 0 and 100 %"),
        ((*WISH, "--headroom", "0%"), "headroom", "more than 0"),
        ((*WISH, "--subscribers-per-set", "0.1"), "subscribers-per-set", "at least 1"),
        ((*WISH, "--keep-results", "a week"), "keep-results", "30d"),
        ((*WISH, "--fresh", "0s"), "fresh", "more than 0"),
        ((*WISH, "--memory", "0GB"), "memory", "2KB"),
        ((*WISH, "--cores", "none"), "cores", "such as 300"),
        ((*WISH, "--profile", "large"), "profile", "embedded, company"),
        ((*WISH, "--costs", "missing.json"), "costs", "python -m bench capacity"),
        ((*WISH, "--costs", "costs.json", "--profile", "company"), "costs", "--profile company"),
    ],
)
def test_a_wrong_wish_is_refused_with_its_field(
    say: Say, words: tuple[str, ...], field: str, hint: str
) -> None:
    code, out, err = say(*words)
    assert code == 1
    assert out == ""
    said = " ".join(err.split())
    assert field in said
    assert hint in said
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"{", "truncated"),
        (encode(replace(costs(), version=99)), "version 99"),
        (encode(replace(costs(), profile="vast")), "no profile 'vast'"),
        (encode(replace(costs(), processes={})), "Java, broker, cluster, coordinator"),
        (encode(replace(costs(), profile="company")), "Kafka, PostgreSQL"),
        (encode(costs()).replace(b'"us_per_record": 20', b'"us_per_record": -20'), ">= 0"),
        (encode(costs()).replace(b'"run_wait_s"', b'"run_wait_ms"'), "run_wait_ms"),
        (b"\xff", "malformed"),
    ],
)
def test_costs_that_cannot_be_used_are_refused(say: Say, content: bytes, why: str) -> None:
    Path("wrong.json").write_bytes(content)
    code, _, err = say(*WISH, "--costs", "wrong.json")
    assert code == 1
    said = " ".join(err.split())
    assert "wrong.json has no costs that can be used" in said
    assert why in said
    assert "python -m bench capacity" in said


@pytest.mark.parametrize(
    ("text", "value"), [("300", 300), ("50k", 50e3), ("1.5M", 1.5e6), ("2G", 2e9), (" 7 ", 7)]
)
def test_numbers_are_read(text: str, value: float) -> None:
    assert count_from(text, "n") == value


@pytest.mark.parametrize("text", ["", "ten", "10m", "1,000", "1e6", "-1", "10 M B", "nan", "∞"])
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        count_from(text, "n")


def test_rates_and_shares_are_read() -> None:
    assert rate_from("50k/s", "r") == 50e3
    assert rate_from("3M/h", "r") == pytest.approx(833.33, abs=0.01)
    assert rate_from("90/m", "r") == 1.5
    assert share_from("20%", "s") == share_from("0.2", "s") == 0.2
