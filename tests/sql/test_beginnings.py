"""Where a subscription begins: what is read, and what is refused where."""

from __future__ import annotations

import math

import pytest

from tocsin.errors import InvalidInput, StatementError
from tocsin.model import Beginning
from tocsin.sql import (
    CreateDataset,
    Subscribe,
    SubscribeToDataset,
    checked_beginning,
    parse_beginning,
    parse_one,
)


@pytest.mark.parametrize(
    ("clause", "wanted"),
    [
        ("", None),
        ("FROM '10 minutes'", Beginning(seconds=600.0)),
        ("from '1 hour 30 minutes'", Beginning(seconds=5400.0)),
        ("FROM INTERVAL 2 DAYS", Beginning(seconds=172_800.0)),
        ("FROM '10' SECONDS", Beginning(seconds=10.0)),
        ("FROM LAST 100", Beginning(last=100)),
    ],
)
def test_both_kinds_of_subscribing_may_say_where_to_begin(
    clause: str, wanted: Beginning | None
) -> None:
    for text in ("SUBSCRIBE TO fires('a')", "SUBSCRIBE TO DATASET reports WHERE n > 1"):
        for on in ("", "ON west"):
            for whole in (f"{text} {on} {clause}", f"{text} {clause} {on}"):
                asked = parse_one(whole)
                assert isinstance(asked, Subscribe | SubscribeToDataset)
                assert asked.beginning == wanted
                assert asked.broker == ("west" if on else None)


@pytest.mark.parametrize(
    ("clause", "column", "says"),
    [
        ("FROM", 5, "LAST"),
        ("FROM yesterday", 6, "LAST"),
        ("FROM 'yesterday'", 6, "interval"),
        ("FROM '0 minutes'", 6, "longer than nothing"),
        ("FROM '90000 weeks'", 6, "not a time to look back"),
        ("FROM LAST", 10, "how many"),
        ("FROM LAST x", 11, "how many"),
        ("FROM LAST 0", 6, "1 to 10000"),
        ("FROM LAST 10001", 6, "1 to 10000"),
        ("FROM LAST 1 FROM LAST 2", 13, "end of the statement"),
    ],
)
def test_a_beginning_that_cannot_be_read_is_told_where(clause: str, column: int, says: str) -> None:
    with pytest.raises(StatementError, match=says) as wrong:
        parse_one(f"SUBSCRIBE TO DATASET reports\n{clause}")
    assert (wrong.value.line, wrong.value.column) == (2, column)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("10 minutes", Beginning(seconds=600.0)),
        ("last 5", Beginning(last=5)),
        (" LAST  5 ", Beginning(last=5)),
    ],
)
def test_a_beginning_has_a_text_of_its_own(text: str, wanted: Beginning) -> None:
    assert parse_beginning(text) == wanted


@pytest.mark.parametrize("text", ["", "soon", "last", "last 0", "10", "-3 minutes", "'"])
def test_a_text_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as wrong:
        parse_beginning(text)
    assert not isinstance(wrong.value, StatementError)
    assert wrong.value.field == "from"
    assert wrong.value.hint


@pytest.mark.parametrize(
    "given",
    [
        Beginning(),
        Beginning(seconds=1.0, last=1),
        Beginning(seconds=0.0),
        Beginning(seconds=math.nan),
        Beginning(seconds=math.inf),
        Beginning(last=-1),
    ],
)
def test_data_that_make_no_sense_are_refused(given: Beginning) -> None:
    with pytest.raises(InvalidInput) as wrong:
        checked_beginning(given)
    assert wrong.value.field == "from"


def test_a_dataset_may_be_routed_once() -> None:
    made = parse_one("CREATE DATASET reports (n INT) ROUTED OPEN")
    assert isinstance(made, CreateDataset)
    assert (made.routed, made.open) == (True, True)
    plain = parse_one("CREATE DATASET reports (n INT)")
    assert isinstance(plain, CreateDataset)
    assert not plain.routed
    with pytest.raises(StatementError, match="each once"):
        parse_one("CREATE DATASET reports (n INT) ROUTED ROUTED")


def test_nobody_makes_a_filter_as_a_channel() -> None:
    with pytest.raises(StatementError, match="CONTINUOUS CHANNEL"):
        parse_one("CREATE FILTER CHANNEL f() AS SELECT 1 AS one")
