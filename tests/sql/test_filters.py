"""Filters as text: what is read, and what is said of what cannot be."""

from __future__ import annotations

import pytest

from tocsin.errors import StatementError
from tocsin.model import Column, Dataset
from tocsin.overlay.filters import as_text
from tocsin.sql import SubscribeToDataset, bind_filter, parse_filter, parse_one

REPORTS = Dataset(
    "reports",
    (
        Column("kind", "STRING"),
        Column("level", "INT"),
        Column("price", "DECIMAL(8,2)"),
        Column("lat", "DOUBLE"),
        Column("lon", "DOUBLE"),
        Column("tags", "ARRAY<STRING>"),
        Column("near", "BOOLEAN"),
    ),
)


def test_a_subscription_to_a_dataset() -> None:
    asked = parse_one(
        "SUBSCRIBE TO DATASET Reports WHERE Kind = 'flood'\n  AND level >= 3 ON west;"
    )
    assert isinstance(asked, SubscribeToDataset)
    assert (asked.dataset, asked.broker) == ("reports", "west")
    assert [(one.operator, one.name, one.line, one.column) for one in asked.where] == [
        ("=", "Kind", 1, 36),
        (">=", "level", 2, 7),
    ]
    assert as_text(bind_filter(asked.where, REPORTS)) == "kind = 'flood' AND level >= 3"


def test_without_a_filter_everything_is_subscribed_to() -> None:
    asked = parse_one("SUBSCRIBE TO DATASET reports")
    assert isinstance(asked, SubscribeToDataset)
    assert as_text(bind_filter(asked.where, REPORTS)) == ""


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("level==3 and Kind!='x'", "kind <> 'x' AND level = 3"),
        ("level > 3 AND level <= 99 AND level <> 5", "level BETWEEN 4 AND 99 AND level <> 5"),
        ("level IN (9, 1, 9)", "level IN (1, 9)"),
        ("price < 10", "price <= '9.99'"),
        ("price = '-0.5'", "price = '-0.50'"),
        ("kind LIKE '50\\%%'", r"kind LIKE '50\\%%'"),
        (
            "near = TRUE AND near(lat, lon, 1, -2, 5)",
            "near = TRUE AND near(lat, lon, 1.0, -2.0, 5.0)",
        ),
        ("near(1, 2, lat, lon, 5)", "near(lat, lon, 1.0, 2.0, 5.0)"),
        ("tags IS NULL AND kind IS NOT NULL", "kind IS NOT NULL AND tags IS NULL"),
        ("", ""),
    ],
)
def test_canonical_form(text: str, canonical: str) -> None:
    assert as_text(parse_filter(text, REPORTS)) == canonical


@pytest.mark.parametrize(
    ("text", "line", "column", "message", "field"),
    [
        ("level = 1 AND\n lever = 2", 2, 2, "has no column 'lever'", "lever"),
        ("level = 'high'", 1, 9, "expected INT, got 'high'", "level"),
        ("level = 3.5", 1, 9, "expected INT, got 3.5", "level"),
        ("level = 1 OR level = 2", 1, 11, "expected AND or the end of the filter", None),
        ("NOT level = 1", 1, 1, "expected a column", None),
        ("(level = 1)", 1, 1, "expected a column", None),
        ("level", 1, 6, "expected =, <>, <, <=, >, >=, BETWEEN, IN, LIKE or IS", None),
        ("level = NULL", 1, 9, "nothing compares with NULL", None),
        ("level IN (1, NULL)", 1, 14, "nothing compares with NULL", None),
        ("level IN ()", 1, 11, "expected a value", None),
        ("level BETWEEN 5 AND 3", 1, 1, "nothing could match", "level"),
        ("level > 3 AND level < 4", 1, 15, "nothing could match", "level"),
        ("level > 2147483647", 1, 1, "nothing could match", "level"),
        ("kind = 'a' AND kind LIKE '%b'", 1, 16, "nothing could match", "kind"),
        ("kind LIKE '%a' AND kind LIKE '%b'", 1, 20, "nothing could match", "kind"),
        ("kind IS NULL AND kind = 'a'", 1, 18, "nothing could match", "kind"),
        ("lat IS NULL AND near(lat, lon, 1, 2, 3)", 1, 17, "nothing could match", "lat"),
        ("kind LIKE 'a%b'", 1, 11, "more than a beginning, an end or a part", None),
        ("kind LIKE 'a_'", 1, 11, "more than a beginning, an end or a part", None),
        ("level LIKE '1%'", 1, 1, "LIKE is for STRING", "level"),
        ("tags = 'x'", 1, 1, "is not compared", "tags"),
        ("near(lat, lon, 1, 2)", 1, 5, "near takes the record's point", None),
        ("near(lat, 3, 1, 2, 3)", 1, 5, "near takes the record's point", None),
        ("near(lat, lon, 117, 33, 5)", 1, 16, "117 is no latitude", "near"),
        ("near(lat, lon, 1, 2, -5)", 1, 22, "a distance is 0 km or more", "near"),
        ("near(lat, lon, 1, 'x', 5)", 1, 19, "expected a number", "near"),
        ("near(kind, lon, 1, 2, 5)", 1, 6, "not a coordinate", "kind"),
        ("near(lat, long, 1, 2, 5)", 1, 11, "has no column 'long'", "long"),
        ("level = 1 level = 2", 1, 11, "expected AND or the end of the filter", None),
        ("level = 1 AND", 1, 14, "expected a column, found the end", None),
        ("kind = 'open", 1, 8, "is opened and never closed", None),
    ],
)
def test_what_is_wrong_is_told_with_its_place(
    text: str, line: int, column: int, message: str, field: str | None
) -> None:
    with pytest.raises(StatementError) as refused:
        parse_filter(text, REPORTS)
    assert message in refused.value.message
    assert (refused.value.line, refused.value.column) == (line, column)
    assert refused.value.field == field


def test_a_channel_may_be_called_dataset() -> None:
    assert not isinstance(parse_one("SUBSCRIBE TO dataset(1)"), SubscribeToDataset)
