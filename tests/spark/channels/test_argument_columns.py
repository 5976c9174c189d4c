"""Parameter sets in columns are those that came and did not go, however they are asked for."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from tocsin.model import Parameter
from tocsin.protocol import columns
from tocsin.spark.channels import argument_columns
from tocsin.spark.channels.argument_columns import ArgumentColumns

PARAMETERS = (Parameter("kind", "STRING"), Parameter("level", "INT"), Parameter("day", "DATE"))


def given(number: int) -> dict[str, Any]:
    return {"kind": f"k{number % 7}", "level": number, "day": "2024-01-01"}


def rows(table: pa.Table) -> dict[int, Any]:
    names = [columns.parameter_column(parameter.name) for parameter in PARAMETERS]
    found = {}
    for row in table.to_pylist():
        assert row[columns.BACKEND] not in found
        found[row[columns.BACKEND]] = [row[name] for name in names]
    return found


def held(sets: ArgumentColumns) -> dict[int, Any]:
    settled = rows(sets.table)
    for number in sets.removed():
        del settled[number]
    added = rows(sets.added())
    assert not settled.keys() & added.keys()
    return settled | added


@pytest.mark.parametrize("seed", range(20))
def test_sets_are_those_that_came_and_did_not_go(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(argument_columns, "CHUNK_ROWS", 5)
    random, sets, model = Random(seed), ArgumentColumns(PARAMETERS), dict[int, Any]()
    for _ in range(120):
        number, version = random.randrange(60), sets.version
        what = random.random()
        if what < 0.6:
            changes = number not in model
            sets.add(number, given(number))
            model.setdefault(number, list(given(number).values()))
        elif what < 0.9:
            gone = [number, random.randrange(60)]
            changes = any(one in model for one in gone)
            sets.remove(gone)
            for one in gone:
                model.pop(one, None)
        else:
            changes = False
            sets.settle()
            assert sets.changes == 0
            assert list(rows(sets.table)) == sorted(model)
        assert (sets.version > version) == changes
        assert held(sets) == model
        assert len(sets) == len(model)
        assert [one in sets for one in range(60)] == [one in model for one in range(60)]


def test_settled_sets_take_tens_of_bytes() -> None:
    sets = ArgumentColumns(PARAMETERS[:2])
    for number in range(20_000):
        sets.add(number, given(number))
    sets.settle()
    assert sets.table.nbytes < 40 * 20_000
    assert sets.changes == 0
