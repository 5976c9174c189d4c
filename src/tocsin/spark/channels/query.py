"""What a query names: datasets (stored or NEW), parameters, functions. Refuses what cannot run.

Dataset names become markers and parameters become columns of the parameter table here; how the
query is then joined with that table is `compile`'s.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping

from msgspec import Struct
from sqlglot import exp

from tocsin.model import SUBSCRIBER, Dataset, Parameter
from tocsin.protocol import columns
from tocsin.spark.channels import near
from tocsin.spark.channels.allowed import check_allowed
from tocsin.spark.channels.dialect import (
    QueryText,
    called,
    offset_of,
    parse_query,
    snippet,
    to_spark,
)
from tocsin.sql import by_lower

PARAMETERS = "__p"
PARAMETERS_MARKER = "__parameters"
SETS = "__s"
"""The sets that a query in lateral form is run for; `PARAMETERS` is then beside its sources."""
SAME_SET = f"{PARAMETERS}.{columns.BACKEND} = {SETS}.{columns.BACKEND}"
CURRENT_SUBSCRIBER = "current_subscriber"
WINDOW_FUNCTIONS = {"window_start": columns.WINDOW_START, "window_end": columns.WINDOW_END}


class PlainQuery(Struct, frozen=True):
    """An ad hoc query in which datasets are named by `stored_marker`; `run_plain` runs it with
    `args`, which are data and never text."""

    sql: str
    datasets: tuple[str, ...]
    args: dict[str, str] = {}


def stored_marker(dataset: str) -> str:
    return f"__stored_{dataset}"


def new_marker(dataset: str) -> str:
    return f"__new_{dataset}"


def plain_query(text: str, subscriber: str = "") -> PlainQuery:
    """Read an ad hoc query: `near` may be used, parameters and NEW may not. `subscriber` asks."""
    query = QueryText(text.strip().rstrip(";"))
    tree = parse_query(query)
    check_allowed(query, tree, channel=False)
    for parameter in tree.find_all(exp.Placeholder):
        raise query.error_at(f":{parameter.name} stands for nothing in an ad hoc query", parameter)
    names: dict[str, None] = {}
    for table in dataset_tables(query, tree):
        if table.meta.get("new"):
            raise query.error_at("NEW has a meaning in channels only", table)
        name = table.name.lower()
        names[name] = None
        if not table.alias:
            table.set("alias", exp.TableAlias(this=table.this.copy()))
        table.set("this", exp.to_identifier(stored_marker(name)))
    tree, uses_subscriber = bind_subscriber(query, tree)
    args = {SUBSCRIBER.name: subscriber} if uses_subscriber else {}
    return PlainQuery(to_spark(expand_near(query, tree)), tuple(names), args)


def own_nodes(node: exp.Expr) -> Iterator[exp.Expr]:
    """The nodes of one query level: nested queries are yielded, but not entered."""
    yield from node.walk(prune=lambda inner: inner is not node and isinstance(inner, exp.Query))


def dataset_tables(query: QueryText, tree: exp.Query) -> list[exp.Table]:
    """Every place where a dataset is named, common table expressions set aside."""
    common = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    tables: list[exp.Table] = []
    for table in tree.find_all(exp.Table):
        if isinstance(table.this, exp.Func):
            continue  # range(…), explode(…): Spark knows them
        if table.db or table.catalog or not table.name:
            raise query.error_at(
                f"{to_spark(table)!r} is no dataset", table, hint="datasets have plain names"
            )
        if table.name.lower() not in common or table.meta.get("new"):
            tables.append(table)
    return tables


def mark_datasets(
    query: QueryText, tree: exp.Query, datasets: Mapping[str, Dataset]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Replace dataset names by markers; the stored and the NEW ones that the query reads."""
    stored: dict[str, None] = {}
    new: dict[str, None] = {}
    for cte in tree.find_all(exp.CTE):
        if cte.alias.lower() in datasets:
            raise query.error_at(
                f"{cte.alias!r} is already the name of a dataset", cte.args["alias"]
            )
    for table in dataset_tables(query, tree):
        name = table.name.lower()
        if name not in datasets:
            close = difflib.get_close_matches(name, datasets, n=1)
            known = f"did you mean {close[0]!r}?" if close else "SHOW DATASETS lists them"
            raise query.error_at(f"there is no dataset {name!r}", table, field=name, hint=known)
        marked = bool(table.meta.get("new"))
        (new if marked else stored)[name] = None
        if not table.alias:
            table.set("alias", exp.TableAlias(this=table.this.copy()))
        where = offset_of(table.this)
        table.set("this", exp.to_identifier(new_marker(name) if marked else stored_marker(name)))
        table.meta["dataset"] = name
        if where is not None:
            table.meta["start"] = where
    return tuple(stored), tuple(new)


def check_parameters(query: QueryText, tree: exp.Query, parameters: tuple[Parameter, ...]) -> None:
    known = by_lower(parameter.name for parameter in parameters)
    for placeholder in tree.find_all(exp.Placeholder):
        name = placeholder.name
        if name.lower() not in known:
            listed = ", ".join(f":{parameter.name}" for parameter in parameters) or "none"
            raise query.error_at(
                f"there is no parameter :{name}",
                placeholder,
                field=name,
                hint=f"the channel's parameters: {listed}",
            )
        limit = placeholder.find_ancestor(exp.Limit, exp.Offset, exp.Query)
        if isinstance(limit, exp.Limit | exp.Offset):
            raise query.error_at(
                f"LIMIT and OFFSET need a constant, not :{name}", placeholder, field=name
            )


def refuse_unused(query: QueryText, tree: exp.Query, parameters: tuple[Parameter, ...]) -> None:
    used = {placeholder.name.lower() for placeholder in tree.find_all(exp.Placeholder)}
    for parameter in parameters:
        if parameter.name.lower() not in used:
            raise query.error(
                f"parameter {parameter.name!r} is not used in the query",
                0,
                field=parameter.name,
                hint=f"write :{parameter.name} where it belongs, or leave it out",
            )


def refuse_limited_joins(query: QueryText, tree: exp.Query) -> None:
    """Of a query that is limited, Spark gives some parameter sets too few rows when others decide
    in a SEMI or ANTI JOIN below it."""
    kinds = {"SEMI": "a SEMI", "ANTI": "an ANTI"}
    for join in tree.find_all(exp.Join):
        condition = join.args.get("on")
        used = condition.find(exp.Placeholder) if condition is not None else None
        kind = str(join.kind).upper()
        if used is None or kind not in kinds:
            continue
        above: exp.Expr | None = join
        while above is not None:
            if isinstance(above, exp.Query) and (
                above.args.get("limit") or above.args.get("offset")
            ):
                raise query.error_at(
                    f":{used.name} is used in ON of {kinds[kind]} JOIN in a query that"
                    " is limited, which cannot be run for all subscriptions at once",
                    used,
                    field=used.name,
                    hint="use it in WHERE, or leave the LIMIT out",
                )
            above = above.parent


def is_run_value(placeholder: exp.Placeholder) -> bool:
    """Not a parameter of the channel but of each run, such as `window_start()`."""
    return placeholder.name.startswith("__")


def bind_parameters(tree: exp.Expr) -> exp.Expr:
    """`:p` becomes a column of the parameter table: data, never text."""

    def bind(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Placeholder) and not is_run_value(node):
            return exp.column(columns.parameter_column(node.name), table=PARAMETERS)
        return node

    return tree.transform(bind)


def bind_window(query: QueryText, tree: exp.Query) -> tuple[exp.Query, bool]:
    """`window_start()` and `window_end()` become values that each run gives to Spark."""
    used = False

    def bind(node: exp.Expr) -> exp.Expr:
        nonlocal used
        if isinstance(node, exp.Anonymous) and str(node.this).lower() in WINDOW_FUNCTIONS:
            if node.expressions:
                raise query.error(
                    f"{node.this}() takes no arguments", query.offset_of_call(str(node.this))
                )
            used = True
            return exp.Placeholder(this=WINDOW_FUNCTIONS[str(node.this).lower()])
        return node

    bound = tree.transform(bind)
    assert isinstance(bound, exp.Query)
    return bound, used


def bind_subscriber(query: QueryText, tree: exp.Query) -> tuple[exp.Query, bool]:
    """`current_subscriber()` becomes a parameter that is bound to the subscriber's own name."""
    used = False

    def bind(node: exp.Expr) -> exp.Expr:
        nonlocal used
        if (called(node) or "").lower() != CURRENT_SUBSCRIBER:
            return node
        if node.expressions:
            raise query.error(
                f"{CURRENT_SUBSCRIBER}() takes no arguments",
                query.offset_of_call(CURRENT_SUBSCRIBER),
            )
        used = True
        bound = exp.Placeholder(this=SUBSCRIBER.name)
        where = offset_of(node)
        if where is not None:
            bound.meta["start"] = where
        return bound

    bound = tree.transform(bind)
    assert isinstance(bound, exp.Query)
    return bound, used


def is_near(node: exp.Expr | None) -> bool:
    return isinstance(node, exp.Anonymous) and str(node.this).lower() == "near"


def expand_near(query: QueryText, tree: exp.Expr) -> exp.Expr:
    """Every `near(…)` becomes the exact great-circle test."""

    def expand(node: exp.Expr) -> exp.Expr:
        if not is_near(node):
            return node
        if len(node.expressions) != 5:
            raise query.error(
                f"near() takes 5 arguments, got {len(node.expressions)}",
                query.offset_of_call("near"),
                hint="near(lat1, lon1, lat2, lon2, km)",
            )
        return snippet(near.exact(*(to_spark(argument) for argument in node.expressions)))

    return tree.transform(expand)
