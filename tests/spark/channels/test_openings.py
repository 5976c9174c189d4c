"""Which parameters may be left open, what the query is then, and how arguments are settled."""

from __future__ import annotations

import re

import pytest

from tocsin.errors import InvalidInput
from tocsin.model import ANY, Column, Dataset
from tocsin.spark.channels import CompiledChannel, compile_channel, settle
from tocsin.sql import bind_arguments, parse_one
from tocsin.sql.statements import CreateChannel

OFFERS = Dataset(
    "offers",
    (
        Column("restaurant", "STRING"),
        Column("food", "STRING"),
        Column("discount", "INT"),
        Column("lat", "DOUBLE"),
        Column("lon", "DOUBLE"),
    ),
)
PLACES = Dataset("places", (Column("name", "STRING"), Column("stars", "INT")))
DATASETS = {"offers": OFFERS, "places": PLACES}
DECLARED = "r STRING, f STRING, d INT, lat DOUBLE, lon DOUBLE, km DOUBLE"
OFFERED = "SELECT o.food FROM NEW offers o"


def used_in(query: str) -> set[str]:
    return set(re.findall(r":(\w+)", query))


def compiled(query: str) -> CompiledChannel:
    """The channel of a query, or of OFFERED continued like this."""
    if not query.startswith(("SELECT", "WITH")):
        query = " ".join((OFFERED, query))
    used = used_in(query)
    declared = ", ".join(each for each in DECLARED.split(", ") if each.split()[0] in used)
    made = parse_one(f"CREATE CONTINUOUS CHANNEL offered({declared}) AS " + query)
    assert isinstance(made, CreateChannel)
    return compile_channel(made, DATASETS)


@pytest.mark.parametrize(
    ("query", "needed"),
    [
        ("WHERE o.restaurant = :r AND (o.food = :f AND o.discount >= :d)", {}),
        ("WHERE NOT o.food = :f AND o.restaurant LIKE :r AND o.discount IN (:d, 1)", {}),
        ("JOIN places p ON p.name = o.restaurant AND p.stars >= :d", {}),
        (", places p WHERE p.name = o.restaurant AND p.stars >= :d", {}),
        (
            "WHERE o.food = :f UNION ALL (SELECT o.food FROM NEW offers o WHERE o.food > :f)",
            {},
        ),
        ("SELECT count(*) AS n FROM NEW offers o WHERE o.discount >= :d", {}),
        ("SELECT o.food, :d AS d FROM NEW offers o", {"d": "in the SELECT list"}),
        ("WHERE o.food = :f OR o.restaurant = :r", dict.fromkeys("fr", "inside OR")),
        ("WHERE NOT (o.food = :f AND o.restaurant = :r)", dict.fromkeys("fr", "inside OR")),
        (
            "WHERE CASE WHEN :d > 5 THEN true ELSE o.food = :f END",
            dict.fromkeys("df", "CASE"),
        ),
        ("WHERE if(o.food = :f, true, false)", {"f": "CASE"}),
        (
            "WHERE EXISTS (SELECT 1 FROM places p WHERE p.name = :r)",
            {"r": "a subquery"},
        ),
        (
            "LEFT JOIN places p ON p.stars >= :d WHERE o.food = :f",
            {"d": "in the condition of an outer join"},
        ),
        ("JOIN places p ON p.stars >= :d OR p.name = :r", dict.fromkeys("dr", "inside OR")),
        (
            "JOIN (SELECT name FROM places WHERE stars >= :d) p ON p.name = o.restaurant",
            {"d": "in a derived table"},
        ),
        (
            "SELECT food FROM (SELECT * FROM NEW offers WHERE food = :f) o",
            {"f": "in a derived table"},
        ),
        (
            "WITH o AS (SELECT * FROM NEW offers WHERE food = :f) SELECT food FROM o",
            {"f": "in a WITH query"},
        ),
        (
            "SELECT o.food, count(*) AS n FROM NEW offers o WHERE o.restaurant = :r"
            " GROUP BY o.food, o.discount > :d HAVING count(*) > :km ORDER BY o.food = :f",
            {"d": "in GROUP BY", "km": "in HAVING", "f": "in ORDER BY"},
        ),
        (
            "WHERE o.food = :f UNION SELECT o.food FROM NEW offers o WHERE o.restaurant = :r",
            dict.fromkeys("fr", "several queries"),
        ),
        (
            "WHERE o.food = :f UNION ALL SELECT :f AS food FROM NEW offers o",
            {"f": "in the SELECT list"},
        ),
    ],
)
def test_a_parameter_may_be_open_where_and_joins_the_conditions_that_name_it(
    query: str, needed: dict[str, str]
) -> None:
    channel = compiled(query)
    found = channel.openings.needed
    assert found.keys() == needed.keys()
    for name, where in needed.items():
        assert where in found[name]
        with pytest.raises(InvalidInput, match=where) as caught:
            settle(channel.channel, {name: dict(ANY)})
        assert caught.value.field == name
        assert repr(name) in caught.value.message
    told = channel.describe()
    given = {row.partition(":")[0] for name, row in told if name == "must be given"}
    assert given == needed.keys()
    free = [
        parameter.name for parameter in channel.channel.parameters if parameter.name not in needed
    ]
    assert dict(told)["may be open"] == (", ".join(free) or "none")


@pytest.mark.parametrize(
    ("query", "opened", "same"),
    [
        ("WHERE o.restaurant = :r AND o.food = :f", "f", "WHERE o.restaurant = :r"),
        ("WHERE o.restaurant = :r AND o.food = :f", "r f", ""),
        (
            "WHERE o.discount BETWEEN :d AND :km AND o.food = :f",
            "d",
            "WHERE o.discount <= :km AND o.food = :f",
        ),
        ("WHERE near(o.lat, o.lon, :lat, :lon, :km) AND :d < o.discount", "lon d", ""),
        (
            "JOIN places p ON p.name = o.restaurant AND p.stars >= :d WHERE o.food = :f",
            "d",
            "JOIN places p ON p.name = o.restaurant WHERE o.food = :f",
        ),
        ("JOIN places p ON p.stars >= :d", "d", "CROSS JOIN places p"),
        (
            "SELECT count(*) AS n FROM NEW offers o WHERE o.food = :f AND o.discount > :d",
            "f",
            "SELECT count(*) AS n FROM NEW offers o WHERE o.discount > :d",
        ),
        (
            "WHERE o.food = :f UNION ALL SELECT o.food FROM NEW offers o WHERE o.food > :f",
            "f",
            "UNION ALL SELECT o.food FROM NEW offers o",
        ),
    ],
)
def test_an_open_parameter_reads_as_a_query_without_its_conditions(
    query: str, opened: str, same: str
) -> None:
    mask = frozenset(opened.split())
    parts = compiled(query).parts_with(mask)
    plain = compiled(same).parts
    for part, one in zip(parts, plain, strict=True):
        assert (part.sql, part.keys, part.facts) == (one.sql, one.keys, one.facts)
        assert {parameter.name for parameter in part.parameters} == used_in(query) - mask


def test_each_mask_is_matched_by_its_own_keys() -> None:
    channel = compiled(
        "WHERE near(o.lat, o.lon, :lat, :lon, :km) AND o.food = :f AND o.discount >= :d"
    )
    near, everything = ["lat", "lon", "km"], ["lat", "lon", "km", "f", "d"]
    masks = [[], ["f"], near, [*near, "f"], everything]
    told = channel.describe(map(frozenset, masks))
    assert dict(told)["matching"] == "hash join on grid cells and equality"
    assert [row for row in told if row[0].startswith("with ")] == [
        ("with f open", "hash join on grid cells"),
        ("with f, d, lat, lon, km open", "one for all"),
        ("with f, lat, lon, km open", "hash join on dyadic ranges"),
        ("with lat, lon, km open", "hash join"),
    ]


def test_each_query_of_a_union_is_matched_by_its_own_keys() -> None:
    channel = compiled(
        "WHERE near(o.lat, o.lon, :lat, :lon, :km) UNION ALL "
        "SELECT o.food FROM NEW offers o WHERE o.discount >= :d"
    )
    description = dict(channel.describe())
    assert description["form"] == "flat + flat"
    assert description["matching"] == "hash join on grid cells + hash join on dyadic ranges"
    assert len({part.keys for part in channel.parts}) == 2


def test_queries_of_a_union_have_the_same_columns_whatever_their_form() -> None:
    stars = "SELECT * FROM NEW offers o WHERE o.food = :f"
    channel = compiled(" UNION ALL ".join((stars, "SELECT DISTINCT o.* FROM offers o", stars)))
    assert {part.form for part in channel.parts} == {"lateral"}
    channel = compiled("WHERE o.food = :f UNION ALL SELECT DISTINCT p.name FROM places p")
    assert [part.form for part in channel.parts] == ["flat", "lateral"]


NEARBY = "WHERE near(o.lat, o.lon, :lat, :lon, :km) AND o.food = :f AND o.discount > :d"


def test_equal_questions_are_settled_to_equal_arguments() -> None:
    channel = compiled(NEARBY).channel
    rest = {"f": "pizza", "d": 20}
    anywhere = {"lat": dict(ANY), "lon": dict(ANY), "km": dict(ANY)}
    for given in (
        {"lat": {"any": True}, "lon": 1, "km": 2},
        {"lat": 48.2, "LON": ANY, "km": 2},
        anywhere,
    ):
        assert settle(channel, bind_arguments(channel, rest | given)) == rest | anywhere
    closed = rest | {"lat": 48.2, "lon": 16.4, "km": 2.0}
    assert settle(channel, bind_arguments(channel, closed)) == closed


def test_an_argument_that_another_condition_needs_is_kept() -> None:
    channel = compiled(NEARBY + " AND o.lat > :lat").channel
    given = {"f": "pizza", "d": 20, "lat": 48.2, "lon": 16.4, "km": dict(ANY)}
    settled = settle(channel, given)
    assert settled == given | {"lon": dict(ANY)}
    assert given["lon"] == 16.4
