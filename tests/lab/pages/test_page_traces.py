"""Traces of page caches in files: what was written is read again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tocsin.errors import InvalidInput
from tocsin.lab.trace.pages import read_page_trace, write_page_trace
from tocsin.lab.workloads.pages.operations import (
    BROWSE,
    NOTIFIED,
    PUBLISH,
    RENEWED,
    SUPERSEDED,
    Operations,
)

KINDS = [PUBLISH, BROWSE, NOTIFIED, SUPERSEDED, RENEWED, BROWSE]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_every_kind_of_operation_is_read_as_it_was_written(tmp_path: Path, suffix: str) -> None:
    done = Operations(
        np.array(KINDS, np.uint8),
        np.array([0, 0, 1, 0, 0, 1], np.int32),
        np.array([3, 3, 4, 3, 3, 4], np.int64),
        np.array([7, 0, 0, 0, 0, 0], np.int32),
        2,
    )
    file = tmp_path / f"trace.{suffix}"
    write_page_trace(done, file)
    found = read_page_trace(file)
    assert found.names == ["0", "1"]
    for name in ("kind", "page", "size_bytes", "subscriptions"):
        assert getattr(found.operations, name).tolist() == getattr(done, name).tolist()


def test_an_operation_that_does_not_exist_is_named_with_its_row(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_text("operation,page,size,subscriptions,notification\nrenewed,a,2,,\nnewed,a,2,,\n")
    with pytest.raises(InvalidInput, match="row 2: operation is 'newed'") as raised:
        read_page_trace(file)
    assert raised.value.hint == "one of publish, request, superseded, renewed"
