"""`near` between two datasets: both get a column with the key of a grid cell, and join on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sqlglot import exp

from tocsin.geo import level_of
from tocsin.model import Dataset
from tocsin.protocol.columns import cell_column, reach_fact
from tocsin.spark.channels import near
from tocsin.spark.channels.dialect import snippet, to_spark
from tocsin.spark.channels.keyed import Keyed
from tocsin.spark.channels.links import constant, has_parameter, of_parameters
from tocsin.spark.channels.query import bind_parameters, is_near


def join_by_cells(
    conditions: list[exp.Expr], tables: list[exp.Table], datasets: Mapping[str, Dataset]
) -> tuple[list[exp.Expr], list[Keyed], list[tuple[str, str]]]:
    """Give keys to the two sources of each `near`: the equalities to add, the views with keys, and
    the facts that these need.

    The radius is a constant, a column of one of the two, or a parameter; then all balls are taken
    as large as the largest that anyone asked for, a fact about the parameter table.
    """
    added: list[exp.Expr] = []
    views: list[Keyed] = []
    facts: list[tuple[str, str]] = []
    free = {table.alias.lower(): table for table in tables}
    for condition in conditions:
        pair = _pair(condition, free, datasets)
        if pair is None:
            continue
        name = cell_column(len(added))
        radius, at = _reach(pair.km)
        if has_parameter(pair.km):
            fact = reach_fact(len(facts))
            radius, at = f":{fact}", near.level(f":{fact}")
            largest = to_spark(bind_parameters(pair.km.copy()))
            facts.append((fact, f"MAX(CAST({largest} AS DOUBLE))"))
        ball, point = pair.ball.alias, pair.point.alias
        views.append(_take(pair.ball, name, near.cover(*pair.centre, radius, at), several=True))
        if pair.same_radius:
            views.append(_take(pair.point, name, near.cell(*pair.place, at), several=False))
        else:
            cells = near.cells_on(*pair.place, f"ARRAY({', '.join(map(str, near.LEVELS))})")
            views.append(_take(pair.point, name, cells, several=True))
        added.append(snippet(f"`{ball}`.{name} = `{point}`.{name}"))
        del free[ball.lower()], free[point.lower()]
    return added, views, facts


class _Pair(NamedTuple):
    """Two sources that a `near` joins: each row of one is a ball, each of the other a point."""

    ball: exp.Table
    centre: tuple[str, str]
    point: exp.Table
    place: tuple[str, str]
    km: exp.Expr
    same_radius: bool  # of all balls


def _pair(
    condition: exp.Expr, free: Mapping[str, exp.Table], datasets: Mapping[str, Dataset]
) -> _Pair | None:
    """None if the condition joins no two sources that have no key yet."""
    if not is_near(condition) or len(condition.expressions) != 5:
        return None
    lat1, lon1, lat2, lon2, km = condition.expressions
    first = _owner([lat1, lon1], free, datasets)
    other = _owner([lat2, lon2], free, datasets)
    if first is None or other is None or first is other:
        return None
    reach = _owner([km], free, datasets)
    if not of_parameters(km) and reach not in (first, other):
        return None
    first_at, other_at = (_plain(lat1), _plain(lon1)), (_plain(lat2), _plain(lon2))
    # The ball has up to eight keys: better the few new records than the stored ones.
    only_first_new = first.meta.get("new") and not other.meta.get("new")
    if reach is first or (reach is None and only_first_new):
        return _Pair(first, first_at, other, other_at, km, reach is None)
    return _Pair(other, other_at, first, first_at, km, reach is None)


def _reach(km: exp.Expr) -> tuple[str, str]:
    """A radius and its level, as text."""
    radius = constant(km)
    if radius is None:
        return _plain(km), near.level(_plain(km))
    return f"{radius!r}D", str(level_of(max(radius, 0.0)))


def _plain(node: exp.Expr) -> str:
    """An expression of one table's columns, as it is written where that table stands alone."""
    alone = node.copy()
    for column in alone.find_all(exp.Column):
        column.set("table", None)
    return to_spark(alone)


def _owner(
    nodes: list[exp.Expr], free: Mapping[str, exp.Table], datasets: Mapping[str, Dataset]
) -> exp.Table | None:
    """The one table to which every column under the nodes belongs."""
    owners: set[str] = set()
    for node in nodes:
        for column in node.find_all(exp.Column):
            name, table = column.name.lower(), column.table.lower()
            having = [
                alias
                for alias, source in free.items()
                if any(c.name.lower() == name for c in datasets[source.meta["dataset"]].columns)
            ]
            if table:
                having = [alias for alias in having if alias == table]
            if len(having) != 1:
                return None
            owners.add(having[0])
        if node.find(exp.Placeholder) is not None:
            return None
    return free[owners.pop()] if len(owners) == 1 else None


def _take(table: exp.Table, name: str, keys: str, *, several: bool) -> Keyed:
    """Let the query read the view with the key instead."""
    keyed = Keyed(table.name, name, keys, several)
    table.set("this", exp.to_identifier(keyed.marker))
    return keyed
