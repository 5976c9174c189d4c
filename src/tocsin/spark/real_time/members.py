"""What a channel is in a query that it shares with others of its dataset. Pure: no Spark here.

A *member* is a channel with certain parameters open. Its parameters get *slots*: the n-th one of a
type is called alike in all members, so that members whose queries differ in names alone have one
*form*, and their parameter sets lie in the same columns.

A form's key says how a record and a parameter set find each other: by equal values, and by an index
where there is one. It only finds candidates. The whole condition is looked at for each of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from msgspec import Struct
from sqlglot import exp

from tocsin.errors import InvalidInput
from tocsin.model import Dataset, Parameter
from tocsin.protocol import columns
from tocsin.spark.channels import CompiledChannel
from tocsin.spark.channels.dialect import to_spark
from tocsin.spark.channels.links import (
    Index,
    conjuncts,
    equal_sides,
    near_index,
    range_index,
)
from tocsin.spark.channels.matching import JSON_OPTIONS
from tocsin.spark.channels.openings import Mask, without
from tocsin.spark.channels.query import bind_parameters, expand_near
from tocsin.spark.records import quoted

RECORD = "__r"
"""The record, whatever alias a member's query gives it."""


class Value(Struct, frozen=True):
    """What an equality compares, in one type on both sides."""

    record: str
    parameters: str


class Key(Struct, frozen=True):
    values: tuple[Value, ...]
    index: Index | None


class Form(Struct, frozen=True):
    """SQL over a record and the slots of a parameter set."""

    condition: str
    payload: str
    key: Key


class Slot(Struct, frozen=True):
    """A column of parameter sets, and which argument it holds."""

    column: str
    type: str
    argument: str


class Member(Struct, frozen=True):
    """`parameters` are all those of the channel, of which its sets leave those of `mask` open."""

    channel: str
    mask: Mask
    parameters: tuple[str, ...]
    slots: tuple[Slot, ...]
    form: Form


ComparedTypes = Callable[[Sequence[str], Dataset, Sequence[Slot]], Sequence[str | None]]
"""For each of these equalities the type in which Spark compares its sides; None: it has none."""


def make_member(compiled: CompiledChannel, mask: Mask, compared_types: ComparedTypes) -> Member:
    """Raises InvalidInput with the reason why the channel cannot share a query."""
    (tree,) = compiled.trees
    (name,) = compiled.new
    select = without(tree, mask, compiled.always_given)
    assert isinstance(select, exp.Select)
    slots = dict(_slots(p for p in compiled.channel.parameters if p.name.lower() not in mask))
    select = _with_slots(select, slots)
    _call_record(select, str(select.args["from_"].this.alias))
    where = select.args.get("where")
    conditions = conjuncts(where.this if where is not None else None)

    def text(node: exp.Expr) -> str:
        return to_spark(expand_near(compiled.query, bind_parameters(node.copy())))

    dataset = compiled.datasets[name]
    in_order = tuple(slots.values())
    pairs = [
        (text(record), text(given)) for record, given in filter(None, map(equal_sides, conditions))
    ]
    equalities = [f"({record}) = ({given})" for record, given in pairs]
    kinds = compared_types(equalities, dataset, in_order) if pairs else ()
    values = tuple(_values(pairs, kinds))
    form = Form(
        " AND ".join(f"({text(condition)})" for condition in conditions) or "true",
        _payload(_outputs(select, dataset), text),
        Key(values, _index(conditions, in_order, dataset, values)),
    )
    return Member(
        compiled.channel.name,
        mask,
        tuple(parameter.name for parameter in compiled.channel.parameters),
        in_order,
        form,
    )


def _slots(parameters: Iterable[Parameter]) -> Iterator[tuple[str, Slot]]:
    """By the parameter's name in lower case."""
    counts: Counter[str] = Counter()
    for parameter in parameters:
        kind = re.sub(r"\W+", "_", parameter.type.lower()).strip("_")
        column = columns.parameter_column(f"{kind}_{counts[kind]}")
        counts[kind] += 1
        yield parameter.name.lower(), Slot(column, parameter.type, parameter.name)


def _placeholder(slot: Slot) -> str:
    """The parameter as which a slot stands in a query."""
    return slot.column.removeprefix(columns.parameter_column(""))


def _with_slots(select: exp.Select, slots: dict[str, Slot]) -> exp.Select:
    def rename(node: exp.Expr) -> exp.Expr:
        slot = slots.get(node.name.lower()) if isinstance(node, exp.Placeholder) else None
        return node if slot is None else exp.Placeholder(this=_placeholder(slot))

    renamed = select.transform(rename)
    assert isinstance(renamed, exp.Select)
    return renamed


def _call_record(select: exp.Select, alias: str) -> None:
    """Let all that names the record by its alias name it by ours."""
    for function in select.find_all(exp.Lambda):
        if any(argument.name.lower() == alias.lower() for argument in function.expressions):
            raise InvalidInput(f"{alias!r} means both the record and something of a function")
    for column in select.find_all(exp.Column):
        first, *rest = column.parts
        if rest and first.name.lower() == alias.lower():
            first.replace(exp.to_identifier(RECORD))


def _outputs(select: exp.Select, dataset: Dataset) -> Iterator[tuple[str, exp.Expr]]:
    """The visible columns of a result, by their names."""
    for output in select.selects:
        if output.is_star:
            star = output.this if isinstance(output, exp.Column) else output
            left_out = {name.name.lower() for name in star.args.get("except_") or []}
            if any(value for key, value in star.args.items() if key != "except_"):
                raise InvalidInput(f"its columns are chosen by {to_spark(output)}")
            for column in dataset.columns:
                if column.name.lower() not in left_out:
                    yield column.name, exp.column(column.name, table=RECORD, quoted=True)
        elif not columns.is_system(output.alias_or_name):
            yield output.alias_or_name, output.unalias()


def _payload(outputs: Iterable[tuple[str, exp.Expr]], text: Callable[[exp.Expr], str]) -> str:
    """As `matching.as_json`, in SQL."""
    fields = ", ".join(f"{text(value)} AS {quoted(name)}" for name, value in outputs)
    options = ", ".join(f'"{name}", "{value}"' for name, value in JSON_OPTIONS.items())
    return f"TO_JSON(STRUCT({fields}), MAP({options}))"


def _values(pairs: Iterable[tuple[str, str]], kinds: Iterable[str | None]) -> Iterator[Value]:
    for (record, given), kind in zip(pairs, kinds, strict=True):
        if kind is not None:
            yield Value(f"CAST({record} AS {kind})", f"CAST({given} AS {kind})")


def _index(
    conditions: list[exp.Expr], slots: Sequence[Slot], dataset: Dataset, values: Sequence[Value]
) -> Index | None:
    nearness = (near_index(condition, streaming=True) for condition in conditions)
    index = next((index for index in nearness if index is not None), None)
    if index is not None or values:
        return index
    types = {_placeholder(slot): slot.type for slot in slots}
    known = {column.name.lower(): column.type for column in dataset.columns}
    known |= {f"{RECORD}.{name}": kind for name, kind in known.items()}
    return range_index(conditions, types, known)
