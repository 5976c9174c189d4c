"""What a query may consist of: an allowed set of syntax and of functions, and nothing else.

Queries run inside the cluster, which holds the secret, its files and its databases; so no query may
start a program, read a file or an environment variable, or ask who and where it is. Three walls
stand between a text and that, each of which allows and none of which forbids:

1. here, the author's tree, so that a refusal says where and what to write instead;
2. `spark_reading`: what Spark's own parser reads in the text that it is given, so that it does not
   matter whether sqlglot reads a text as Spark does;
3. the session (`spark/session.py`): SQL on files and substitution of variables are off, and Java
   was started without our environment (`spark/java_environment.py`).

The secret's own file in the data directory is thereby out of reach: no allowed syntax names a file.
What compiling makes of an allowed query (see `parts`) comes after this check, and passes the next.
"""

from __future__ import annotations

import difflib
import re

from sqlglot import exp

from tocsin.errors import StatementError
from tocsin.protocol.columns import POSITION, RECEIVED_AT
from tocsin.spark.channels.allowed_functions import (
    ALLOWED,
    CLOCK,
    REFUSED,
    TABLE_FUNCTIONS,
)
from tocsin.spark.channels.dialect import QueryText, called, offset_of

OURS = frozenset(("near", "current_subscriber"))
OURS_IN_CHANNELS = frozenset(("window_start", "window_end"))

_QUERIES = (
    exp.Select, exp.Subquery, exp.Union, exp.Intersect, exp.Except, exp.With, exp.CTE, exp.From,
    exp.Where, exp.Join, exp.Group, exp.Having, exp.Order, exp.Ordered, exp.Limit, exp.Offset,
    exp.Distinct, exp.Window, exp.WindowSpec, exp.Lateral, exp.Table, exp.TableAlias, exp.Values,
    exp.Pivot, exp.PivotAlias, exp.GroupingSets, exp.Rollup, exp.Cube, exp.Filter, exp.WithinGroup,
    exp.IgnoreNulls, exp.RespectNulls,
)  # fmt: skip
_NAMES_AND_VALUES = (
    exp.Alias, exp.Aliases, exp.Column, exp.Identifier, exp.Star, exp.Dot, exp.Bracket, exp.Literal,
    exp.Null, exp.Boolean, exp.Placeholder, exp.DataType, exp.DataTypeParam, exp.ColumnDef,
    exp.Interval, exp.IntervalSpan, exp.Var, exp.HexString, exp.RawString, exp.Tuple, exp.Paren,
    exp.Lambda, exp.Kwarg, exp.PropertyEQ, exp.JSONPath, *exp.JSONPathPart.__subclasses__(),
)  # fmt: skip
_OPERATORS = (
    exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg, exp.BitwiseAnd, exp.BitwiseOr,
    exp.BitwiseXor, exp.BitwiseNot, exp.BitwiseLeftShift, exp.BitwiseRightShift, exp.DPipe, exp.EQ,
    exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is, exp.Like,
    exp.ILike, exp.Between, exp.In, exp.Escape, exp.Not, exp.Any, exp.All, exp.Collate,
    exp.AtTimeZone, exp.FromTimeZone,
)  # fmt: skip
NODES = frozenset((*_QUERIES, *_NAMES_AND_VALUES, *_OPERATORS))
"""Everything but functions, which are known by the names they were called by."""

_CLOCKS = (exp.CurrentDate, exp.CurrentTime, exp.CurrentTimestamp, exp.Localtimestamp)
_MOMENTS = ("now", "today", "yesterday", "tomorrow")  # what Spark takes for times by the clock
_TIMES = exp.DataType.TEMPORAL_TYPES
_TIMES_OF_DAY = (exp.DataType.Type.TIME, exp.DataType.Type.TIMETZ)
REPEATABLE = "use the records' own fields, window_start() or window_end()"
_PLAIN = "leave out what is before the dot"
_SAID: dict[type[exp.Expr], tuple[str, str, str]] = {
    exp.QueryTransform: ("TRANSFORM", "TRANSFORM … USING would start a program", ""),
    exp.TableSample: (
        "TABLESAMPLE",
        "TABLESAMPLE gives another answer each time, so a run could not be repeated",
        "",
    ),
    exp.Version: ("", "a dataset has no versions", f"use {POSITION} or {RECEIVED_AT}"),
    exp.Hint: ("/*+", "hints are not available", "Tocsin chooses how to join"),
}
"""What is refused by an own word: where it is found in the text, why, and what to do instead."""


def check_allowed(query: QueryText, tree: exp.Query, *, channel: bool) -> None:
    """Refuse what is not allowed, with its place. A channel's query must also be repeatable."""
    for node in tree.walk(bfs=False):
        if isinstance(node, exp.Hint):
            raise _refused(query, node)  # before its insides, whose places are their own
        name = called(node)
        if name is not None:
            _check_name(query, node, name.lower(), channel=channel)
        known = isinstance(node, exp.Func) if name is not None else _is_generated(node)
        if not known and type(node) not in NODES:
            raise _refused(query, node)
        _check_place(query, node)
        if channel:
            _check_repeatable(query, node)


def _is_generated(node: exp.Expr) -> bool:
    """A function that nobody called: an operator, or what sqlglot makes of an allowed one."""
    return isinstance(node, exp.Func) and not isinstance(node, exp.Anonymous)


def _check_name(query: QueryText, node: exp.Expr, name: str, *, channel: bool) -> None:
    if name in ALLOWED or name in OURS:
        return
    if name in CLOCK:
        if channel:
            raise query.error_at(
                f"{name}() gives another answer each time, so a run could not be repeated",
                node,
                hint=REPEATABLE,
            )
        return
    if name in OURS_IN_CHANNELS:
        if not channel:
            raise query.error_at(f"{name}() has a meaning in channels only", node)
        return
    if name in REFUSED:
        hint = "use the records' own fields" if "each time" in REFUSED[name] else None
        raise query.error_at(f"{name}() is not available: {REFUSED[name]}", node, hint=hint)
    if name == "identifier":
        raise query.error_at("IDENTIFIER() is not available", node, hint="write the name itself")
    raise query.error_at(f"there is no function {name}()", node, hint=nearest(name))


def nearest(name: str) -> str:
    close = difflib.get_close_matches(name, ALLOWED | CLOCK | OURS, n=1)
    return f"did you mean {close[0]}()?" if close else "docs/reference/sql.md lists the functions"


def _check_place(query: QueryText, node: exp.Expr) -> None:
    """Names are plain ones, and a function in FROM is one that gives rows."""
    if isinstance(node, exp.Dot) and not isinstance(node.expression, exp.Identifier | exp.Star):
        raise query.error_at("functions have plain names", node.expression, hint=_PLAIN)
    if isinstance(node, exp.Table):
        source = node.this
        if isinstance(source, exp.Func):
            name = (called(source) or "").lower()
            if node.args.get("db"):
                raise query.error_at("functions have plain names", node, hint=_PLAIN)
            if name in ALLOWED - TABLE_FUNCTIONS:
                listed = ", ".join(sorted(TABLE_FUNCTIONS))
                raise query.error_at(f"{name}() gives no rows to select from", node, hint=listed)
        elif not isinstance(source, exp.Identifier):
            raise query.error_at("a dataset's name is expected", node)
    if isinstance(node, exp.Placeholder) and (
        node.args.get("widget") or not node.name.isidentifier()
    ):
        raise query.error_at("a parameter is written as :name", node)
    if isinstance(node, exp.DataType) and node.this in _TIMES_OF_DAY:
        raise query.error_at("there is no type TIME", node.parent or node, hint="use TIMESTAMP")
    if node.args.get("windows"):
        raise query.error_at(
            "a WINDOW clause is not available",
            node.args["windows"][0],
            hint="write the window after OVER",
        )


def _check_repeatable(query: QueryText, node: exp.Expr) -> None:
    if isinstance(node, _CLOCKS):
        raise query.error_at(
            "the current time gives another answer each time, so a run could not be repeated",
            node,
            hint=REPEATABLE,
        )
    if isinstance(node, exp.Cast) and node.this.is_string and node.to.this in _TIMES:
        moment = node.this.name.strip().lower()
        if moment.startswith(_MOMENTS):
            raise query.error_at(
                f"'{moment}' is another time in each run, so a run could not be repeated",
                node,
                hint=REPEATABLE,
            )


def _refused(query: QueryText, node: exp.Expr) -> StatementError:
    word, reason, hint = _SAID.get(type(node), ("", "", ""))
    if not reason:
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", type(node).__name__)
        reason = f"{words.upper()} is not available in queries"
    where = query.offset_of_word(word) if word else offset_of(node)
    if where is None and node.parent is not None:
        where = offset_of(node.parent)
    return query.error(reason, where, hint=hint or None)
