"""Roles and grants as statements: what each reads as, and what is said of what makes no sense."""

from __future__ import annotations

from typing import Any

import pytest

from tocsin.errors import StatementError
from tocsin.sql import (
    CreateRole,
    Drop,
    GrantPrivileges,
    RevokePrivileges,
    Show,
    ShowGrants,
    Statement,
    parse,
    parse_one,
)


@pytest.mark.parametrize(
    ("text", "kind", "fields"),
    [
        ("CREATE ROLE Nurses", CreateRole, {"name": "nurses", "if_not_exists": False}),
        ("create role if not exists r", CreateRole, {"name": "r", "if_not_exists": True}),
        ("DROP ROLE r", Drop, {"kind": "role", "name": "r", "if_exists": False}),
        ("DROP ROLE IF EXISTS r", Drop, {"kind": "role", "name": "r", "if_exists": True}),
        (
            "GRANT SUBSCRIBE ON CHANNEL Alerts TO Nurses",
            GrantPrivileges,
            {"privileges": ("subscribe",), "name": "alerts", "role": "nurses"},
        ),
        (
            "grant publish, read\n on dataset d to r",
            GrantPrivileges,
            {"privileges": ("publish", "read"), "name": "d", "role": "r"},
        ),
        (
            "REVOKE READ ON DATASET d FROM r",
            RevokePrivileges,
            {"privileges": ("read",), "name": "d", "role": "r"},
        ),
        ("SHOW GRANTS", ShowGrants, {"role": None}),
        ("SHOW GRANTS FOR R", ShowGrants, {"role": "r"}),
        ("SHOW ROLES", Show, {"what": "roles"}),
    ],
)
def test_statements_about_roles(text: str, kind: type[Statement], fields: dict[str, Any]) -> None:
    statement = parse_one(text + ";")
    assert type(statement) is kind
    assert {name: getattr(statement, name) for name in fields} == fields


def test_they_stand_among_others() -> None:
    text = "CREATE ROLE r; GRANT READ ON DATASET d TO r; SHOW GRANTS FOR r; DROP ROLE r"
    kinds = [type(statement) for statement in parse(text)]
    assert kinds == [CreateRole, GrantPrivileges, ShowGrants, Drop]


@pytest.mark.parametrize(
    ("text", "column", "message", "hint"),
    [
        ("GRANT SUBSCRIBE ON DATASET d TO r", 7, "not ON DATASET", "READ ON DATASET"),
        ("GRANT READ ON CHANNEL c TO r", 7, "not ON CHANNEL", "SUBSCRIBE ON CHANNEL"),
        ("REVOKE READ, PUBLISH ON CHANNEL c FROM r", 8, "not ON CHANNEL", "SUBSCRIBE ON CHANNEL"),
        ("GRANT PUBLISH ON CHANNEL c TO r", 7, "not ON CHANNEL", "PUBLISH ON DATASET"),
        ("GRANT READ, SUBSCRIBE ON DATASET d TO r", 13, "not ON DATASET", "READ ON DATASET"),
        ("GRANT READ, READ ON DATASET d TO r", 13, "named twice", None),
        ("GRANT nurses TO ann", 7, "expected SUBSCRIBE, PUBLISH or READ", "tokens"),
        ("GRANT READ ON TABLE d TO r", 15, "expected CHANNEL or DATASET", None),
        ("GRANT READ ON DATASET d FROM r", 25, "expected TO", None),
        ("REVOKE READ ON DATASET d TO r", 26, "expected FROM", None),
        ("GRANT READ ON DATASET d TO 'r'", 28, "expected a role's name", None),
        ("GRANT READ ON DATASET d TO a-b", 29, "';' or the end", None),
        ("CREATE ROLE 2nd", 13, "cannot be a role's name", "begin with a letter"),
        ("SHOW GRANTS TO r", 13, "';' or the end", None),
        ("DROP ROLES r", 6, "DATASET, CHANNEL, BROKER, ROLE or QUOTA", None),
    ],
)
def test_what_makes_no_sense_is_told_with_its_place_and_the_fix(
    text: str, column: int, message: str, hint: str | None
) -> None:
    with pytest.raises(StatementError, match=message) as told:
        parse(text)
    assert (told.value.line, told.value.column) == (1, column)
    if hint is not None:
        assert hint in (told.value.hint or "")
