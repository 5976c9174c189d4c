"""Which files of a stored dataset are merged."""

from __future__ import annotations

import pytest

from tocsin.spark.tables.compaction import FULL_BYTES, choose_run
from tocsin.storage.store.data_file import DataFile


def file(size_bytes: int, first: int = 0) -> DataFile:
    return DataFile(f"{first}", first, first + 1, 1, size_bytes, 1)


@pytest.mark.parametrize(
    ("sizes", "merged"),
    [
        ([10, 10], 0),
        ([10, 10, 10], 3),
        ([900_000, 10, 10, 10], 3),  # a large file waits until the newer ones weigh as much
        ([500_000, 250_000, 250_000], 3),
        ([500_000, 250_000, 200_000], 0),
        ([FULL_BYTES, 10, 10, 10], 3),
    ],
)
def test_files_are_merged_when_enough_neighbours_are_small(sizes: list[int], merged: int) -> None:
    files = [file(size, n) for n, size in enumerate(sizes)]
    assert list(choose_run(files, 3)) == (files[-merged:] if merged else [])


def test_merging_again_and_again_leaves_few_files_and_rewrites_little() -> None:
    files: list[DataFile] = []
    written = 0
    for n in range(3000):
        files.append(file(50_000, n))
        run = choose_run(files, 8)
        if run:
            merged = file(sum(f.size_bytes for f in run), run[0].first_position)
            files[-len(run) :] = [merged]
            written += merged.size_bytes
        assert len(files) <= 24
    assert written < 12 * 3000 * 50_000
