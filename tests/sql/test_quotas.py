"""Quotas as statements: what each reads as, and what is said of what makes no sense."""

from __future__ import annotations

from typing import Any

import pytest

from tocsin.errors import StatementError
from tocsin.model import EVERYBODY
from tocsin.sql import DropQuota, SetQuota, ShowQuotas, Statement, parse, parse_one


@pytest.mark.parametrize(
    ("text", "kind", "fields"),
    [
        (
            "SET QUOTA subscriptions = 100 FOR ROLE Nurses",
            SetQuota,
            {"quota": "subscriptions", "size": 100, "role": "nurses"},
        ),
        (
            "set quota Parameter_Sets=0 for everybody",
            SetQuota,
            {"quota": "parameter_sets", "size": 0, "role": EVERYBODY},
        ),
        (
            "SET QUOTA publications = 50 PER SECOND FOR ROLE everybody",
            SetQuota,
            {"quota": "publications", "size": 50, "role": "everybody"},
        ),
        (
            "SET QUOTA bytes = 1000000000000 PER SECOND FOR EVERYBODY",
            SetQuota,
            {"quota": "bytes", "size": 10**12, "role": EVERYBODY},
        ),
        ("DROP QUOTA connections FOR ROLE r", DropQuota, {"quota": "connections", "role": "r"}),
        ("DROP QUOTA bytes FOR EVERYBODY", DropQuota, {"quota": "bytes", "role": EVERYBODY}),
        ("SHOW QUOTAS", ShowQuotas, {"subscriber": None}),
        ("SHOW QUOTAS FOR SUBSCRIBER 'Ann'", ShowQuotas, {"subscriber": "Ann"}),
    ],
)
def test_statements_about_quotas(text: str, kind: type[Statement], fields: dict[str, Any]) -> None:
    statement = parse_one(text + ";")
    assert type(statement) is kind
    assert {name: getattr(statement, name) for name in fields} == fields


@pytest.mark.parametrize(
    ("text", "column", "message", "hint"),
    [
        ("SET subscriptions = 1 FOR EVERYBODY", 5, "expected QUOTA", None),
        ("SET QUOTA grants = 1 FOR EVERYBODY", 11, "subscriptions, parameter_sets, .* or", None),
        ("SET QUOTA connections = -1 FOR EVERYBODY", 25, "a whole number", None),
        ("SET QUOTA connections = 1.5 FOR EVERYBODY", 25, "a whole number", None),
        ("SET QUOTA bytes = 0 PER SECOND FOR EVERYBODY", 19, "1 to 1000000000000", None),
        ("SET QUOTA subscriptions = 1000000000001 FOR EVERYBODY", 27, "is 0 to 1000", None),
        ("SET QUOTA bytes = 5 FOR EVERYBODY", 21, "expected PER SECOND", "for each second"),
        ("SET QUOTA connections = 5 PER SECOND FOR EVERYBODY", 27, "counted", "leave PER SECOND"),
        ("SET QUOTA connections = 5 FOR nurses", 31, "expected ROLE or EVERYBODY", None),
        ("SET QUOTA connections = 5", 26, "expected FOR", None),
        ("DROP QUOTA IF EXISTS bytes FOR EVERYBODY", 12, "or connections", None),
        ("DROP QUOTA bytes FROM EVERYBODY", 18, "expected FOR", None),
        ("SHOW QUOTAS FOR nurses", 17, "expected SUBSCRIBER", None),
        ("SHOW QUOTAS FOR SUBSCRIBER ann", 28, "in quotes", None),
    ],
)
def test_what_makes_no_sense_is_told_with_its_place_and_the_fix(
    text: str, column: int, message: str, hint: str | None
) -> None:
    with pytest.raises(StatementError, match=message) as refused:
        parse(text)
    assert (refused.value.line, refused.value.column) == (1, column)
    if hint is not None:
        assert hint in (refused.value.hint or "")
