"""What publishers send is read line by line; what cannot be read is told by its line."""

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tocsin.errors import InvalidInput
from tocsin.intake.formats import (
    Format,
    RawRecord,
    Unreadable,
    format_of_content_type,
    format_of_file,
    read,
    read_message,
)


def fields(body: bytes, kind: Format) -> list[Any]:
    return [r.fields if isinstance(r, RawRecord) else r for r in read(body, kind)]


def test_json_is_one_object_or_a_list_of_them() -> None:
    assert fields(b'{"a": 1}', "json") == [{"a": 1}]
    assert fields(b'[{"a": 1}, {"a": 2}]', "json") == [{"a": 1}, {"a": 2}]


def test_item_that_is_no_object_is_told_by_its_place_and_the_others_are_read() -> None:
    first, second = read(b'[7, {"a": 2}]', "json")
    assert isinstance(first, Unreadable)
    assert first.line == 1
    assert second == RawRecord(2, {"a": 2})


def test_json_lines_skip_blank_lines_but_count_them() -> None:
    body = b'{"a": 1}\n\nnot json\n{"a": 2}\n'
    found = list(read(body, "jsonl"))
    assert [one.line for one in found] == [1, 3, 4]
    assert isinstance(found[1], Unreadable)
    assert found[1].text == "not json"


def test_csv_gives_text_and_tells_rows_of_the_wrong_length() -> None:
    found = list(read(b'a,b\n1,"x\ny"\n2\n3,z\n', "csv"))
    assert found[0] == RawRecord(3, {"a": "1", "b": "x\ny"}, textual=True)
    assert isinstance(found[1], Unreadable)
    assert found[1].line == 4
    assert found[2] == RawRecord(5, {"a": "3", "b": "z"}, textual=True)


@pytest.mark.parametrize("body", [b"", b"a,a\n1,2\n", b'a\n"open\n', b"\xff\xfe\n"])
def test_csv_that_makes_no_sense_is_refused_whole(body: bytes) -> None:
    with pytest.raises(InvalidInput):
        list(read(body, "csv"))


def test_parquet_values_become_what_json_would_carry() -> None:
    table = pa.table(
        {
            "at": pa.array([0], pa.timestamp("us", "UTC")),
            "price": pa.array([None], pa.decimal128(5, 2)),
            "tags": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())),
        }
    )
    file = io.BytesIO()
    pq.write_table(table, file)
    assert fields(file.getvalue(), "parquet") == [
        {"at": "1970-01-01T00:00:00+00:00", "price": None, "tags": {"k": 1}}
    ]


def test_damaged_bodies_are_refused_with_the_reason() -> None:
    with pytest.raises(InvalidInput, match="not Parquet"):
        list(read(b"PAR1 nonsense", "parquet"))
    with pytest.raises(InvalidInput, match="not JSON"):
        list(read(b"{", "json"))


def test_format_follows_content_type_or_file_ending() -> None:
    assert format_of_content_type("application/x-ndjson; charset=utf-8") == "jsonl"
    assert format_of_content_type(None) == "json"
    assert format_of_file("Reports.CSV") == "csv"
    with pytest.raises(InvalidInput, match="content type"):
        format_of_content_type("image/png")
    with pytest.raises(InvalidInput, match="ending"):
        format_of_file("reports.xlsx")


@pytest.mark.parametrize(
    ("value", "kind", "fields"),
    [
        (b'{"a": 1, "z": [2]}', "json", {"a": 1, "z": [2]}),
        (b" {} ", "json", {}),
        (b'"x, y",', "csv", {"a": "x, y", "b": ""}),
        ("ü,2\n".encode(), "csv", {"a": "ü", "b": "2"}),
        (b'"two\nlines",2\r\n', "csv", {"a": "two\nlines", "b": "2"}),
    ],
)
def test_a_message_is_one_record(value: bytes, kind: Any, fields: dict[str, Any]) -> None:
    assert read_message(7, value, kind, ["a", "b"]) == RawRecord(7, fields, textual=kind == "csv")


@pytest.mark.parametrize(
    ("value", "kind", "reason"),
    [
        (None, "json", "no value"),
        (None, "csv", "no value"),
        (b"", "json", "not JSON"),
        (b"{", "json", "not JSON"),
        (b"\xff", "json", "not JSON"),
        (b"[{}]", "json", "must be a JSON object"),
        (b'{"a":1}\n{"a":2}', "json", "not JSON"),
        (b"", "csv", "0 rows"),
        (b"1", "csv", "1 values"),
        (b"1,2,3", "csv", "3 values"),
        (b"1,2\n3,4", "csv", "2 rows"),
        (b'"1,2', "csv", "not CSV"),
        (b"\xff,2", "csv", "not CSV"),
    ],
)
def test_a_message_that_is_no_record_is_told(value: bytes | None, kind: Any, reason: str) -> None:
    found = read_message(7, value, kind, ["a", "b"])
    assert isinstance(found, Unreadable)
    assert found.line == 7
    assert reason in found.reason
