"""Text to statements: a small recursive descent over sqlglot's tokens.

Queries are kept as text here; `tocsin.spark.channels` compiles them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal, get_args

from sqlglot.tokenizer_core import TokenType

from tocsin.model import ChannelKind, Column, KafkaSource, MessageFormat, Parameter
from tocsin.protocol.columns import is_system
from tocsin.sql.beginnings import read_beginning
from tocsin.sql.delivery import read_delivery
from tocsin.sql.filters import read_conditions
from tocsin.sql.literals import read_argument, read_interval_s, read_literal
from tocsin.sql.names import by_lower
from tocsin.sql.reserved import RESERVED_FOR_DATASETS
from tocsin.sql.statements import (
    ChangeSubscription,
    CreateBroker,
    CreateChannel,
    CreateDataset,
    Describe,
    Drop,
    Insert,
    Kind,
    Query,
    Show,
    Shown,
    Statement,
    Subscribe,
    SubscribeToDataset,
    Unsubscribe,
)
from tocsin.sql.tokens import Reader, place
from tocsin.sql.types import SqlType, parse_type

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
CASE_RULE = "names that differ by capitals alone are the same name"
_STARTS = (
    "CREATE, DROP, SUBSCRIBE, UNSUBSCRIBE, CHANGE, INSERT, SHOW, DESCRIBE, SELECT or WITH at the "
    "start of a statement"
)


def parse(text: str) -> list[Statement]:
    """Every statement of the text, in order; StatementError with line and column otherwise."""
    reader = Reader(text)
    statements: list[Statement] = []
    while reader.token is not None:
        if reader.accept(";"):
            continue
        statements.append(_statement(reader))
        if not reader.ended:
            reader.fail("';' or the end of the statement")
    return statements


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
    line, column = place(reader.text, start)
    kind, given = fields
    return kind(text=reader.text[start:end], line=line, column=column, **given)


Read = tuple[type[Statement], dict[str, Any]]


def _read(reader: Reader) -> Read:
    starts: dict[str, Callable[[Reader], Read]] = {
        "CREATE": _create,
        "DROP": _drop,
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


def _create(reader: Reader) -> Read:
    if reader.accept("DATASET"):
        return _create_dataset(reader)
    if reader.accept("BROKER"):
        guarded = _if_not_exists(reader)
        name = reader.new_name("a broker's name")
        reader.expect("AT")
        url = reader.string("the broker's address in quotes")
        return CreateBroker, {"name": name, "url": url, "if_not_exists": guarded}
    kinds: tuple[ChannelKind, ...] = ("continuous", "repetitive")
    for word in kinds:
        if reader.accept(word.upper()):
            reader.expect("CHANNEL")
            return _create_channel(reader, word)
    raise reader.expected("DATASET, CONTINUOUS CHANNEL, REPETITIVE CHANNEL or BROKER")


def _if_not_exists(reader: Reader) -> bool:
    if not reader.accept("IF"):
        return False
    reader.expect("NOT", "EXISTS")
    return True


def _type(reader: Reader) -> SqlType:
    start = reader.offset
    reader.word("a type")
    end = reader.tokens[reader.at - 1].end + 1
    depth = 0
    while not reader.ended and (depth or reader.sees("<") or reader.sees("(")):
        text = reader.advance()
        raw = reader.text[text.start : text.end + 1]
        depth += raw.count("<") + raw.count("(") - raw.count(">") - raw.count(")")
        end = text.end + 1
    try:
        return parse_type(reader.text[start:end])
    except ValueError as error:
        reader.fail_at(start, str(error))


def _create_dataset(reader: Reader) -> Read:
    guarded = _if_not_exists(reader)
    name = reader.new_name("a dataset's name", RESERVED_FOR_DATASETS)
    types = _columns(reader)
    given: dict[str, Any] = {
        "name": name,
        "columns": tuple(Column(column, str(kind)) for column, kind in types.items()),
        "if_not_exists": guarded,
    }
    while not reader.ended:
        if "open" not in given and reader.accept("OPEN"):
            given["open"] = True
        elif "primary_key" not in given and reader.accept("PRIMARY"):
            reader.expect("KEY")
            given["primary_key"] = _primary_key(reader, types)
        elif "retain_s" not in given and reader.accept("RETAIN"):
            given["retain_s"] = read_interval_s(reader)
        elif "source" not in given and reader.accept("FROM"):
            given["source"] = _source(reader)
        elif "routed" not in given and reader.accept("ROUTED"):
            given["routed"] = True
        else:
            reader.fail(
                "OPEN, PRIMARY KEY, RETAIN INTERVAL, FROM KAFKA, ROUTED (each once) or the"
                " statement's end"
            )
    return CreateDataset, given


def _columns(reader: Reader) -> dict[str, SqlType]:
    reader.expect("(")
    types: dict[str, SqlType] = {}
    while True:
        start = reader.offset
        column = reader.word("a column's name")
        if is_system(column):
            reader.fail_at(
                start,
                f"a column cannot be called {column!r}",
                field=column,
                hint="names that begin with _ are kept for system columns",
            )
        if column.lower() in by_lower(types):
            reader.fail_at(
                start, f"two columns are called {column!r}", field=column, hint=CASE_RULE
            )
        reader.at -= 1
        column = reader.new_name("a column's name", folded=False)
        types[column] = _type(reader)
        if not reader.accept(","):
            break
    if not reader.accept(")"):
        reader.fail("',' or ')' after a column")
    return types


def _source(reader: Reader) -> KafkaSource:
    reader.expect("KAFKA")
    start = reader.offset
    topic = reader.string("a topic's name in quotes")
    if not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        reader.fail_at(
            start,
            f"{topic!r} cannot name a topic",
            field="topic",
            hint="topics have letters, digits, '.', '_' and '-', at most 249 of them",
        )
    if not reader.accept("FORMAT"):
        return KafkaSource(topic)
    for kind in get_args(MessageFormat):
        if reader.accept(kind.upper()):
            return KafkaSource(topic, kind)
    raise reader.expected("JSON or CSV")


def _primary_key(reader: Reader, types: dict[str, SqlType]) -> tuple[str, ...]:
    reader.expect("(")
    declared = by_lower(types)
    key: list[str] = []
    while True:
        start = reader.offset
        written = reader.cased_name("a primary key column")
        column = declared.get(written.lower(), "")
        if not column:
            reader.fail_at(
                start,
                f"the primary key names {written!r}, which is no column",
                field=written,
                hint=f"the columns are {', '.join(types)}",
            )
        if not types[column].scalar:
            reader.fail_at(
                start, f"{column!r} is {types[column]}: a key column is scalar", field=column
            )
        if column in key:
            reader.fail_at(start, f"the primary key names {column!r} twice", field=column)
        key.append(column)
        if not reader.accept(","):
            break
    reader.expect(")")
    return tuple(key)


def _parameters(reader: Reader) -> tuple[Parameter, ...]:
    reader.expect("(")
    parameters: dict[str, Parameter] = {}
    if reader.accept(")"):
        return ()
    while True:
        start = reader.offset
        name = reader.new_name("a parameter's name", folded=False)
        if name.lower() in by_lower(parameters):
            reader.fail_at(start, f"two parameters are called {name!r}", field=name, hint=CASE_RULE)
        type_at = reader.offset
        kind = _type(reader)
        if not kind.scalar:
            reader.fail_at(
                type_at,
                f"parameter {name!r} is {kind}: a parameter is scalar",
                field=name,
                hint="BOOLEAN, INT, BIGINT, FLOAT, DOUBLE, DECIMAL, STRING, TIMESTAMP or DATE",
            )
        parameters[name] = Parameter(name, str(kind))
        if not reader.accept(","):
            break
    if not reader.accept(")"):
        reader.fail("',' or ')' after a parameter")
    return tuple(parameters.values())


def _create_channel(reader: Reader, kind: ChannelKind) -> Read:
    guarded = _if_not_exists(reader)
    given: dict[str, Any] = {
        "name": reader.new_name("a channel's name"),
        "kind": kind,
        "if_not_exists": guarded,
        "parameters": _parameters(reader),
    }
    if kind == "repetitive":
        if not reader.sees("EVERY"):
            reader.fail("EVERY INTERVAL …", hint="a repetitive channel runs on a period")
        reader.expect("EVERY")
        given["period_s"] = read_interval_s(reader)
    elif reader.sees("EVERY"):
        reader.fail("AS or PUSH", hint="only a repetitive channel has a period")
    given["push"] = reader.accept("PUSH")
    given["delivery"] = read_delivery(reader, kind) if reader.accept("DELIVER") else None
    reader.expect("AS")
    if not (reader.sees("SELECT") or reader.sees("WITH") or reader.sees("(")):
        reader.fail("a query: SELECT or WITH")
    given["query"], start = reader.rest()
    given["query_line"], given["query_column"] = place(reader.text, start)
    return CreateChannel, given


def _drop(reader: Reader) -> Read:
    for kind in get_args(Kind):
        if reader.accept(kind.upper()):
            guarded = reader.accept("IF", "EXISTS")
            return Drop, {
                "kind": kind,
                "if_exists": guarded,
                "name": reader.name(f"a {kind}'s name"),
            }
    raise reader.expected("DATASET, CHANNEL or BROKER")


def _subscribe(reader: Reader) -> Read:
    reader.expect("TO")
    if reader.sees("DATASET") and not reader.sees("DATASET", "("):
        return _subscribe_to_dataset(reader)
    channel = reader.name("a channel's name")
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
    reader.expect("(")
    by_position: list[Any] = []
    by_name: dict[str, Any] = {}
    if reader.accept(")"):
        return by_position
    while True:
        start = reader.offset
        following = reader.tokens[reader.at + 1 : reader.at + 2]
        if following and following[0].token_type is TokenType.FARROW:
            name = reader.cased_name("a parameter's name")
            reader.expect("=>")
            if name.lower() in by_lower(by_name):
                reader.fail_at(start, f"{name!r} is given twice", field=name)
            by_name[name] = read_argument(reader)
        else:
            by_position.append(read_argument(reader))
        if by_position and by_name:
            reader.fail_at(start, "give arguments either by position or by name, not both")
        if not reader.accept(","):
            break
    if not reader.accept(")"):
        reader.fail("',' or ')' after an argument")
    return by_name or by_position


def _id(reader: Reader) -> int:
    token = reader.token
    if token is None or not token.text.isdigit():
        reader.fail("a subscription's number")
    return int(reader.advance().text)


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
    columns: list[str] | None = None
    if reader.accept("("):
        columns = []
        while True:
            start = reader.offset
            column = reader.word("a column's name")
            if column.lower() in by_lower(columns):
                reader.fail_at(start, f"{column!r} is named twice", field=column, hint=CASE_RULE)
            columns.append(column)
            if not reader.accept(","):
                break
        reader.expect(")")
    reader.expect("VALUES")
    rows: list[tuple[Any, ...]] = []
    rows_at: list[tuple[int, int]] = []
    while True:
        start = reader.offset
        rows_at.append(place(reader.text, start))
        reader.expect("(")
        row = [read_literal(reader)]
        while reader.accept(","):
            row.append(read_literal(reader))
        if not reader.accept(")"):
            reader.fail("',' or ')' after a value")
        if columns is not None and len(row) != len(columns):
            reader.fail_at(start, f"this row has {len(row)} values for {len(columns)} columns")
        rows.append(tuple(row))
        if not reader.accept(","):
            break
    return Insert, {
        "dataset": dataset,
        "columns": tuple(columns) if columns is not None else None,
        "rows": tuple(rows),
        "rows_at": tuple(rows_at),
    }


def _show(reader: Reader) -> Read:
    for what in get_args(Shown):
        if reader.accept(what.upper()):
            return Show, {"what": what}
    raise reader.expected("DATASETS, CHANNELS, BROKERS or SUBSCRIPTIONS")


def _describe(reader: Reader) -> Read:
    kind: Literal["dataset", "channel"] | None = None
    after = reader.tokens[reader.at + 1 : reader.at + 2]
    if after and after[0].token_type is not TokenType.SEMICOLON:
        if reader.accept("DATASET"):
            kind = "dataset"
        elif reader.accept("CHANNEL"):
            kind = "channel"
    return Describe, {"kind": kind, "name": reader.name("DATASET, CHANNEL or a name")}
