"""One query joined with parameter sets: a *part* of a compiled channel. Pure: no Spark here.

Three forms. *flat*: records joined with the parameter table, the fast one. *grouped*: the same,
with the backend subscription added to GROUP BY or DISTINCT. *lateral*: the query, whatever it is,
once for each parameter set; Spark turns it into joins. Where a key can help it, the query inside
meets the parameter sets by that key, and each set then takes what is its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct
from sqlglot import exp

from tocsin.model import Dataset, Parameter
from tocsin.protocol import columns
from tocsin.spark.channels.anchors import add_parameters, anchor
from tocsin.spark.channels.dialect import QueryText, snippet, to_spark
from tocsin.spark.channels.forms import Shape, shape_of, why_not_streamable
from tocsin.spark.channels.keyed import Keyed
from tocsin.spark.channels.links import (
    Index,
    column_types,
    conjuncts,
    equal_sides,
    has_parameter,
    near_index,
    parameters_of,
    range_index,
)
from tocsin.spark.channels.nearby import join_by_cells
from tocsin.spark.channels.query import (
    PARAMETERS,
    PARAMETERS_MARKER,
    SAME_SET,
    SETS,
    bind_parameters,
    expand_near,
)

_PROBE = "__x"
_PROBE_MARKER = "__probe_marker"


class Part(Struct, frozen=True):
    """`sql` names its tables by markers, which `match` replaces by the views of one run.

    Its parameter table has a column for each of `parameters`, and what `keys` generates of them: a
    row for each key that a parameter set is found by. Without `keys`, one row. `facts` are
    aggregates over the table, whose values `sql` and `keys` take by name. `keyed` are the views of
    datasets that `sql` reads, with the key that each is given.
    """

    sql: str
    form: str
    strategy: str
    why: str
    parameters: tuple[Parameter, ...]
    needs_new_records: bool = False
    keyed: tuple[Keyed, ...] = ()
    keys: str | None = None
    facts: tuple[tuple[str, str], ...] = ()
    not_streamable: str = ""
    by_record: bool = False  # each row stems from one new record, whose position orders it


def make_part(
    query: QueryText,
    tree: exp.Query,
    parameters: tuple[Parameter, ...],
    datasets: Mapping[str, Dataset],
    *,
    even: bool = False,
) -> Part:
    """The query in the fastest form it can take; the tree is used up. `even`: exactly the query's
    own columns and ours, since others stand beside it in a union."""
    uneven = "in a union it needs a plain list of columns"
    shape = shape_of(tree, uneven if even and _is_uneven(tree) else None)
    if shape.form != "lateral":
        return _joined(query, shape, parameters, datasets)
    keyed = _keyed_lateral(query, shape, parameters, datasets)
    if keyed is not None:
        return keyed
    sql = _lateral(query, tree, f"{PARAMETERS_MARKER} AS {SETS}", anchored=True)
    why = shape.reason
    return Part(sql, "lateral", "once per parameter set", why, parameters, not_streamable=why)


def _is_uneven(tree: exp.Query) -> bool:
    """Joined forms would show a column of ours more, or one less."""
    return bool(tree.args.get("distinct") or any(output.is_star for output in tree.selects))


def _finished(query: QueryText, tree: exp.Expr) -> str:
    return to_spark(expand_near(query, bind_parameters(tree)))


def _output(value: str, name: str) -> exp.Expr:
    return exp.alias_(snippet(value), name)


def _joined(
    query: QueryText,
    shape: Shape,
    parameters: tuple[Parameter, ...],
    datasets: Mapping[str, Dataset],
) -> Part:
    """The flat and the grouped form."""
    select = shape.select
    assert select is not None
    not_streamable = why_not_streamable(select, shape)
    if shape.form != "flat":
        not_streamable = "it groups its rows"
    by_record = _is_by_record(select, shape)
    conditions = [*shape.moved, *conjuncts(_popped(select, "where"))]
    index, strategy, why = _strategy(conditions, parameters, shape, datasets)
    cells, keyed, reaches = join_by_cells(conditions, shape.tables, datasets)
    if cells:
        strategy += ", datasets joined on grid cells"
    conditions += cells
    if index is not None:
        conditions.append(_probe(select, index))
    _join_parameters(select, shape, conditions)
    _hint(select, shape.new_aliases)
    return Part(
        _limited(_probed(_finished(query, select), index), shape),
        shape.form,
        strategy,
        why,
        parameters,
        shape.needs_new_records,
        tuple(keyed),
        f"EXPLODE({index.keys}) AS {columns.KEY}" if index else None,
        (*(index.facts if index else ()), *reaches),
        not_streamable,
        by_record,
    )


def _limited(sql: str, shape: Shape) -> str:
    if shape.limit is None:
        return sql
    return f"SELECT * FROM ({sql}) AS __w WHERE {columns.ROW_ORDER} <= {shape.limit}"  # noqa: S608


def _is_by_record(select: exp.Select, shape: Shape) -> bool:
    return (
        shape.form == "flat"
        and shape.leading in shape.new_aliases
        and shape.limit is None
        and not (select.args.get("order") or select.args.get("distinct"))
    )


def _join_parameters(select: exp.Select, shape: Shape, conditions: list[exp.Expr]) -> None:
    """Put the parameter table beside the query's sources, and whom a row is for into the row."""
    add_parameters(select, first=shape.parameters_first)
    if conditions:
        select.set("where", exp.Where(this=exp.and_(*conditions, copy=False)))
    if not select.args.get("distinct"):
        select.append("expressions", _output(_order(select, shape), columns.ROW_ORDER))
    select.append("expressions", _output(f"{PARAMETERS}.{columns.BACKEND}", columns.ROW_BACKEND))
    group = select.args.get("group")
    if group is not None:
        # Values of one parameter set are constants of its groups, which Spark cannot know.
        names = [columns.BACKEND, *map(columns.parameter_column, sorted(parameters_of(select)))]
        ours = [exp.column(name, table=PARAMETERS) for name in names]
        group.set("expressions", [*ours, *group.expressions])


def _probe(select: exp.Select, index: Index) -> exp.Expr:
    """The condition by which records meet the keys of parameter sets."""
    if not index.probes:
        return snippet(f"{index.probe} = {PARAMETERS}.{columns.KEY}")
    _add_join(select, exp.Table(this=exp.to_identifier(_PROBE_MARKER)))
    return snippet(f"{_PROBE}.{columns.PROBE_KEY} = {PARAMETERS}.{columns.KEY}")


def _probed(sql: str, index: Index | None) -> str:
    if index is None or not index.probes:
        return sql
    probe = f"LATERAL EXPLODE({index.probe}) AS {_PROBE}({columns.PROBE_KEY})"
    return sql.replace(_PROBE_MARKER, probe)


def _popped(select: exp.Select, part: str) -> exp.Expr | None:
    clause = select.args.get(part)
    if clause is None:
        return None
    select.set(part, None)
    condition: exp.Expr = clause.this
    return condition


def _add_join(select: exp.Select, table: exp.Expr) -> None:
    select.append("joins", exp.Join(this=table, kind="CROSS"))


def _strategy(
    conditions: list[exp.Expr],
    parameters: tuple[Parameter, ...],
    shape: Shape,
    datasets: Mapping[str, Dataset],
) -> tuple[Index | None, str, str]:
    equal = any(equal_sides(condition) is not None for condition in conditions)
    for condition in conditions:
        index = near_index(condition)
        if index is not None and not (index.probes and shape.parameters_first):
            also = " and equality" if equal else ""
            return index, f"hash join on grid cells{also}", "near() links records and parameters"
    if equal:
        return None, "hash join", "an equality links records and parameters"
    types = {parameter.name.lower(): parameter.type for parameter in parameters}
    index = range_index(conditions, types, column_types(shape.tables, datasets))
    if index is not None and not shape.parameters_first:
        return index, "hash join on dyadic ranges", "a range links records and parameters"
    if not any(map(has_parameter, conditions)):
        return None, "one for all", "no condition depends on a parameter"
    return (
        None,
        "nested loop over records and parameter sets",
        "no equality, near() or range has records on one side and parameters on the other",
    )


def _order(select: exp.Select, shape: Shape) -> str:
    """A number to sort a backend subscription's results by."""
    order = select.args.get("order")
    if order is not None:
        keys = ", ".join(_text(key) for key in resolved_order(select, order))
        select.set("order", None)
        return _numbered(keys, f"PARTITION BY {PARAMETERS}.{columns.BACKEND}")
    position = f"`{shape.leading}`.`{columns.POSITION}`"
    if shape.leading is None:
        position = "CAST(0 AS BIGINT)"
    elif shape.form == "grouped":
        position = f"MIN({position})"
    if shape.limit is not None:
        return _numbered(position, f"PARTITION BY {PARAMETERS}.{columns.BACKEND}")
    return f"COALESCE({position}, CAST(0 AS BIGINT))"


def _text(node: exp.Expr) -> str:
    return to_spark(bind_parameters(node.copy()))


def resolved_order(select: exp.Select, order: exp.Expr) -> list[exp.Expr]:
    """ORDER BY keys with ordinals and aliases replaced by what they stand for."""
    outputs = select.selects
    named = {
        output.alias.lower(): output.this for output in outputs if isinstance(output, exp.Alias)
    }

    def resolve(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Column) and not node.table and node.name.lower() in named:
            return exp.Paren(this=named[node.name.lower()].copy())
        return node

    keys: list[exp.Expr] = []
    for key in order.expressions:
        key = key.copy()
        if isinstance(key.this, exp.Literal) and key.this.is_int:
            ordinal = int(key.this.name)
            if 1 <= ordinal <= len(outputs) and not any(o.is_star for o in outputs[:ordinal]):
                key.set("this", exp.Paren(this=outputs[ordinal - 1].unalias().copy()))
        else:
            key.set("this", key.this.transform(resolve))
        keys.append(key)
    return keys


def _order_of_outputs(tree: exp.Query, order: exp.Expr) -> list[exp.Expr]:
    """ORDER BY keys of distinct rows or of several queries, by the names of their columns."""
    named = {to_spark(output.unalias()).lower(): output.alias_or_name for output in tree.selects}
    named |= {output.name.lower(): output.alias_or_name for output in tree.selects if output.name}
    named |= {output.alias_or_name.lower(): output.alias_or_name for output in tree.selects}

    def resolve(node: exp.Expr) -> exp.Expr:
        name = named.get(to_spark(node).lower())
        return exp.column(exp.to_identifier(name, quoted=True)) if name else node

    keys: list[exp.Expr] = []
    for key in order.expressions:
        key = key.copy()
        if isinstance(key.this, exp.Literal) and key.this.is_int:
            name = tree.selects[int(key.this.name) - 1].alias_or_name
            key.set("this", exp.column(exp.to_identifier(name, quoted=True)))
        else:
            key.set("this", key.this.transform(resolve))
        keys.append(key)
    return keys


def _hint(select: exp.Select, small: Iterable[str]) -> None:
    """What to send to the other side. A batch of new records is small beside the parameters."""
    tables = [exp.column(exp.to_identifier(alias)) for alias in small]
    if tables:
        hint = exp.Anonymous(this="BROADCAST", expressions=tables)
        select.set("hint", exp.Hint(expressions=[hint]))


def _keyed_lateral(
    query: QueryText,
    shape: Shape,
    parameters: tuple[Parameter, ...],
    datasets: Mapping[str, Dataset],
) -> Part | None:
    """The lateral form with a key to join on; None when there is none to be had."""
    select = shape.select
    if select is None:
        return None
    conditions = [*shape.moved, *conjuncts(_popped(select, "where"))]
    index, strategy, _ = _strategy(conditions, parameters, shape, datasets)
    cells, keyed, reaches = join_by_cells(conditions, shape.tables, datasets)
    if index is None and not cells:
        return None
    conditions += cells
    sets = f"{PARAMETERS_MARKER} AS {SETS}"
    if index is not None:
        conditions.append(_probe(select, index))
        # A set has a row for each of its keys, and one at least.
        once = ("SELECT * FROM", PARAMETERS_MARKER, f"WHERE COALESCE({columns.KEY_NUMBER}, 0) = 0")
        sets = f"({' '.join(once)}) AS {SETS}"
    if any(map(has_parameter, conditions)):
        conditions.append(snippet(SAME_SET))
        add_parameters(select, first=False)
    select.set("where", exp.Where(this=exp.and_(*conditions, copy=False)))
    also = ", datasets joined on grid cells" if cells else ""
    number = columns.KEY_NUMBER
    return Part(
        _probed(_lateral(query, select, sets), index),
        "lateral",
        f"once per parameter set, {strategy}{also}",
        shape.reason,
        parameters,
        keyed=tuple(keyed),
        keys=f"POSEXPLODE_OUTER({index.keys}) AS ({number}, {columns.KEY})" if index else None,
        facts=(*(index.facts if index else ()), *reaches),
        not_streamable=shape.reason,
    )


def _lateral(query: QueryText, tree: exp.Query, sets: str, *, anchored: bool = False) -> str:
    """The query for each of `sets`: a table of parameter sets, and its alias. `anchored`: the
    query's own sources have no parameters yet."""
    order = tree.args.get("order")
    if order is None:
        tree = _with_output(tree, "CAST(0 AS BIGINT)", wrap=True)
    elif isinstance(tree, exp.Select) and not tree.args.get("distinct"):
        keys = ", ".join(to_spark(key) for key in resolved_order(tree, order))
        tree = _with_output(
            tree, f"CAST(ROW_NUMBER() OVER (ORDER BY {keys}) AS BIGINT)", wrap=False
        )
    else:
        keys = ", ".join(to_spark(key) for key in _order_of_outputs(tree, order))
        tree = _with_output(tree, _numbered(keys), wrap=True)
    if anchored:
        tree = anchor(query, tree)
    outputs = f"__q.*, {SETS}.{columns.BACKEND} AS {columns.ROW_BACKEND}"
    sources = f"{sets}, LATERAL ({_finished(query, tree)}) AS __q"
    return " ".join(("SELECT", outputs, "FROM", sources))


def _numbered(keys: str, partition: str = "") -> str:
    return f"CAST(ROW_NUMBER() OVER ({partition} ORDER BY {keys}) AS BIGINT)"


def _with_output(tree: exp.Query, value: str, *, wrap: bool) -> exp.Query:
    output = _output(value, columns.ROW_ORDER)
    if not wrap:
        tree.append("expressions", output)
        return tree
    return exp.select("*", output).from_(tree.subquery("__w"))
