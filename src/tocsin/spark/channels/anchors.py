"""The lateral form, where a query may not look out of itself: inside aggregates, in ON, and in
subqueries two levels down. There the parameter table is made one more source of the query that
holds them, tied to the set it is run for; what stands inside then looks at a neighbour.
"""

from __future__ import annotations

from sqlglot import exp

from tocsin.protocol import columns
from tocsin.spark.channels.dialect import QueryText, snippet
from tocsin.spark.channels.forms import is_aggregate, may_come_first
from tocsin.spark.channels.query import (
    PARAMETERS,
    PARAMETERS_MARKER,
    SAME_SET,
    SETS,
    is_run_value,
)


def add_parameters(select: exp.Select, *, first: bool) -> None:
    """The parameter table as one more source."""
    table = exp.Table(
        this=exp.to_identifier(PARAMETERS_MARKER),
        alias=exp.TableAlias(this=exp.to_identifier(PARAMETERS)),
    )
    if not first:
        select.append("joins", exp.Join(this=table, kind="CROSS"))
        return
    source = select.args["from_"]
    own = exp.Join(this=source.this, kind="CROSS")
    select.set("from_", exp.From(this=table))
    select.set("joins", [own, *(select.args.get("joins") or [])])


def anchor(query: QueryText, tree: exp.Query) -> exp.Query:
    """Every parameter bound: to the set that the query is run for, or to the table beside it."""
    anchored: dict[int, exp.Select] = {}
    for placeholder in list(tree.find_all(exp.Placeholder)):
        if is_run_value(placeholder):
            continue
        holder = _holder(placeholder)
        table = SETS if holder is None else PARAMETERS
        if holder is not None:
            _check(query, holder, placeholder)
            anchored[id(holder)] = holder
            _tell_groups(holder, placeholder)
        placeholder.replace(exp.column(columns.parameter_column(placeholder.name), table=table))
    for select in anchored.values():
        add_parameters(select, first=may_come_first(select))
        select.where(snippet(SAME_SET), copy=False)
    return tree


def _holder(placeholder: exp.Expr) -> exp.Select | None:
    """The query beside whose sources the parameter must stand; None if it may look outside."""
    inside = False
    holder: exp.Select | None = None
    node: exp.Expr = placeholder
    while node.parent is not None:
        if isinstance(node, exp.Select):
            if inside and holder is None:
                holder = node
            if _is_expression(node):
                holder, inside = None, True
        elif holder is None and _looks_inside(node):
            inside = True
        node = node.parent
    if inside and holder is None and isinstance(node, exp.Select):
        holder = node
    return holder if holder is not None and holder.args.get("from_") is not None else None


def _looks_inside(node: exp.Expr) -> bool:
    """Whether what stands here may not look out of its query."""
    if is_aggregate(node) or isinstance(node, exp.Window | exp.Filter):
        return True
    if isinstance(node.parent, exp.Join):
        return node.arg_key == "on"
    return isinstance(node.parent, exp.Select) and _beside_groups(node)


def _beside_groups(clause: exp.Expr) -> bool:
    """In the SELECT list or HAVING of a query with groups, of which parameters are constants."""
    select = clause.parent
    assert select is not None
    grouped = select.args.get("group") is not None
    return grouped and clause.arg_key in ("expressions", "having", "group")


def _tell_groups(select: exp.Select, placeholder: exp.Expr) -> None:
    """Spark takes a constant of groups for one only if they are grouped by it."""
    group = select.args.get("group")
    if group is None or group.args.get("all"):
        return
    column = exp.column(columns.parameter_column(placeholder.name), table=PARAMETERS)
    if column not in group.expressions:
        group.set("expressions", [column, *group.expressions])


def _is_expression(query: exp.Expr) -> bool:
    """Whether it stands in an expression, or is LATERAL: not as a source of its own."""
    node = query
    while isinstance(node.parent, exp.SetOperation | exp.Subquery):
        node = node.parent
    place = node.parent
    return place is not None and not isinstance(place, exp.From | exp.Join | exp.CTE)


def _check(query: QueryText, select: exp.Select, placeholder: exp.Expr) -> None:
    """Refuse where the parameter table beside the query's sources would change its answer."""
    join = placeholder.find_ancestor(exp.Join, exp.Select)
    if isinstance(join, exp.Join) and join.parent is select and not may_come_first(select):
        raise query.error_at(
            "a parameter is used in ON beside a RIGHT or FULL OUTER JOIN, which cannot be run for"
            " all subscriptions at once",
            placeholder,
            field=placeholder.name,
            hint="use it in WHERE, or write the join as a LEFT JOIN",
        )
    _spell_out_star(select)
    if any(isinstance(output, exp.Star) for output in select.selects):  # our columns would show
        raise query.error_at(
            "a parameter is used in a join, an aggregate or a subquery of a query that selects *",
            placeholder,
            field=placeholder.name,
            hint="name the columns",
        )


def _spell_out_star(select: exp.Select) -> None:
    """`*` as the columns of each source, so that another source does not add to it."""
    joins: list[exp.Join] = select.args.get("joins") or []
    plain = all(not (join.args.get("using") or join.args.get("method")) for join in joins)
    sources = [select.args["from_"].this]
    sources += [join.this for join in joins if str(join.kind).upper() not in ("SEMI", "ANTI")]
    sources += [lateral for lateral in select.args.get("laterals") or []]
    if not plain or not all(source.alias for source in sources):
        return
    stars = [
        exp.Column(this=exp.Star(), table=exp.to_identifier(source.alias)) for source in sources
    ]
    items: list[exp.Expr] = []
    for expression in select.expressions:
        bare = isinstance(expression, exp.Star) and not any(expression.args.values())
        items += stars if bare else [expression]
    select.set("expressions", items)
