"""How records and parameter sets find each other: the conditions of a query, sorted by kind.

A condition *links* when one side depends on parameters only and the other on records only.
Equalities need nothing from us (Spark hashes them); `near` and ranges are given a key to join on.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from sqlglot import exp

from tocsin.geo import level_of
from tocsin.model import Dataset
from tocsin.protocol import columns
from tocsin.spark.channels import near, ranges
from tocsin.spark.channels.dialect import to_spark
from tocsin.spark.channels.query import bind_parameters, is_near, is_run_value

_NUMERIC = {"INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"}
_LOWER: dict[type[exp.Expr], bool] = {exp.GT: True, exp.GTE: True, exp.LT: False, exp.LTE: False}
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg, exp.Paren, exp.Placeholder, exp.Literal)


class Index(Struct, frozen=True):
    """A key that parameter sets and records share when they may match.

    `keys` is an array over the parameter table's columns, exploded there once per refresh.
    `probe` is the record's key, or an array of keys when `probes` is set. `facts` are aggregates
    over the parameter table; their values are given to Spark beside the query, by name.
    """

    kind: str
    keys: str
    probe: str
    probes: bool
    facts: tuple[tuple[str, str], ...] = ()


def conjuncts(condition: exp.Expr | None) -> list[exp.Expr]:
    if condition is None:
        return []
    if isinstance(condition, exp.Paren):
        return conjuncts(condition.this)
    if isinstance(condition, exp.And):
        return conjuncts(condition.left) + conjuncts(condition.right)
    if isinstance(condition, exp.Between) and not condition.args.get("symmetric"):
        value = condition.this
        return [
            exp.GTE(this=value.copy(), expression=condition.args["low"].copy()),
            exp.LTE(this=value.copy(), expression=condition.args["high"].copy()),
        ]
    return [condition]


def parameters_of(node: exp.Expr) -> frozenset[str]:
    return frozenset(
        placeholder.name.lower()
        for placeholder in node.find_all(exp.Placeholder)
        if not is_run_value(placeholder)
    )


def has_parameter(node: exp.Expr) -> bool:
    return bool(parameters_of(node))


def of_parameters(node: exp.Expr) -> bool:
    """Depends on parameters (or constants), and on no record or run."""
    return node.find(exp.Column, exp.Query) is None and not any(
        map(is_run_value, node.find_all(exp.Placeholder))
    )


def of_records(node: exp.Expr) -> bool:
    """Depends on records, and on no parameter."""
    return (
        node.find(exp.Column) is not None
        and node.find(exp.Query) is None
        and not has_parameter(node)
    )


def equal_sides(condition: exp.Expr) -> tuple[exp.Expr, exp.Expr] | None:
    """The record's side of an equality that links, and that of the parameters."""
    if not isinstance(condition, exp.EQ | exp.NullSafeEQ):
        return None
    left, right = condition.left, condition.right
    for side, other in ((left, right), (right, left)):
        if has_parameter(side) and of_parameters(side) and of_records(other):
            return other, side
    return None


def _text(node: exp.Expr) -> str:
    return to_spark(bind_parameters(node.copy()))


def constant(node: exp.Expr) -> float | None:
    try:
        return float(node.sql()) if node.find(exp.Column, exp.Placeholder) is None else None
    except ValueError:
        return None


def near_index(condition: exp.Expr, *, streaming: bool = False) -> Index | None:
    """The key for `near` between records and parameters; the radius is a parameter or constant.
    `streaming`: the records have many keys, and a parameter set but one."""
    if not is_near(condition) or len(condition.expressions) != 5:
        return None
    lat1, lon1, lat2, lon2, km = condition.expressions
    if not of_parameters(km):
        return None
    for (lat, lon), (rlat, rlon) in (((lat1, lon1), (lat2, lon2)), ((lat2, lon2), (lat1, lon1))):
        given = (lat, lon, km)
        if not (of_parameters(lat) and of_parameters(lon) and any(map(has_parameter, given))):
            continue
        if not (of_records(rlat) and not has_parameter(rlon)):
            continue
        radius = constant(km)
        at = near.level(_text(km)) if radius is None else str(level_of(max(radius, 0.0)))
        record, centre = (_text(rlat), _text(rlon)), (_text(lat), _text(lon))
        if streaming:  # the next set may have any radius
            levels = f"ARRAY({', '.join(map(str, near.LEVELS)) if radius is None else at})"
            keys = f"ARRAY({near.cell(*centre, at)})"
            return Index("near", keys, near.cells_around(*record, levels), probes=True)
        if radius is not None:
            keys = near.cover(*centre, str(radius), at)
            return Index("near", keys, near.cell(*record, at), probes=False)
        return Index(
            "near",
            near.cover(*centre, _text(km), at),
            near.cells_on(*record, f"FROM_JSON(:{columns.LEVELS}, 'ARRAY<INT>')"),
            probes=True,
            facts=((columns.LEVELS, f"TO_JSON(COLLECT_SET({at}))"),),
        )
    return None


class _Bound(Struct, frozen=True):
    value: exp.Expr  # of the record
    limit: exp.Expr  # of the parameters
    lower: bool
    type: str


def _limit_type(limit: exp.Expr, types: Mapping[str, str]) -> str | None:
    """The type of boundaries made of this limit; None when they cannot be compared safely."""
    kinds = {types[name].split("(")[0] for name in parameters_of(limit)}
    if kinds <= _NUMERIC and all(isinstance(part, _ARITHMETIC) for part in limit.walk()):
        return "DOUBLE"
    if isinstance(limit, exp.Placeholder) and len(kinds) == 1:
        kind = kinds.pop()
        return kind if kind in ("DATE", "TIMESTAMP", "STRING") else None
    return None


def _bound(condition: exp.Expr, types: Mapping[str, str]) -> _Bound | None:
    lower = _LOWER.get(type(condition))
    if lower is None:
        return None
    assert isinstance(condition, exp.Binary)
    for value, limit, is_lower in (
        (condition.left, condition.right, lower),
        (condition.right, condition.left, not lower),
    ):
        if of_records(value) and has_parameter(limit) and of_parameters(limit):
            kind = _limit_type(limit, types)
            return _Bound(value, limit, is_lower, kind) if kind else None
    return None


def range_index(
    conditions: list[exp.Expr],
    types: Mapping[str, str],
    column_type: Mapping[str, str],
) -> Index | None:
    """The key for a range on one value of the records, bounded below, above or both."""
    by_value: dict[str, list[_Bound]] = {}
    for condition in conditions:
        bound = _bound(condition, types)
        if bound is None:
            continue
        text = _text(bound.value)
        # Texts that look like dates or numbers sort otherwise than what Spark makes of them.
        if bound.type == "STRING" and column_type.get(text.lower()) != "STRING":
            continue
        by_value.setdefault(text, []).append(bound)
    if not by_value:
        return None
    # A range bounded on both sides is the narrower one.
    value, bounds = max(by_value.items(), key=lambda item: len({bound.lower for bound in item[1]}))
    kind = bounds[0].type
    lowers = [bound for bound in bounds if bound.lower and bound.type == kind]
    uppers = [bound for bound in bounds if not bound.lower and bound.type == kind]
    facts = (columns.BOUNDS, columns.COARSE_BOUNDS)
    cuts = [f"FROM_JSON(:{fact}, 'ARRAY<{kind}>')" for fact in facts]

    def leaf(text: str) -> str:
        return ranges.bucket(f"CAST({text} AS {kind})", *cuts)

    first = leaf(_text(lowers[0].limit)) if lowers else "0"
    last = leaf(_text(uppers[0].limit)) if uppers else str(ranges.LEAVES - 1)
    limits = [_text(bound.limit) for bound in (*lowers[:1], *uppers[:1])]
    present = " AND ".join(f"{limit} IS NOT NULL" for limit in limits)
    return Index(
        "range",
        f"IF({present}, {ranges.nodes(first, last)}, CAST(ARRAY() AS ARRAY<BIGINT>))",
        ranges.ancestors(ranges.bucket(value, *cuts)),
        probes=True,
        facts=((columns.BOUNDS, _sampled(limits, kind)),),
    )


def _sampled(limits: list[str], kind: str) -> str:
    """JSON of the parameters' own values, evenly spread; `ranges.choose_bounds` thins them."""
    if kind == "STRING":
        lists = [f"COLLECT_SET({limit})" for limit in limits]
    else:
        steps = ranges.LEAVES // len(limits)
        spread = ", ".join(f"{step / steps!r}D" for step in range(1, steps))
        lists = [
            f"PERCENTILE_APPROX(CAST({limit} AS {kind}), ARRAY({spread}), 2000)" for limit in limits
        ]
    return f"TO_JSON(FLATTEN(ARRAY({', '.join(lists)})))"


def column_types(tables: list[exp.Table], datasets: Mapping[str, Dataset]) -> dict[str, str]:
    """The types of columns as a query may write them: `column` when only one table has it,
    `alias.column` always. Lower case."""
    known: dict[str, str] = {}
    seen: dict[str, int] = {}
    for table in tables:
        for column in datasets[table.meta["dataset"]].columns:
            name = column.name.lower()
            known[f"{table.alias.lower()}.{name}"] = known[name] = column.type
            seen[name] = seen.get(name, 0) + 1
    return {name: kind for name, kind in known.items() if seen.get(name, 1) == 1}
