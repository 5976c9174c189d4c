"""Open parameters: which ones a subscription may leave open, and the query when some are. Pure.

A parameter is *open* when the subscription gives `ANY` for it. The query is then read without the
conditions that name it, as if their author had not written them. A *condition* is one of those that
AND joins in WHERE, or in ON of an inner join; BETWEEN is two. A parameter that stands anywhere else
must be given: nothing says what the query would mean without it. A parameter that is REQUIRED or
bound to a claim is always given, and no condition that names one falls away: whatever else it names
must be given as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from msgspec import Struct
from sqlglot import exp

from tocsin.errors import InvalidInput
from tocsin.model import ANY, SUBSCRIBER, Arguments, Channel, Parameter
from tocsin.spark.channels.dialect import QueryText, parse_query
from tocsin.spark.channels.forms import halves_of, is_inner
from tocsin.spark.channels.links import conjuncts, parameters_of
from tocsin.spark.channels.query import CURRENT_SUBSCRIBER, bind_subscriber, is_run_value

Mask = frozenset[str]
"""The parameters that a parameter set leaves open, in lower case."""

_PLACES = {
    "with_": "in a WITH query",
    "expressions": "in the SELECT list",
    "from_": "in a derived table",
    "where": "inside OR, CASE or a subquery",
    "group": "in GROUP BY",
    "having": "in HAVING",
    "order": "in ORDER BY",
}


class Openings(Struct, frozen=True):
    """`conditions` has the parameters of each condition that may fall away; `needed` the parameters
    that must be given, and where they are used."""

    conditions: frozenset[Mask]
    needed: dict[str, str]


def mask_of(arguments: Arguments) -> Mask:
    return frozenset(name.lower() for name, value in arguments.items() if value == ANY)


def settle(channel: Channel, arguments: Arguments) -> Arguments:
    """The arguments, if they may be open where they are. One that has no effect any more, since
    others took its conditions away, is opened as well: equal questions have equal arguments."""
    mask = mask_of(arguments)
    if not mask:
        return arguments
    openings = openings_of(channel.query, always_given(channel.parameters))
    for name in arguments:
        lower = name.lower()
        if lower in mask and lower in openings.needed:
            raise InvalidInput(
                f"parameter {name!r} cannot be left open: it is used {openings.needed[lower]}",
                field=name,
                hint=f"give a value; DESCRIBE CHANNEL {channel.name} tells which may be open",
            )
    fallen = {name for names in openings.conditions if names & mask for name in names}
    left = {name for names in openings.conditions if not names & mask for name in names}
    idle = fallen - left - openings.needed.keys()
    return {name: dict(ANY) if name.lower() in idle else value for name, value in arguments.items()}


def always_given(parameters: Iterable[Parameter]) -> Mask:
    """The parameters that cannot be left open, whatever the query says."""
    declared = {parameter.name.lower() for parameter in parameters if parameter.needed}
    return frozenset((*declared, SUBSCRIBER.name))


@lru_cache(maxsize=1024)
def openings_of(text: str, given: Mask) -> Openings:
    """Of a channel's query, as its author wrote it; `given` cannot be left open."""
    query = QueryText(text)
    tree, _ = bind_subscriber(query, parse_query(query))
    return openings(queries_of(tree), given)


def queries_of(tree: exp.Query) -> list[exp.Query]:
    """Those of a plain UNION ALL, or the one."""
    return halves_of(tree) or [tree]


def openings(queries: Sequence[exp.Query], given: Mask = frozenset()) -> Openings:
    conditions: set[Mask] = set()
    needed: dict[str, str] = {}
    for query in queries:
        for holder, part in _holders(query):
            for condition in conjuncts(holder.args[part]):
                names = parameters_of(condition)
                if names & given:
                    tied = ", ".join(map(_shown, sorted(names & given)))
                    where = f"in one condition with {tied}, which cannot be left open"
                    needed |= {name: where for name in names - given - needed.keys()}
                elif names and _may_fall(condition):
                    conditions.add(names)
        left = without(query, frozenset().union(*conditions), given)
        for placeholder in left.find_all(exp.Placeholder):
            if not is_run_value(placeholder):
                needed.setdefault(placeholder.name.lower(), _where(left, placeholder))
    return Openings(frozenset(conditions), needed)


def _shown(name: str) -> str:
    return f"{CURRENT_SUBSCRIBER}()" if name == SUBSCRIBER.name else name


def without(query: exp.Query, mask: Mask, given: Mask = frozenset()) -> exp.Query:
    """A copy of the query, without the conditions that fall away when these are open; none that
    names a parameter of `given` does."""
    query = query.copy()
    for holder, part in _holders(query):
        every = conjuncts(holder.args[part])
        kept = [
            condition
            for condition in every
            if not _falls(parameters_of(condition), mask, given) or not _may_fall(condition)
        ]
        if len(kept) == len(every):
            continue
        if kept:
            holder.set(part, exp.and_(*kept, copy=False))
        elif isinstance(holder, exp.Where):
            query.set("where", None)
        else:
            holder.set("on", None)
            holder.set("kind", "CROSS")
    return query


def _falls(names: Mask, mask: Mask, given: Mask) -> bool:
    return bool(names & mask) and not names & given


def _holders(query: exp.Query) -> Iterator[tuple[exp.Expr, str]]:
    """Where conditions stand that AND joins."""
    if not isinstance(query, exp.Select):
        return
    if query.args.get("where") is not None:
        yield query.args["where"], "this"
    for join in query.args.get("joins") or []:
        if is_inner(join) and join.args.get("on") is not None:
            yield join, "on"


def _may_fall(condition: exp.Expr) -> bool:
    """Not one that weighs several: it might restrict otherwise, not less."""
    return condition.find(exp.Connector, exp.Case, exp.If, exp.Query) is None


def _where(query: exp.Query, placeholder: exp.Expr) -> str:
    """Where a parameter stands that must be given."""
    if not isinstance(query, exp.Select):
        return "in one of several queries that are combined"
    node: exp.Expr = placeholder
    while node.parent is not query:
        assert node.parent is not None
        if isinstance(node.parent, exp.Join) and node.parent.parent is query:
            return _in_join(node.parent, node)
        node = node.parent
    return _PLACES.get(str(node.arg_key), "outside WHERE")


def _in_join(join: exp.Join, node: exp.Expr) -> str:
    if node.arg_key == "this":
        return _PLACES["from_"]
    return _PLACES["where"] if is_inner(join) else "in the condition of an outer join"
