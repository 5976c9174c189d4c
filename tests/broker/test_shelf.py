"""Pages on a broker's disk: whatever becomes of a file, no wrong byte of it is ever given out."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tocsin.broker.server.pages.fill import Fill
from tocsin.broker.server.pages.shelf import DirectoryShelf, Shelf
from tocsin.broker.server.pages.sums import BLOCK_BYTES
from tocsin.broker.server.pages.whole import Whole
from tocsin.errors import Unavailable

MOST_BYTES = 5 * BLOCK_BYTES
PLACES = st.one_of(
    st.integers(0, MOST_BYTES),
    st.builds(lambda n, d: max(0, n * BLOCK_BYTES + d), st.integers(0, 5), st.integers(-2, 2)),
)


@pytest.fixture(scope="module")
def root() -> Iterator[Path]:
    with TemporaryDirectory() as made:
        yield Path(made)


def put(shelf: Shelf, data: bytes, cuts: list[int]) -> str:
    """As pieces of these sizes."""
    body = shelf.new()
    marks = [0, *sorted(min(one, len(data)) for one in cuts), len(data)]
    for begin, end in pairwise(marks):
        body.write(data[begin:end])
    page = hashlib.sha256(data).hexdigest()
    shelf.put(page, body)
    body.close()
    return page


def read(shelf: Shelf, page: str, start: int, stop: int) -> tuple[bytes, bool]:
    """What one reader gets, and whether it is told that the page is lost."""

    async def reading() -> tuple[bytes, bool]:
        body = shelf.open(page, start)
        if body is None:
            return b"", True
        got, told = b"", []
        try:
            async for piece in Whole(body, lambda: told.append(page)).pieces(start, stop):
                got += piece
        except Unavailable:
            assert told
        body.close()
        return got, bool(told)

    return asyncio.run(reading())


def damaged(data: bytes, damage: str, at: int) -> bytes:
    if damage == "truncate":
        return data[:at]
    if damage == "extend":
        return data + data[: at + 1]
    return data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]


@given(
    size=PLACES,
    cuts=st.lists(PLACES, max_size=6),
    again=st.booleans(),
    damage=st.sampled_from(["flip", "truncate", "extend"]),
    places=st.tuples(PLACES, PLACES, PLACES),
)
def test_no_wrong_byte_leaves_and_right_blocks_do(
    root: Path,
    size: int,
    cuts: list[int],
    again: bool,
    damage: str,
    places: tuple[int, int, int],
) -> None:
    data = random.Random(size).randbytes(size + 1)
    start, stop = sorted(one % len(data) for one in places[:2])
    stop += 1
    at = places[2] % len(data)
    shelf = DirectoryShelf(root)
    page = put(shelf, data, cuts)
    if again:
        shelf = DirectoryShelf(root)
        assert (page, len(data)) in shelf.whole_pages()
    assert read(shelf, page, start, stop) == (data[start:stop], False)
    path = root / page[:2] / page
    path.write_bytes(damaged(data, damage, at))
    got, lost = read(shelf, page, start, stop)
    assert data[start:stop].startswith(got)
    first, last = start // BLOCK_BYTES, (stop - 1) // BLOCK_BYTES
    if damage == "truncate":
        wrong = last >= at // BLOCK_BYTES
    elif damage == "extend":
        wrong = (last + 1) * BLOCK_BYTES > len(data)
    else:
        wrong = first <= at // BLOCK_BYTES <= last
    assert lost == wrong
    assert wrong or got == data[start:stop]
    shelf.drop(page)
    assert not path.exists()


def test_an_empty_page_is_a_page(tmp_path: Path) -> None:
    shelf = DirectoryShelf(tmp_path)
    page = put(shelf, b"", [])
    assert read(shelf, page, 0, 0) == (b"", False)
    again = DirectoryShelf(tmp_path)
    assert again.whole_pages() == [(page, 0)]
    assert read(again, page, 0, 0) == (b"", False)
    (tmp_path / page[:2] / page).unlink()
    assert again.open(page, 0) is None


async def test_a_page_that_rots_while_it_comes_is_read_no_further(tmp_path: Path) -> None:
    """And what is read of the block that is still coming is checked as far as it is there."""
    data = random.Random(1).randbytes(3 * BLOCK_BYTES)
    shelf = DirectoryShelf(tmp_path)
    fill = Fill(hashlib.sha256(data).hexdigest(), shelf.new())
    fill.begin(len(data))
    pieces = fill.pieces(0, len(data))
    got = b""
    for at in range(0, 130_000, 10_000):
        fill.add(data[at : at + 10_000])
        while len(got) < at + 10_000:
            got += await anext(pieces)
    assert data.startswith(got)
    fill.add(data[len(got) :])
    (path,) = (tmp_path / "incoming").iterdir()
    path.write_bytes(data[:-9] + b"!" + data[-8:])
    got += await anext(pieces)  # the rest of the block before
    assert data.startswith(got)
    with pytest.raises(Unavailable):
        await anext(pieces)
    fill.close()


def test_a_file_that_cannot_be_read_is_no_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dying disk answers with errors, not with wrong bytes."""
    shelf = DirectoryShelf(tmp_path)
    page = put(shelf, b"a page", [])

    def dying(*_: object, **__: object) -> bytes:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr("os.pread", dying)
        assert shelf.open(page, 0) is None
    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", dying)
        assert DirectoryShelf(tmp_path).whole_pages() == []
