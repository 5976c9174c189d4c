"""What channels have in common in a query that they share."""

from __future__ import annotations

import pytest

from tocsin.errors import InvalidInput
from tocsin.model import Column, Dataset
from tocsin.spark.channels import compile_channel
from tocsin.spark.real_time.members import Member, make_member
from tocsin.spark.real_time.shared import SharedText
from tocsin.sql import parse_one
from tocsin.sql.statements import CreateChannel

COLUMNS = {"id": "INT", "kind": "STRING", "sev": "INT", "tags": "ARRAY<STRING>"}
PLACES = {"lat": "DOUBLE", "lon": "DOUBLE"}
REPORTS = Dataset("reports", tuple(Column(*pair) for pair in (COLUMNS | PLACES).items()))


def member(name: str, parameters: str, query: str, *opened: str) -> Member:
    asked = parse_one(f"CREATE CONTINUOUS CHANNEL {name}({parameters}) AS SELECT {query}")
    assert isinstance(asked, CreateChannel)
    compiled = compile_channel(asked, {"reports": REPORTS})
    return make_member(compiled, frozenset(opened), lambda equalities, *_: ["X"] * len(equalities))


def test_channels_that_differ_in_names_alone_have_one_form() -> None:
    first = member(
        "a", "kind STRING, n INT", "r.id FROM NEW reports r WHERE r.kind = :kind AND r.sev > :n"
    )
    other = member(
        "b",
        "Least INT, What STRING",
        "Q.id FROM NEW reports AS Q WHERE Q.kind = :what AND Q.sev > :LEAST",
    )
    assert first.form == other.form
    assert [slot.argument for slot in other.slots] == ["Least", "What"]
    assert len(SharedText([first, other]).forms) == 1


def test_channels_that_look_at_the_same_fields_look_a_record_up_once() -> None:
    members = [
        member(f"c{n}", "kind STRING", f"id, {n} AS n FROM NEW reports WHERE kind = :kind")
        for n in range(100)
    ]
    members.append(member("sev", "s INT", "id FROM NEW reports WHERE sev = :s"))
    assert SharedText(members).matches_sql.count("XXHASH64") == 2


def test_parameters_of_all_lie_in_as_many_columns_as_one_channel_has() -> None:
    members = [
        member(
            f"c{n}", f"p{n} STRING, q{n} INT", f"id, :q{n} AS q FROM NEW reports WHERE kind = :p{n}"
        )
        for n in range(100)
    ]
    assert list(SharedText(members).slots.values()) == ["STRING", "INT"]


def test_what_is_open_is_no_part_of_the_key() -> None:
    query = "id FROM NEW reports WHERE kind = :k AND sev = :s"
    both, kind = (member("c", "k STRING, s INT", query, *opened) for opened in ((), ("s",)))
    assert len(both.form.key.values) == 2
    assert [value.record for value in kind.form.key.values] == ["CAST(kind AS X)"]
    assert "sev" not in kind.form.condition
    neither = member("c", "k STRING, s INT", query, "k", "s")
    assert neither.form.key.values == ()
    assert neither.form.condition == "true"


def test_nearness_and_equality_make_one_key() -> None:
    near = member(
        "c",
        "a DOUBLE, o DOUBLE, k STRING",
        "id FROM NEW reports WHERE near(lat, lon, :a, :o, 5) AND kind = :k",
    )
    assert near.form.key.index is not None
    assert len(near.form.key.values) == 1


def test_name_that_means_two_things_is_refused() -> None:
    with pytest.raises(InvalidInput, match="means both"):
        member(
            "c", "k STRING", "transform(r.tags, r -> r.x) AS t FROM NEW reports r WHERE r.kind = :k"
        )
