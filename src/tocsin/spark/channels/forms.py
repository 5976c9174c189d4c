"""Which form a query can take, and why not a faster one. See `compile` for the forms."""

from __future__ import annotations

from msgspec import Struct
from sqlglot import exp

from tocsin.spark.channels.links import conjuncts, has_parameter
from tocsin.spark.channels.query import own_nodes

# Aggregates that sqlglot does not know as such.
_AGGREGATES = {
    "any", "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor", "bitmap_construct_agg",
    "bitmap_or_agg", "count_min_sketch", "covar_pop", "covar_samp", "every", "histogram_numeric",
    "kurtosis", "listagg", "mean", "regr_avgx", "regr_avgy", "regr_count", "regr_intercept",
    "regr_r2", "regr_slope", "regr_sxx", "regr_sxy", "regr_syy", "skewness", "some", "std",
    "try_avg", "try_sum", "hll_sketch_agg", "hll_union_agg", "max_by", "min_by", "percentile",
    "percentile_approx", "approx_percentile", "mode", "string_agg", "first", "last", "any_value",
    "first_value", "last_value", "collect_list", "collect_set", "array_agg", "count_if",
    "approx_count_distinct", "approx_top_k", "percentile_cont", "percentile_disc",
}  # fmt: skip
_GENERATORS = {
    "explode", "explodeouter", "explode_outer", "posexplode", "posexplodeouter",
    "posexplode_outer", "inline", "inline_outer", "stack", "json_tuple", "unnest",
}  # fmt: skip
_CLAUSES = {
    "offset": "it has an OFFSET",
    "qualify": "it has a QUALIFY",
    "cluster": "it has a CLUSTER BY",
    "distribute": "it has a DISTRIBUTE BY",
    "sort": "it has a SORT BY",
    "laterals": "it has a LATERAL VIEW",
    "pivots": "it has a PIVOT",
}


class Shape(Struct):
    """`reason` says why it is the lateral form; its `select` is a copy of the query when parameters
    stand in conditions alone, so that it may be given keys, and else None. `moved` are conditions
    taken out of inner joins. `leading` is the alias whose `_position` orders the results.
    `parameters_first`: an outer join looks at parameters, so they must stand before it in FROM."""

    form: str
    select: exp.Select | None
    reason: str = ""
    moved: list[exp.Expr] = []
    tables: list[exp.Table] = []
    leading: str | None = None
    new_aliases: list[str] = []
    needs_new_records: bool = False
    parameters_first: bool = False
    limit: int | None = None


def shape_of(tree: exp.Query, why_lateral: str | None = None) -> Shape:
    """The tree is used up, but not by the lateral form."""
    reason = why_lateral or _why_not_joined(tree)
    if reason is not None:
        if not _may_have_keys(tree):
            return Shape("lateral", None, reason)
        tree = tree.copy()
    assert isinstance(tree, exp.Select)
    joins: list[exp.Join] = tree.args.get("joins") or []
    mirrored = any(str(join.side).upper() in ("RIGHT", "FULL") for join in joins)
    moved = _move_conditions(joins, mirrored)
    outer_parameters = any(
        has_parameter(join.args["on"]) for join in joins if join.args.get("on") is not None
    )
    tables = _inner_tables(tree, mirrored)
    if reason is not None:
        return Shape("lateral", tree, reason, moved=moved, tables=tables)
    marked = [table for table in tables if table.meta.get("new")]
    leading = next(iter(marked or tables), None)
    limit = tree.args.get("limit")
    tree.set("limit", None)
    grouped = bool(tree.args.get("group") or tree.args.get("distinct"))
    return Shape(
        "grouped" if grouped else "flat",
        tree,
        moved=moved,
        tables=tables,
        leading=leading.alias if leading else None,
        new_aliases=[table.alias for table in marked],
        needs_new_records=bool(marked),
        parameters_first=outer_parameters,
        limit=int(limit.expression.name) if limit is not None else None,
    )


def _move_conditions(joins: list[exp.Join], mirrored: bool) -> list[exp.Expr]:
    """Take the conditions out of inner joins that may as well stand in WHERE, where links are
    looked for: all of them if there are inner joins alone."""
    only_inner = all(is_inner(join) for join in joins)
    moved: list[exp.Expr] = []
    for join in joins:
        condition = join.args.get("on")
        if condition is None or not is_inner(join):
            continue
        if only_inner or (has_parameter(condition) and not mirrored):
            moved += conjuncts(condition)
            join.set("on", None)
            join.set("kind", "CROSS")
    return moved


def turn_right_join(tree: exp.Expr) -> None:
    """`a RIGHT JOIN b` as `b LEFT JOIN a`, whose condition may look at parameters. Only where it is
    the one join, and nobody sees the order of columns."""
    for select in tree.find_all(exp.Select):
        joins: list[exp.Join] = select.args.get("joins") or []
        if len(joins) != 1 or any(isinstance(output, exp.Star) for output in select.selects):
            continue
        (join,) = joins
        condition = join.args.get("on")
        if str(join.side).upper() == "RIGHT" and condition is not None and has_parameter(condition):
            source = select.args["from_"]
            left, right = source.this, join.this
            join.set("this", None)
            source.set("this", right)
            join.set("this", left)
            join.set("side", "LEFT")


def halves_of(tree: exp.Query) -> list[exp.Query] | None:
    """The queries of a plain UNION ALL: each may take its own form."""
    if not isinstance(tree, exp.Union):
        return [tree]
    if tree.args.get("distinct") or any(
        tree.args.get(part) for part in ("order", "limit", "offset", "with_", "by_name")
    ):
        return None
    queries: list[exp.Query] = []
    for side in (tree.left, tree.right):
        while isinstance(side, exp.Subquery) and not side.alias:
            side = side.this
        halves = halves_of(side) if isinstance(side, exp.Query) else None
        if halves is None:
            return None
        queries += halves
    return queries


def why_not_streamable(select: exp.Select, shape: Shape) -> str:
    """Why a flat query cannot look at one record after the other; empty if it can. There each
    record gives a parameter set one result at most, by which a repeated one is known."""
    if select.args.get("order") or shape.limit is not None:
        return "it orders or limits its rows"
    if select.args.get("joins") or len(shape.tables) != 1:
        return "it joins tables"
    if select.args.get("with_") or any(n is not select for n in select.find_all(exp.Query)):
        return "it has a subquery"
    if any(isinstance(node, exp.UDTF) or _name(node) in _GENERATORS for node in own_nodes(select)):
        return "it makes several rows of one record"
    return ""


def _name(node: exp.Expr) -> str:
    return str(node.this).lower() if isinstance(node, exp.Anonymous) else node.key


def is_inner(join: exp.Join) -> bool:
    side, kind = str(join.side or "").upper(), str(join.kind or "").upper()
    plain = not join.args.get("using") and not join.args.get("method")
    return plain and not side and kind in ("", "INNER", "CROSS")


def _keeps_left(join: exp.Join) -> bool:
    """A left join: its condition may look at everything before it, the parameters included."""
    return is_inner(join) or str(join.side or "").upper() == "LEFT"


def _inner_tables(tree: exp.Select, mirrored: bool) -> list[exp.Table]:
    """Datasets of which every row of the answer has a record."""
    if mirrored:
        return []
    joins: list[exp.Join] = tree.args.get("joins") or []
    sources = [tree.args["from_"].this, *(join.this for join in joins if is_inner(join))]
    return [
        source for source in sources if isinstance(source, exp.Table) and "dataset" in source.meta
    ]


def _why_not_joined(tree: exp.Query) -> str | None:
    """Why the query cannot simply be joined with the parameter table; None when it can."""
    if not isinstance(tree, exp.Select):
        return "it combines several queries"
    for part, reason in _CLAUSES.items():
        if tree.args.get(part):
            return reason
    limit = tree.args.get("limit")
    if limit is not None and not (
        isinstance(limit.expression, exp.Literal) and limit.expression.is_int
    ):
        return "its LIMIT is not a plain number"
    if limit is not None and tree.args.get("distinct"):
        return "it limits distinct rows"
    if tree.args.get("from_") is None:
        return "it has no FROM"
    return _parameters_misplaced(tree) or _aggregation(tree)


def may_come_first(tree: exp.Select) -> bool:
    """Whether a table may stand before all others in FROM: no join keeps rows of its right side."""
    joins: list[exp.Join] = tree.args.get("joins") or []
    return all(_keeps_left(join) for join in joins)


def _may_have_keys(tree: exp.Query) -> bool:
    """Whether the lateral form stays right when the parameter table is one more source of it:
    parameters stand in WHERE and inner ON alone, and nobody counts columns."""
    if not isinstance(tree, exp.Select) or tree.args.get("from_") is None:
        return False
    if tree.args.get("laterals") or any(output.is_star for output in tree.selects):
        return False
    joins: list[exp.Join] = tree.args.get("joins") or []
    if not all(is_inner(join) for join in joins):
        return False
    rest = tree.copy()
    rest.set("where", None)
    for join in rest.args.get("joins") or []:
        join.set("on", None)
    return not has_parameter(rest)


def _aggregation(tree: exp.Select) -> str | None:
    nodes = list(own_nodes(tree))
    if any(isinstance(node, exp.Window) for node in nodes):
        return "it has a window function"
    group, distinct = tree.args.get("group"), tree.args.get("distinct")
    if group is not None:
        if group.args.get("all") or group.args.get("totals") or not _are_listed(group):
            return "its groups are not a plain list"
    elif tree.args.get("having") or any(map(is_aggregate, nodes)):
        return "it aggregates all records, none included"
    if distinct is not None and (tree.args.get("order") or distinct.args.get("on")):
        return "it orders distinct rows"
    if (group or distinct) and tree.args.get("order") and any(s.is_star for s in tree.selects):
        return "it orders by a column behind *"
    return None


def _are_listed(group: exp.Expr) -> bool:
    """Groups by columns or sets of them, to which more can be added; not GROUP BY … WITH CUBE."""
    sets = [
        expression
        for kind in ("rollup", "cube", "grouping_sets")
        for expression in group.args.get(kind) or []
    ]
    if group.expressions:
        return not sets
    return bool(sets) and all(expression.expressions for expression in sets)


def is_aggregate(node: exp.Expr) -> bool:
    if isinstance(node, exp.Anonymous):
        return str(node.this).lower() in _AGGREGATES
    return isinstance(node, exp.AggFunc)


def _parameters_misplaced(tree: exp.Select) -> str | None:
    with_ = tree.args.get("with_")
    if with_ is not None and has_parameter(with_):
        return "a parameter is used in a common table expression"
    joins: list[exp.Join] = tree.args.get("joins") or []
    mirrored = any(str(join.side).upper() in ("RIGHT", "FULL") for join in joins)
    if has_parameter(tree.args["from_"]) or any(has_parameter(join.this) for join in joins):
        return "a parameter is used in a derived table"
    for join in joins:
        condition = join.args.get("on")
        if (
            condition is not None
            and has_parameter(condition)
            and (mirrored or not _keeps_left(join))
        ):
            return "a parameter is used in the condition of a join that adds rows"
    return None
