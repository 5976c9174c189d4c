"""libCacheSim's format, byte for byte."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.errors import InvalidInput
from tocsin.lab.trace import RequestTrace
from tocsin.lab.trace.oracle_general import (
    is_oracle_general,
    next_access,
    read_oracle_general,
    write_oracle_general,
)

PACKED = struct.Struct("<IQIq")
OBJECTS = [7, 2**64 - 1, 7, 7, 9]
TRACE = RequestTrace(
    np.array([0.2, 1.9, 2.0, 2.0, 5.5]),
    np.array(OBJECTS, np.uint64),
    np.array([10, 20, 10, 10, 2**32 - 1]),
)


@pytest.mark.parametrize("name", ["t.oracleGeneral", "t.oracleGeneral.bin", "t.bin.zst"])
def test_what_was_written_is_read(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    write_oracle_general(TRACE, file)
    found = read_oracle_general(file)
    assert found.at_s.tolist() == [0, 1, 2, 2, 5]
    assert found.object.tolist() == OBJECTS
    assert found.size_bytes.tolist() == TRACE.size_bytes.tolist()


def test_the_bytes_are_libcachesims(tmp_path: Path) -> None:
    file = tmp_path / "t.oracleGeneral"
    write_oracle_general(TRACE, file)
    content = file.read_bytes()
    assert len(content) == 5 * 24
    assert list(PACKED.iter_unpack(content)) == [
        (0, 7, 10, 3),  # the third request is the next for object 7
        (1, 2**64 - 1, 20, -1),
        (2, 7, 10, 4),
        (2, 7, 10, -1),
        (5, 9, 2**32 - 1, -1),
    ]


@given(st.lists(st.integers(0, 5), max_size=40))
def test_next_accesses_are_found(objects: list[int]) -> None:
    expected = []
    for at, number in enumerate(objects):
        later = [next_at for next_at in range(at + 1, len(objects)) if objects[next_at] == number]
        expected.append(later[0] + 1 if later else -1)
    assert next_access(np.array(objects, np.uint64)).tolist() == expected


def test_a_cut_record_is_named(tmp_path: Path) -> None:
    file = tmp_path / "t.oracleGeneral"
    file.write_bytes(PACKED.pack(0, 1, 2, -1) * 3 + b"12345")
    with pytest.raises(InvalidInput, match="record 3 at byte 72 has 5 of 24 bytes"):
        read_oracle_general(file)


def test_a_cut_or_damaged_archive_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "t.oracleGeneral.zst"
    many = RequestTrace(np.arange(2000.0), np.arange(2000, dtype=np.uint64) * 977, np.full(2000, 5))
    write_oracle_general(many, file)
    whole = file.read_bytes()
    for broken in (whole[: len(whole) // 2], b"not compressed at all", b""):
        file.write_bytes(broken)
        with pytest.raises(InvalidInput):
            read_oracle_general(file)
    with pytest.raises(InvalidInput, match="there is no file"):
        read_oracle_general(tmp_path / "none.oracleGeneral")


def test_requests_of_size_0_are_passed_over_as_libcachesim_does(tmp_path: Path) -> None:
    file = tmp_path / "t.oracleGeneral"
    file.write_bytes(PACKED.pack(0, 1, 0, -1) + PACKED.pack(0, 2, 5, -1))
    assert read_oracle_general(file).object.tolist() == [2]


def test_times_that_go_back_are_named(tmp_path: Path) -> None:
    file = tmp_path / "t.oracleGeneral"
    file.write_bytes(PACKED.pack(5, 1, 1, -1) + PACKED.pack(4, 2, 5, -1))
    with pytest.raises(InvalidInput, match="record 1"):
        read_oracle_general(file)


def test_what_does_not_fit_into_the_format_is_named(tmp_path: Path) -> None:
    large = RequestTrace(np.zeros(1), np.ones(1, np.uint64), np.array([2**32]))
    with pytest.raises(InvalidInput, match=r"record 0 .*size_bytes is above 4294967295"):
        write_oracle_general(large, tmp_path / "t.oracleGeneral")


def test_names_tell_the_format() -> None:
    yes = ["a.oracleGeneral", "a.oracleGeneral.bin.zst", "a.oracleGeneral.sample10.zst", "a.bin"]
    assert all(is_oracle_general(Path(name)) for name in yes)
    assert not is_oracle_general(Path("a.parquet"))
