"""The manifest of data files: replaced in one step, never a retired name again."""

from __future__ import annotations

import pytest

from tocsin.errors import Conflict, InvalidInput
from tocsin.storage.store.data_file import DataFile
from tocsin.storage.store.store import Store

from .conftest import Clock


def data_file(path: str, first: int, end: int) -> DataFile:
    return DataFile(path, first, end, rows=5, size_bytes=2**40, max_received_us=2**52)


A, B, C = data_file("a", 0, 10), data_file("b", 10, 20), data_file("c", 20, 30)
MERGED = data_file("m", 0, 20)


def test_a_dataset_starts_empty_at_zero(store: Store) -> None:
    assert store.files.files("reports") == ()
    assert store.files.stored_end("reports") == 0


def test_files_come_back_by_position(store: Store) -> None:
    store.files.replace("reports", [], [B, A])
    store.files.replace("shelters", [], [C])
    assert store.files.files("reports") == (A, B)
    assert store.files.stored_end("reports") == 20


def test_replaced_files_are_retired_in_the_same_step(store: Store, clock: Clock) -> None:
    store.files.replace("reports", [], [A, B, C])
    store.files.replace("reports", ["a", "b"], [MERGED])
    assert store.files.files("reports") == (MERGED, C)
    assert store.files.stored_end("reports") == 30
    assert store.files.retired(clock.now) == []
    assert store.files.retired(clock.now + 1) == [("reports", "a"), ("reports", "b")]


def test_the_stored_end_survives_when_retention_takes_all_files(store: Store) -> None:
    store.files.replace("reports", [], [A, B])
    store.files.replace("reports", ["a", "b"], [])
    assert store.files.files("reports") == ()
    assert store.files.stored_end("reports") == 20


def test_replacing_what_is_not_live_conflicts_and_changes_nothing(store: Store) -> None:
    store.files.replace("reports", [], [A, B])
    with pytest.raises(Conflict, match="changed meanwhile"):
        store.files.replace("reports", ["a", "ghost"], [MERGED])
    assert store.files.files("reports") == (A, B)
    store.files.replace("reports", ["a"], [])
    with pytest.raises(Conflict, match="changed meanwhile"):
        store.files.replace("reports", ["a", "b"], [MERGED])
    assert store.files.files("reports") == (B,)


def test_a_name_that_waits_for_deletion_cannot_return(store: Store) -> None:
    store.files.replace("reports", [], [A])
    store.files.replace("reports", ["a"], [])
    with pytest.raises(Conflict, match="has or had a file a"):
        store.files.replace("reports", [], [A])
    store.files.forget("reports", "a")
    store.files.replace("reports", [], [A])


def test_forgetting_takes_retired_files_only(store: Store, clock: Clock) -> None:
    store.files.replace("reports", [], [A, B])
    store.files.replace("reports", ["a"], [])
    store.files.forget("reports", "a")
    store.files.forget("reports", "b")
    assert store.files.files("reports") == (B,)
    assert store.files.retired(clock.now + 1) == []


def test_dropping_retires_everything_and_starts_again_at_zero(store: Store, clock: Clock) -> None:
    store.files.replace("reports", [], [A, B])
    store.files.replace("shelters", [], [C])
    store.files.drop("reports")
    assert store.files.files("reports") == ()
    assert store.files.stored_end("reports") == 0
    assert store.files.retired(clock.now + 1) == [("reports", "a"), ("reports", "b")]
    assert store.files.files("shelters") == (C,)


def test_a_path_that_no_index_can_hold_is_refused(store: Store) -> None:
    with pytest.raises(InvalidInput, match="at most 500"):
        store.files.replace("reports", [], [data_file("x" * 501, 0, 1)])
