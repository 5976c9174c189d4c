"""Parameters bound to claims, and required ones: declared, bound, and given by nobody."""

from __future__ import annotations

from typing import Any

import pytest

from tocsin.errors import Forbidden, InvalidInput, StatementError
from tocsin.model import ANY, SUBSCRIBER, BoundColumn, Channel, Column, Dataset, Parameter
from tocsin.overlay.filters import as_text
from tocsin.sql import (
    CreateChannel,
    CreateDataset,
    bind_arguments,
    bind_claims,
    parse_filter,
    parse_one,
)

INBOX = Channel(
    "inbox",
    "continuous",
    (
        Parameter("me", "STRING", claim="sub"),
        Parameter("kind", "STRING"),
        Parameter("level", "INT", required=True),
    ),
    "",
    (),
    (),
)
ALICE = {"sub": "alice"}
NOTES = Dataset(
    "notes",
    (Column("owner", "STRING"), Column("team", "INT"), Column("n", "INT")),
    routed=True,
    bound=(BoundColumn("owner", "sub"), BoundColumn("team", "team")),
)


def declared(parameters: str) -> tuple[Parameter, ...]:
    made = parse_one(f"CREATE CONTINUOUS CHANNEL c({parameters}) AS SELECT 1 AS one")
    assert isinstance(made, CreateChannel)
    return made.parameters


def claiming(kind: str, claim: str = "c") -> Channel:
    return Channel("c", "continuous", (Parameter("p", kind, claim=claim),), "", (), ())


def test_a_parameter_is_declared_bound_or_required() -> None:
    parameters = declared(
        "me STRING BOUND TO CLAIM 'sub', n DECIMAL(8, 2) required, t INT bound to claim 'a b'"
    )
    assert parameters == (
        Parameter("me", "STRING", claim="sub"),
        Parameter("n", "DECIMAL(8,2)", required=True),
        Parameter("t", "INT", claim="a b"),
    )
    both = Parameter("x", "INT", required=True, claim="x")
    assert declared("x INT REQUIRED BOUND TO CLAIM 'x'") == (both,)
    assert declared("x INT BOUND TO CLAIM 'x' REQUIRED") == (both,)
    assert declared("required STRING, bound INT") == (
        Parameter("required", "STRING"),
        Parameter("bound", "INT"),
    )


@pytest.mark.parametrize(
    ("parameters", "reason"),
    [
        ("me STRING BOUND TO 'sub'", "expected CLAIM"),
        ("me STRING BOUND", "expected TO"),
        ("me STRING BOUND TO CLAIM sub", "claim's name in quotes"),
        ("me STRING BOUND TO CLAIM ''", "cannot be a claim's name"),
        ("me STRING REQUIRED REQUIRED", "',' or '\\)'"),
        ("me STRING BOUND TO CLAIM 'a' BOUND TO CLAIM 'b'", "',' or '\\)'"),
        ("me ARRAY<STRING> BOUND TO CLAIM 'groups'", "a parameter is scalar"),
        ("_subscriber STRING", "cannot be a parameter's name"),
        ("`_subscriber` STRING", "cannot be a parameter's name"),
    ],
)
def test_what_is_wrong_with_a_declaration_is_said(parameters: str, reason: str) -> None:
    with pytest.raises(StatementError, match=reason):
        declared(parameters)


def test_the_value_of_a_bound_parameter_is_the_claim() -> None:
    wanted = {"me": "alice", "kind": "fire", "level": 3}
    assert bind_arguments(INBOX, {"kind": "fire", "level": 3}, ALICE) == wanted
    assert bind_arguments(INBOX, ["fire", 3.0], ALICE) == wanted
    assert bind_arguments(INBOX, {"KIND": dict(ANY), "Level": 3}, {"sub": "bob"}) == {
        "me": "bob",
        "kind": dict(ANY),
        "level": 3,
    }


@pytest.mark.parametrize("value", ["bob", "alice", dict(ANY), {"any": 1}, None, ["bob"], 1])
@pytest.mark.parametrize("name", ["me", "ME", "Me"])
def test_nobody_gives_a_bound_parameter_by_name(name: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match="'me' is bound to the claim 'sub'"):
        bind_arguments(INBOX, {name: value, "kind": "a", "level": 1}, ALICE)


def test_nobody_gives_a_bound_parameter_by_position() -> None:
    with pytest.raises(InvalidInput, match=r"takes 2 arguments, got 3 \(me cannot") as caught:
        bind_arguments(INBOX, ["bob", "a", 1], ALICE)
    assert caught.value.field == "me"


@pytest.mark.parametrize("name", ["ｍｅ", "mé", "me ", " me", "m\u200be", "_subscriber", "__p_me"])
def test_a_name_that_looks_like_a_bound_parameter_is_none(name: str) -> None:
    with pytest.raises(InvalidInput, match="has no parameter"):
        bind_arguments(INBOX, {name: "bob", "kind": "a", "level": 1}, ALICE)


def test_a_required_parameter_is_not_left_open() -> None:
    for given in ({"kind": "a", "LEVEL": dict(ANY)}, ["a", {"any": True}]):
        with pytest.raises(InvalidInput, match="'level' is REQUIRED") as caught:
            bind_arguments(INBOX, given, ALICE)
        assert caught.value.field == "level"


@pytest.mark.parametrize(
    ("kind", "claim", "value"),
    [
        ("STRING", "a", "a"),
        ("INT", 7, 7),
        ("INT", 7.0, 7),
        ("DOUBLE", -0.0, 0.0),
        ("DECIMAL(8,2)", 1.5, "1.50"),
        ("BOOLEAN", True, True),
        ("DATE", "2026-11-16", "2026-11-16"),
        ("TIMESTAMP", 0, "1970-01-01T00:00:00.000000Z"),
    ],
)
def test_a_claim_takes_the_canonical_form_of_the_type(kind: str, claim: Any, value: Any) -> None:
    (bound,) = bind_arguments(claiming(kind), {}, {"c": claim}).values()
    assert (bound, str(bound)) == (value, str(value))


@pytest.mark.parametrize(
    ("kind", "claims"),
    [
        ("STRING", {}),
        ("STRING", {"c": None}),
        ("STRING", {"C": "other capitals are another claim"}),
        ("STRING", {"c": 7}),
        ("STRING", {"c": dict(ANY)}),
        ("STRING", {"c": {"any": True}}),
        ("STRING", {"c": ["a"]}),
        ("STRING", {"c": "\ud800"}),
        ("INT", {"c": "7"}),
        ("INT", {"c": True}),
        ("INT", {"c": 2**31}),
        ("DOUBLE", {"c": float("nan")}),
        ("DATE", {"c": "yesterday"}),
    ],
)
def test_a_claim_that_is_not_there_or_does_not_fit_is_refused(
    kind: str, claims: dict[str, Any]
) -> None:
    with pytest.raises(Forbidden, match="the claim 'c'") as caught:
        bind_arguments(claiming(kind), {}, claims)
    assert caught.value.field == "p"


def test_without_the_subscribers_own_token_nothing_is_bound() -> None:
    with pytest.raises(Forbidden, match="this call has none of theirs") as caught:
        bind_arguments(INBOX, ["fire", 3])
    assert caught.value.field == "me"


def test_the_subscriber_itself_is_bound_like_any_claim() -> None:
    channel = Channel("mine", "continuous", (Parameter("n", "INT"), SUBSCRIBER), "", (), ())
    assert bind_arguments(channel, [1], ALICE) == {"n": 1, "_subscriber": "alice"}
    for given in ({"n": 1, "_subscriber": "bob"}, {"n": 1, "_SUBSCRIBER": dict(ANY)}, [1, "bob"]):
        with pytest.raises(InvalidInput):
            bind_arguments(channel, given, ALICE)


def test_columns_of_a_routed_dataset_are_bound() -> None:
    made = parse_one(
        "CREATE DATASET notes (Owner STRING, team INT) RETAIN INTERVAL 1 DAY ROUTED"
        " BOUND owner TO CLAIM 'sub', team TO CLAIM 'team' OPEN"
    )
    assert isinstance(made, CreateDataset)
    assert made.bound == (BoundColumn("Owner", "sub"), BoundColumn("team", "team"))
    assert made.routed
    assert made.open


@pytest.mark.parametrize(
    ("clause", "reason"),
    [
        ("BOUND a TO CLAIM 'sub'", "expected OPEN"),
        ("BOUND a TO CLAIM 'sub' ROUTED", "expected OPEN"),
        ("ROUTED BOUND c TO CLAIM 'sub'", "is no column"),
        ("ROUTED BOUND b TO CLAIM 'sub'", "a bound column is scalar"),
        ("ROUTED BOUND a TO CLAIM 'sub', A TO CLAIM 'x'", "bound twice"),
        ("ROUTED BOUND a TO CLAIM 'sub' BOUND a TO CLAIM 'x'", "expected OPEN"),
        ("ROUTED BOUND a", "expected TO"),
    ],
)
def test_what_is_wrong_with_a_bound_column_is_said(clause: str, reason: str) -> None:
    with pytest.raises(StatementError, match=reason):
        parse_one(f"CREATE DATASET d (a STRING, b ARRAY<INT>) {clause}")


@pytest.mark.parametrize(
    ("where", "canonical"),
    [
        ("", "owner = 'alice' AND team = 7"),
        ("n > 3", "n >= 4 AND owner = 'alice' AND team = 7"),
        ("owner = 'alice'", "owner = 'alice' AND team = 7"),
        ("OWNER LIKE 'a%' AND team < 10", "owner = 'alice' AND team = 7"),
        ("owner IS NOT NULL", "owner = 'alice' AND team = 7"),
    ],
)
def test_every_filter_is_joined_with_the_claims(where: str, canonical: str) -> None:
    filter_ = bind_claims(parse_filter(where, NOTES), NOTES, {"sub": "alice", "team": 7})
    assert as_text(filter_) == canonical
    assert parse_filter(canonical, NOTES) == filter_


@pytest.mark.parametrize(
    "where", ["owner = 'bob'", "owner IS NULL", "owner LIKE 'b%'", "team IN (1, 2)", "Team > 7"]
)
def test_a_filter_for_records_of_others_is_refused(where: str) -> None:
    with pytest.raises(InvalidInput, match="asks for records of others"):
        bind_claims(parse_filter(where, NOTES), NOTES, {"sub": "alice", "team": 7})


def test_a_filter_without_the_claims_is_refused() -> None:
    asked = parse_filter("", NOTES)
    with pytest.raises(Forbidden, match="none of theirs"):
        bind_claims(asked, NOTES, None)
    with pytest.raises(Forbidden, match="the claim 'team', which this token lacks"):
        bind_claims(asked, NOTES, {"sub": "alice"})
    with pytest.raises(Forbidden, match="expected INT"):
        bind_claims(asked, NOTES, {"sub": "alice", "team": "7"})
