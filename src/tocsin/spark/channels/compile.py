"""A channel's query to Spark queries over the tables of its parameter sets. Pure: no Spark here.

A compiled channel has **parts**: one for each query of a UNION ALL, and one for any other query.
`parts` are those for parameter sets in which every parameter has a value; `parts_with(mask)` those
for the sets that leave the parameters of `mask` open, whose queries lack the conditions that fell
away (see `openings`). Each part has its own SQL, keys and facts (see `parts`), and so its own
parameter table. What a channel answers is the union over the masks in use of the UNION ALL of
their parts: `match` runs it. `analyse` lets Spark judge the outcome.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from msgspec import Struct
from sqlglot import exp

from tocsin.model import SUBSCRIBER, Channel, Dataset, Parameter
from tocsin.protocol.columns import is_system
from tocsin.spark.channels.allowed import check_allowed
from tocsin.spark.channels.dialect import QueryText, parse_query, to_spark
from tocsin.spark.channels.forms import turn_right_join
from tocsin.spark.channels.openings import (
    Mask,
    Openings,
    always_given,
    openings,
    queries_of,
    without,
)
from tocsin.spark.channels.parts import Part, make_part
from tocsin.spark.channels.query import (
    CURRENT_SUBSCRIBER,
    bind_subscriber,
    bind_window,
    check_parameters,
    mark_datasets,
    refuse_limited_joins,
    refuse_unused,
)
from tocsin.sql.statements import CreateChannel


class CompiledChannel(Struct, frozen=True):
    """`trees` are the channel's queries with datasets and window bound, from which parts are made;
    never changed."""

    channel: Channel
    query: QueryText
    stored: tuple[str, ...]
    new: tuple[str, ...]
    uses_window: bool
    openings: Openings
    trees: tuple[exp.Query, ...]
    datasets: Mapping[str, Dataset]
    known_parts: dict[Mask, tuple[Part, ...]]

    @property
    def always_given(self) -> Mask:
        """The parameters that no subscription leaves open."""
        return always_given(self.channel.parameters)

    @property
    def parts(self) -> tuple[Part, ...]:
        return self.parts_with(frozenset())

    def parts_with(self, mask: Mask) -> tuple[Part, ...]:
        """Made when a mask is first in use, and kept."""
        if mask not in self.known_parts:
            self.known_parts[mask] = self._make(mask)
        return self.known_parts[mask]

    def _make(self, mask: Mask) -> tuple[Part, ...]:
        given = tuple(
            parameter for parameter in self.channel.parameters if parameter.name.lower() not in mask
        )
        even = len(self.trees) > 1
        return tuple(
            make_part(
                self.query,
                without(tree, mask, self.always_given),
                given,
                self.datasets,
                even=even,
            )
            for tree in self.trees
        )

    @property
    def needs_new_records(self) -> bool:
        """Whatever is open: without new records there is no result."""
        return all(part.needs_new_records for part in self.parts)

    @property
    def by_record(self) -> bool:
        """Each result stems from one new record of one dataset, whose position orders it."""
        return len(self.new) == 1 and all(part.by_record for part in self.parts)

    def describe(self, masks: Iterable[Mask] = ()) -> list[tuple[str, str]]:
        """How it will run, for DESCRIBE CHANNEL; `masks` are those in use."""
        several = len(self.parts) > 1
        why = "each query of the UNION ALL takes its own form" if several else self.parts[0].why
        rows = [
            ("form", " + ".join(part.form for part in self.parts)),
            ("matching", _matching(self.parts)),
            ("why", why),
        ]
        needed = self.openings.needed
        names = [(parameter.name, parameter.name.lower()) for parameter in self.channel.given]
        rows += [
            (
                "bound",
                f"{_shown(parameter)}: the claim {parameter.claim!r} of the subscriber's token",
            )
            for parameter in self.channel.bound
        ]
        if names:
            always = self.always_given
            free = ", ".join(n for n, lower in names if lower not in needed and lower not in always)
            rows.append(("may be open", free or "none"))
        rows += [("must be given", f"{name}: {reason}") for name, reason in self._must_be_given()]
        opened = {
            ", ".join(name for name, lower in names if lower in mask): mask
            for mask in masks
            if mask
        }
        rows += [(f"with {m} open", _matching(self.parts_with(opened[m]))) for m in sorted(opened)]
        return rows

    def _must_be_given(self) -> Iterator[tuple[str, str]]:
        needed = self.openings.needed
        for parameter in self.channel.given:
            if parameter.required:
                yield parameter.name, "it is REQUIRED"
            elif parameter.name.lower() in needed:
                yield parameter.name, f"it is used {needed[parameter.name.lower()]}"


def _shown(parameter: Parameter) -> str:
    return f"{CURRENT_SUBSCRIBER}()" if parameter == SUBSCRIBER else parameter.name


def _matching(parts: tuple[Part, ...]) -> str:
    return " + ".join(part.strategy for part in parts)


def compile_channel(
    source: CreateChannel | Channel, datasets: Mapping[str, Dataset]
) -> CompiledChannel:
    """Compile a channel; a StatementError has the place in the text as its author wrote it."""
    query = _query_text(source)
    tree = parse_query(query)
    check_allowed(query, tree, channel=True)
    declared = tuple(p for p in source.parameters if p != SUBSCRIBER)
    check_parameters(query, tree, declared)
    if isinstance(source, CreateChannel):  # those made before there was this rule go on
        refuse_unused(query, tree, source.parameters)
    stored, new = mark_datasets(query, tree, datasets)
    if source.kind == "continuous" and not new:
        raise query.error(
            "a continuous channel looks at new records: mark a dataset NEW",
            0,
            hint="such as FROM NEW reports AS r",
        )
    _check_outputs(query, tree)
    _check_order(query, tree)
    tree, uses_window = bind_window(query, tree)
    tree, uses_subscriber = bind_subscriber(query, tree)
    turn_right_join(tree)
    refuse_limited_joins(query, tree)
    trees = tuple(queries_of(tree))
    channel = _channel(source, stored, new, uses_subscriber=uses_subscriber)
    compiled = CompiledChannel(
        channel=channel,
        query=query,
        stored=stored,
        new=new,
        uses_window=uses_window,
        openings=openings(trees, always_given(channel.parameters)),
        trees=trees,
        datasets=dict(datasets),
        known_parts={},
    )
    assert compiled.parts  # what cannot be compiled is refused here
    return compiled


def _query_text(source: CreateChannel | Channel) -> QueryText:
    if isinstance(source, CreateChannel):
        return QueryText(source.query, source.query_line, source.query_column)
    return QueryText(source.query)


def _channel(
    source: CreateChannel | Channel,
    stored: tuple[str, ...],
    new: tuple[str, ...],
    *,
    uses_subscriber: bool,
) -> Channel:
    if isinstance(source, Channel):
        return source
    return Channel(
        name=source.name,
        kind=source.kind,
        parameters=source.parameters + ((SUBSCRIBER,) if uses_subscriber else ()),
        query=source.query,
        reads=tuple(dict.fromkeys(new + stored)),
        new=new,
        period_s=source.period_s,
        push=source.push,
        delivery=source.delivery,
    )


def _check_order(query: QueryText, tree: exp.Query) -> None:
    """What an ORDER BY names must be known without knowing what * stands for."""
    order = tree.args.get("order")
    for key in order.expressions if order is not None else ():
        value = key.this
        if isinstance(value, exp.Literal) and value.is_int:
            shown = tree.selects[: int(value.name)]
            if not shown or len(shown) < int(value.name) or any(output.is_star for output in shown):
                raise query.error(
                    f"ORDER BY {value.name} does not say which column that is",
                    query.offset_of_last("order"),
                    hint="name the column",
                )
        elif to_spark(value).upper() == "ALL":
            raise query.error(
                "ORDER BY ALL does not say by which columns",
                query.offset_of_last("order"),
                hint="name the columns",
            )


def _check_outputs(query: QueryText, tree: exp.Query) -> None:
    """Every output has a name, each once, and one at least is visible. Stars: see `analyse`."""
    seen: set[str] = set()
    starred = False
    for column in tree.selects:
        if column.is_star:
            starred = True
            continue
        name = column.alias_or_name.lower()
        if not name or not isinstance(column, exp.Alias | exp.Column | exp.Dot):
            raise query.error_at(
                f"the result's column {to_spark(column)!r} has no name", column, hint="add an alias"
            )
        if name in seen and not is_system(name):
            raise query.error_at(
                f"two columns of the result are called {name!r}", column, field=name,
                hint="add an alias",
            )  # fmt: skip
        seen.add(name)
    if not starred and all(is_system(name) for name in seen):
        raise query.error(
            "the result has no visible column", 0, hint="names that begin with _ are not shown"
        )
