"""Committed examples of every record: today's types read them, and write the same again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tocsin.protocol import client, link
from tocsin.protocol.listing import MODULES, records

GOLDEN = Path(__file__).parent / "golden"
RECORDS = {kind.__name__: kind for module in MODULES for kind in records(module)}
EXAMPLES = sorted(GOLDEN.glob("*.json"))


def record_of(example: Path) -> type[msgspec.Struct]:
    return RECORDS[example.stem.partition("-")[0]]


def test_every_record_has_an_example_and_every_example_a_record() -> None:
    assert {example.stem.partition("-")[0] for example in EXAMPLES} == RECORDS.keys()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_is_read_and_written_the_same(example: Path) -> None:
    kind = record_of(example)
    record = msgspec.json.decode(example.read_bytes(), type=kind)
    assert type(record) is kind
    assert json.loads(msgspec.json.encode(record)) == json.loads(example.read_bytes())


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_a_record_is_read_with_a_field_of_a_newer_version(example: Path) -> None:
    kind = record_of(example)
    if kind.__struct_config__.forbid_unknown_fields:
        pytest.skip("what people write is refused if it says more than is known")
    if kind.__struct_config__.array_like:
        pytest.skip("its fields have places, and no names")
    newer = json.loads(example.read_bytes()) | {"from_a_newer_version": 1}
    record = msgspec.json.decode(json.dumps(newer), type=kind)
    assert json.loads(msgspec.json.encode(record)) == json.loads(example.read_bytes())


@pytest.mark.parametrize(
    ("decode", "tag", "wrapped"),
    [
        (client.decode_request, "op", False),
        (client.decode_answer, "op", False),
        (link.decode, "type", True),
    ],
)
def test_frames_and_messages_are_known_by_their_tags(decode: Any, tag: str, wrapped: bool) -> None:
    known = 0
    for example in EXAMPLES:
        kind = record_of(example)
        body = example.read_bytes()
        if kind.__struct_config__.tag_field != tag:
            continue
        try:
            record = decode(b"[1," + body + b"]" if wrapped else body)
        except msgspec.ValidationError:
            continue  # of the other direction
        assert type(record[1] if wrapped else record) is kind
        known += 1
    assert known >= 6
