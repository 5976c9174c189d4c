"""CREATE: datasets, channels, brokers and roles."""

from __future__ import annotations

from typing import Any, get_args

from tocsin.model import (
    BoundColumn,
    ChannelKind,
    Column,
    KafkaSource,
    MessageFormat,
    Parameter,
)
from tocsin.protocol.columns import is_system
from tocsin.sql.claims import read_claim
from tocsin.sql.delivery import read_delivery
from tocsin.sql.literals import read_interval_s, read_topic
from tocsin.sql.names import by_lower
from tocsin.sql.reserved import RESERVED_FOR_DATASETS
from tocsin.sql.statements import CreateBroker, CreateChannel, CreateDataset, CreateRole, Statement
from tocsin.sql.tokens import Reader
from tocsin.sql.types import SqlType, parse_type

CASE_RULE = "names that differ by capitals alone are the same name"

Read = tuple[type[Statement], dict[str, Any]]
"""A kind of statement, and its fields."""


def read_create(reader: Reader) -> Read:
    """What follows CREATE."""
    if reader.accept("DATASET"):
        return _create_dataset(reader)
    if reader.accept("BROKER"):
        guarded = _if_not_exists(reader)
        name = reader.new_name("a broker's name")
        reader.expect("AT")
        url = reader.string("the broker's address in quotes")
        return CreateBroker, {"name": name, "url": url, "if_not_exists": guarded}
    if reader.accept("ROLE"):
        guarded = _if_not_exists(reader)
        return CreateRole, {"name": reader.name("a role's name"), "if_not_exists": guarded}
    kinds: tuple[ChannelKind, ...] = ("continuous", "repetitive")
    for word in kinds:
        if reader.accept(word.upper()):
            reader.expect("CHANNEL")
            return _create_channel(reader, word)
    raise reader.expected("DATASET, CONTINUOUS CHANNEL, REPETITIVE CHANNEL, BROKER or ROLE")


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
        elif "bound" not in given and given.get("routed") and reader.accept("BOUND"):
            given["bound"] = _bound_columns(reader, types)
        else:
            reader.fail(
                "OPEN, PRIMARY KEY, RETAIN INTERVAL, FROM KAFKA, ROUTED [BOUND] (each once) or the"
                " statement's end"
            )
    return CreateDataset, given


def _columns(reader: Reader) -> dict[str, SqlType]:
    types: dict[str, SqlType] = {}
    known: set[str] = set()

    def read(reader: Reader) -> None:
        start = reader.offset
        column = reader.word("a column's name")
        if is_system(column):
            reader.fail_at(
                start,
                f"a column cannot be called {column!r}",
                field=column,
                hint="names that begin with _ are kept for system columns",
            )
        if column.lower() in known:
            reader.fail_at(
                start, f"two columns are called {column!r}", field=column, hint=CASE_RULE
            )
        reader.at -= 1
        column = reader.new_name("a column's name", folded=False)
        known.add(column.lower())
        types[column] = _type(reader)

    reader.listed(read, "a column")
    return types


def _bound_columns(reader: Reader, types: dict[str, SqlType]) -> tuple[BoundColumn, ...]:
    """owner TO CLAIM 'sub' [, tenant TO CLAIM 'tenant' …]"""
    declared = by_lower(types)
    bound: dict[str, BoundColumn] = {}
    while True:
        start = reader.offset
        written = reader.cased_name("a column's name")
        column = declared.get(written.lower(), "")
        if not column:
            reader.fail_at(
                start,
                f"{written!r} is bound to a claim, and is no column",
                field=written,
                hint=f"the columns are {', '.join(types)}",
            )
        if not types[column].scalar:
            reader.fail_at(
                start, f"{column!r} is {types[column]}: a bound column is scalar", field=column
            )
        if column in bound:
            reader.fail_at(start, f"{column!r} is bound twice", field=column)
        bound[column] = BoundColumn(column, read_claim(reader))
        if not reader.accept(","):
            return tuple(bound.values())


def _source(reader: Reader) -> KafkaSource:
    reader.expect("KAFKA")
    topic = read_topic(reader)
    if not reader.accept("FORMAT"):
        return KafkaSource(topic)
    for kind in get_args(MessageFormat):
        if reader.accept(kind.upper()):
            return KafkaSource(topic, kind)
    raise reader.expected("JSON or CSV")


def _primary_key(reader: Reader, types: dict[str, SqlType]) -> tuple[str, ...]:
    declared = by_lower(types)
    key: list[str] = []
    known: set[str] = set()

    def read(reader: Reader) -> None:
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
        if column in known:
            reader.fail_at(start, f"the primary key names {column!r} twice", field=column)
        known.add(column)
        key.append(column)

    reader.listed(read, "a column")
    return tuple(key)


def _parameters(reader: Reader) -> tuple[Parameter, ...]:
    parameters: dict[str, Parameter] = {}
    known: set[str] = set()

    def read(reader: Reader) -> None:
        start = reader.offset
        name = reader.new_name("a parameter's name", folded=False)
        if name.lower() in known:
            reader.fail_at(start, f"two parameters are called {name!r}", field=name, hint=CASE_RULE)
        known.add(name.lower())
        type_at = reader.offset
        kind = _type(reader)
        required, claim = _required_or_bound(reader)
        if not kind.scalar:
            reader.fail_at(
                type_at,
                f"parameter {name!r} is {kind}: a parameter is scalar",
                field=name,
                hint="BOOLEAN, INT, BIGINT, FLOAT, DOUBLE, DECIMAL, STRING, TIMESTAMP or DATE",
            )
        parameters[name] = Parameter(name, str(kind), required, claim)

    if not reader.accept("(", ")"):
        reader.listed(read, "a parameter")
    return tuple(parameters.values())


def _required_or_bound(reader: Reader) -> tuple[bool, str | None]:
    """Whether a parameter is REQUIRED, and to which claim it is bound."""
    required, claim = False, None
    while True:
        if not required and reader.accept("REQUIRED"):
            required = True
        elif claim is None and reader.accept("BOUND"):
            claim = read_claim(reader)
        else:
            return required, claim


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
    given["query_line"], given["query_column"] = reader.place(start)
    return CreateChannel, given
