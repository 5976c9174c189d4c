"""`near` between two datasets: both get a column with the key of a grid cell, and join on it."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from tocsin.model import Dataset
from tocsin.pipeline.channels import near
from tocsin.pipeline.channels.dialect import snippet, to_spark
from tocsin.pipeline.channels.links import has_parameter, of_parameters
from tocsin.pipeline.channels.query import bind_parameters, is_near


def join_by_cells(
    conditions: list[exp.Expr], tables: list[exp.Table], datasets: Mapping[str, Dataset]
) -> tuple[list[exp.Expr], list[tuple[str, str]]]:
    """Give keys to the two sources of each `near`: the equalities to add, and the facts they need.

    The radius is a constant, a column of one of the two, or a parameter; then all balls are taken
    as large as the largest that anyone asked for, a fact about the parameter table.
    """
    added: list[exp.Expr] = []
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
        number = len(added)
        radius = to_spark(km)
        if has_parameter(km):
            radius = f":__reach{number}"
            largest = to_spark(bind_parameters(km.copy()))
            facts.append((f"__reach{number}", f"MAX(CAST({largest} AS DOUBLE))"))
        at = near.level(radius)
        levels = at if reach is None else ", ".join(map(str, near.LEVELS))
        key = f"__n{number}"
        _explode(ball, near.cover(to_spark(ball_at[0]), to_spark(ball_at[1]), radius, at), key)
        cells = near.cells_on(to_spark(point_at[0]), to_spark(point_at[1]), f"ARRAY({levels})")
        _explode(point, cells, key)
        added.append(snippet(f"`{ball.alias}`.{key} = `{point.alias}`.{key}"))
        del free[ball.alias.lower()], free[point.alias.lower()]
    return added, facts


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
                if any(c.name == name for c in datasets[source.meta["dataset"]].columns)
            ]
            if table:
                having = [alias for alias in having if alias == table]
            if len(having) != 1:
                return None
            owners.add(having[0])
        if has_parameter(node):
            return None
    return free[owners.pop()] if len(owners) == 1 else None


def _explode(table: exp.Table, keys: str, name: str) -> None:
    """Replace a source by itself with one row per key."""
    alias = table.alias
    inner = table.copy()
    wrapped = exp.select("*", exp.alias_(snippet(f"EXPLODE({keys})"), name)).from_(inner)
    table.replace(wrapped.subquery(alias))
