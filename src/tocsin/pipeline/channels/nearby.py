"""`near` between two datasets: both get a column with the key of a grid cell, and join on it."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from tocsin.model import Dataset
from tocsin.nearness import level_of
from tocsin.pipeline.channels import near
from tocsin.pipeline.channels.dialect import snippet, to_spark
from tocsin.pipeline.channels.keyed import Keyed
from tocsin.pipeline.channels.links import constant, has_parameter, of_parameters
from tocsin.pipeline.channels.query import bind_parameters, is_near


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
        if not is_near(condition) or len(condition.expressions) != 5:
            continue
        lat1, lon1, lat2, lon2, km = condition.expressions
        one = _owner([lat1, lon1], free, datasets)
        other = _owner([lat2, lon2], free, datasets)
        if one is None or other is None or one is other:
            continue
        reach = _owner([km], free, datasets)
        if not of_parameters(km) and reach not in (one, other):
            continue
        ball, ball_at, point, point_at = other, (lat2, lon2), one, (lat1, lon1)
        # The ball has up to eight keys: better the few new records than the stored ones.
        if reach is one or (reach is None and one.meta.get("new") and not other.meta.get("new")):
            ball, ball_at, point, point_at = one, (lat1, lon1), other, (lat2, lon2)
        name = f"__n{len(added)}"
        radius, at = _reach(km)
        if has_parameter(km):
            fact = f"__reach{len(facts)}"
            radius, at = f":{fact}", near.level(f":{fact}")
            largest = to_spark(bind_parameters(km.copy()))
            facts.append((fact, f"MAX(CAST({largest} AS DOUBLE))"))
        cover = near.cover(_plain(ball_at[0]), _plain(ball_at[1]), radius, at)
        views.append(_take(ball, name, cover, several=True))
        lat, lon = _plain(point_at[0]), _plain(point_at[1])
        if reach is None:  # one radius for all
            views.append(_take(point, name, near.cell(lat, lon, at), several=False))
        else:
            cells = near.cells_on(lat, lon, f"ARRAY({', '.join(map(str, near.LEVELS))})")
            views.append(_take(point, name, cells, several=True))
        added.append(snippet(f"`{ball.alias}`.{name} = `{point.alias}`.{name}"))
        del free[ball.alias.lower()], free[point.alias.lower()]
    return added, views, facts


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
