"""Names of columns and parameters keep their capitals and are matched without regard to case."""

from __future__ import annotations

import pytest

from tocsin.errors import InvalidInput, StatementError
from tocsin.intake.formats import RawRecord
from tocsin.intake.validator import RecordValidator
from tocsin.model import Channel, Column, Dataset, Parameter
from tocsin.overlay.filters.filter import matches
from tocsin.protocol.publishing import Rejection
from tocsin.sql import (
    CreateChannel,
    CreateDataset,
    Insert,
    Subscribe,
    bind_arguments,
    coerce,
    parse_filter,
    parse_one,
)

USERS = Dataset("users", (Column("userId", "INT"), Column("name", "STRING")))
ROOMS = Channel("rooms", "continuous", (Parameter("roomNumber", "INT"),), "", (), ())


def encoded(dataset: Dataset, fields: dict[str, object]) -> tuple[bytes, bytes | None] | Rejection:
    return RecordValidator(dataset, 1000).encode(RawRecord(1, fields))


def test_columns_keep_their_capitals() -> None:
    made = parse_one("CREATE DATASET Users (userId INT, Name STRING) PRIMARY KEY (USERID)")
    assert isinstance(made, CreateDataset)
    assert made.name == "users"
    assert [column.name for column in made.columns] == ["userId", "Name"]
    assert made.primary_key == ("userId",)


@pytest.mark.parametrize(
    "text",
    [
        "CREATE DATASET d (userId INT, userid INT)",
        "CREATE CONTINUOUS CHANNEL c(a INT, A INT) AS SELECT 1 AS x FROM NEW d",
        "INSERT INTO d (a, A) VALUES (1, 2)",
        "SUBSCRIBE TO c(a => 1, A => 2)",
    ],
)
def test_names_that_differ_by_capitals_alone_are_refused(text: str) -> None:
    with pytest.raises(StatementError):
        parse_one(text)


def test_fields_of_records_are_matched_by_name_then_without_case() -> None:
    assert encoded(USERS, {"userId": 1}) == (b'{"userId":1}', None)
    assert encoded(USERS, {"USERID": 1, "Name": "a"}) == (b'{"userId":1,"name":"a"}', None)
    refused = encoded(USERS, {"USERID": 1, "userid": 2})
    assert isinstance(refused, Rejection)
    assert "both stand for 'userId'" in refused.reason


def test_an_exact_field_comes_before_one_that_differs_by_case() -> None:
    opened = Dataset("users", USERS.columns, open=True)
    assert encoded(opened, {"userid": 2, "userId": 1}) == (b'{"userId":1}', b'{"userid":"2"}')
    assert isinstance(encoded(USERS, {"userid": 2, "userId": 1}), Rejection)


def test_fields_of_structs_are_matched_alike() -> None:
    assert coerce({"LABEL": "x"}, "STRUCT<a:INT,Label:STRING>") == {"a": None, "Label": "x"}


def test_arguments_are_matched_without_case_and_kept_as_declared() -> None:
    for given in ({"roomNumber": 1}, {"ROOMNUMBER": 1}, [1]):
        assert bind_arguments(ROOMS, given) == {"roomNumber": 1}
    with pytest.raises(InvalidInput, match="both stand for"):
        bind_arguments(ROOMS, {"ROOMNUMBER": 1, "roomnumber": 2})
    made = parse_one("CREATE CONTINUOUS CHANNEL c(roomNumber INT) AS SELECT 1 AS x FROM NEW d")
    assert isinstance(made, CreateChannel)
    assert made.parameters == (Parameter("roomNumber", "INT"),)


def test_filters_name_columns_without_regard_to_case() -> None:
    assert parse_filter("USERID = 1", USERS) == parse_filter("userId = 1", USERS)
    assert matches(parse_filter("userid = 1", USERS), {"userId": 1})


def test_a_doubled_quote_is_one_quote_in_every_statement() -> None:
    insert = parse_one("INSERT INTO d VALUES ('it''s', \"say \"\"so\"\"\", '''')")
    assert isinstance(insert, Insert)
    assert insert.rows == (("it's", 'say "so"', "'"),)
    subscribe = parse_one("SUBSCRIBE TO c('it''s')")
    assert isinstance(subscribe, Subscribe)
    assert subscribe.arguments == ["it's"]
    assert parse_filter("name = 'it''s'", USERS) == parse_filter(r"name = 'it\'s'", USERS)


def test_decimals_have_up_to_38_digits() -> None:
    assert coerce("9" * 38, "DECIMAL(38,0)") == "9" * 38
    assert coerce("1." + "2" * 37, "DECIMAL(38,37)") == "1." + "2" * 37
