"""Text to statements: a small recursive descent over sqlglot's tokens.

Queries are kept as text here; `tocsin.spark.channels` compiles them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal, get_args

from sqlglot.tokenizer_core import TokenType

from tocsin.sql.beginnings import read_beginning
from tocsin.sql.create import CASE_RULE, Read, read_create
from tocsin.sql.filters import read_conditions
from tocsin.sql.grants import read_grant, read_revoke, read_show_grants
from tocsin.sql.literals import read_argument, read_literal
from tocsin.sql.quotas import read_drop_quota, read_set, read_show_quotas
from tocsin.sql.statements import (
    ChangeSubscription,
    Describe,
    Drop,
    Insert,
    Kind,
    Query,
    Show,
    Shown,
    Statement,
    Subscribe,
    SubscribeMany,
    SubscribeToDataset,
    Unsubscribe,
)
from tocsin.sql.tokens import Reader

_STARTS = (
    "CREATE, DROP, GRANT, REVOKE, SET, SUBSCRIBE, UNSUBSCRIBE, CHANGE, INSERT, SHOW, DESCRIBE, "
    "SELECT or WITH at the start of a statement"
)


MOST_STATEMENTS = 1000


def parse(text: str) -> list[Statement]:
    """Every statement of the text, in order; StatementError with line and column otherwise."""
    return list(statements_of(text))


def statements_of(text: str) -> Iterator[Statement]:
    """The same one by one, each read when it is asked for."""
    reader = Reader(text)
    count = 0
    while reader.token is not None:
        if reader.accept(";"):
            continue
        count += 1
        if count > MOST_STATEMENTS:
            reader.fail_at(
                reader.offset,
                f"a request has at most {MOST_STATEMENTS} statements",
                hint="send them in several requests",
            )
        statement = _statement(reader)
        if not reader.ended:
            reader.fail("';' or the end of the statement")
        yield statement


def parse_one(text: str) -> Statement:
    statements = parse(text)
    reader = Reader(text)
    if not statements:
        reader.fail(_STARTS)
    if len(statements) > 1:
        second = statements[1]
        reader.fail_at(
            text.index(second.text), "expected one statement", hint="send them one by one"
        )
    return statements[0]


def _statement(reader: Reader) -> Statement:
    start = reader.offset
    fields = _read(reader)
    end = reader.tokens[reader.at - 1].end + 1
    line, column = reader.place(start)
    kind, given = fields
    return kind(text=reader.text[start:end], line=line, column=column, **given)


def _read(reader: Reader) -> Read:
    starts: dict[str, Callable[[Reader], Read]] = {
        "CREATE": read_create,
        "DROP": _drop,
        "GRANT": read_grant,
        "REVOKE": read_revoke,
        "SET": read_set,
        "SUBSCRIBE": _subscribe,
        "UNSUBSCRIBE": _unsubscribe,
        "CHANGE": _change,
        "INSERT": _insert,
        "SHOW": _show,
        "DESCRIBE": _describe,
        "DESC": _describe,
    }
    if reader.sees("SELECT") or reader.sees("WITH"):
        reader.rest()
        return Query, {}
    for word, read in starts.items():
        if reader.accept(word):
            return read(reader)
    raise reader.expected(_STARTS)


def _drop(reader: Reader) -> Read:
    if reader.accept("QUOTA"):
        return read_drop_quota(reader)
    for kind in get_args(Kind):
        if reader.accept(kind.upper()):
            guarded = reader.accept("IF", "EXISTS")
            return Drop, {
                "kind": kind,
                "if_exists": guarded,
                "name": reader.name(f"a {kind}'s name"),
            }
    raise reader.expected("DATASET, CHANNEL, BROKER, ROLE or QUOTA")


def _subscribe(reader: Reader) -> Read:
    reader.expect("TO")
    if reader.sees("DATASET") and not reader.sees("DATASET", "("):
        return _subscribe_to_dataset(reader)
    channel = reader.name("a channel's name")
    if reader.accept("VALUES"):
        rows = [_arguments(reader)]
        while reader.accept(","):
            rows.append(_arguments(reader))
        return SubscribeMany, {"channel": channel, "rows": tuple(rows), **_where_and_when(reader)}
    arguments = _arguments(reader)
    return Subscribe, {"channel": channel, "arguments": arguments, **_where_and_when(reader)}


def _subscribe_to_dataset(reader: Reader) -> Read:
    reader.expect("DATASET")
    dataset = reader.name("a dataset's name")
    where = read_conditions(reader) if reader.accept("WHERE") else ()
    return SubscribeToDataset, {"dataset": dataset, "where": where, **_where_and_when(reader)}


def _where_and_when(reader: Reader) -> dict[str, Any]:
    """ON broker, FROM when; neither needs to be there."""
    given: dict[str, Any] = {}
    while True:
        if "broker" not in given and reader.accept("ON"):
            given["broker"] = reader.name("a broker's name")
        elif "beginning" not in given and reader.accept("FROM"):
            given["beginning"] = read_beginning(reader)
        else:
            return given


def _arguments(reader: Reader) -> list[Any] | dict[str, Any]:
    by_position: list[Any] = []
    by_name: dict[str, Any] = {}
    known: set[str] = set()

    def read(reader: Reader) -> None:
        start = reader.offset
        following = reader.tokens[reader.at + 1 : reader.at + 2]
        if following and following[0].token_type is TokenType.FARROW:
            name = reader.cased_name("a parameter's name")
            reader.expect("=>")
            if name.lower() in known:
                reader.fail_at(start, f"{name!r} is given twice", field=name)
            known.add(name.lower())
            by_name[name] = read_argument(reader)
        else:
            by_position.append(read_argument(reader))
        if by_position and by_name:
            reader.fail_at(start, "give arguments either by position or by name, not both")

    if not reader.accept("(", ")"):
        reader.listed(read, "an argument")
    return by_name or by_position


def _id(reader: Reader) -> int:
    number = reader.whole_number()
    if number is None:
        reader.fail("a subscription's number")
    return number


def _unsubscribe(reader: Reader) -> Read:
    return Unsubscribe, {"subscription": _id(reader)}


def _change(reader: Reader) -> Read:
    reader.expect("SUBSCRIPTION")
    subscription = _id(reader)
    reader.expect("TO")
    return ChangeSubscription, {
        "subscription": subscription,
        "broker": reader.name("a broker's name"),
    }


def _insert(reader: Reader) -> Read:
    reader.expect("INTO")
    dataset = reader.name("a dataset's name")
    columns = _named_columns(reader) if reader.sees("(") else None
    reader.expect("VALUES")
    rows: list[tuple[Any, ...]] = []
    rows_at: list[tuple[int, int]] = []
    while True:
        start = reader.offset
        rows_at.append(reader.place(start))
        row = reader.listed(read_literal, "a value")
        if columns is not None and len(row) != len(columns):
            reader.fail_at(start, f"this row has {len(row)} values for {len(columns)} columns")
        rows.append(tuple(row))
        if not reader.accept(","):
            break
    return Insert, {
        "dataset": dataset,
        "columns": columns,
        "rows": tuple(rows),
        "rows_at": tuple(rows_at),
    }


def _named_columns(reader: Reader) -> tuple[str, ...]:
    columns: list[str] = []
    known: set[str] = set()

    def read(reader: Reader) -> None:
        start = reader.offset
        column = reader.word("a column's name")
        if column.lower() in known:
            reader.fail_at(start, f"{column!r} is named twice", field=column, hint=CASE_RULE)
        known.add(column.lower())
        columns.append(column)

    reader.listed(read, "a column")
    return tuple(columns)


def _show(reader: Reader) -> Read:
    for what in get_args(Shown):
        if reader.accept(what.upper()):
            return Show, {"what": what}
    if reader.accept("GRANTS"):
        return read_show_grants(reader)
    if reader.accept("QUOTAS"):
        return read_show_quotas(reader)
    raise reader.expected("DATASETS, CHANNELS, BROKERS, SUBSCRIPTIONS, ROLES, GRANTS or QUOTAS")


def _describe(reader: Reader) -> Read:
    kind: Literal["dataset", "channel"] | None = None
    after = reader.tokens[reader.at + 1 : reader.at + 2]
    if after and after[0].token_type is not TokenType.SEMICOLON:
        if reader.accept("DATASET"):
            kind = "dataset"
        elif reader.accept("CHANNEL"):
            kind = "channel"
    return Describe, {"kind": kind, "name": reader.name("DATASET, CHANNEL or a name")}
