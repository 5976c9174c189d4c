"""The files of the paper's authors: a record a line, `producer,bitmap`, without a header.

    1,10001
    0,00110

Subscriptions are written alike, `consumer,bitmap` (kafka, Figure 4); a consumer may have
several, and stars leave an attribute open. What is wrong with a file is told by line and column.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tocsin.errors import InvalidInput
from tocsin.lab.workloads.offers.offers import Offers, Subscription
from tocsin.lab.workloads.offers.vocabulary import Values, Vocabulary

MOST_PRODUCERS = 2**31


class Recorded(Struct, frozen=True):
    """What a file says of its records; not when they were published, nor how large they are."""

    producer: NDArray[np.int32]
    values: NDArray[np.int32]  # a row a record

    def __len__(self) -> int:
        return len(self.producer)


def digest_of(file: Path) -> str:
    """Of what is in the file."""
    return hashlib.sha256(_content(file)).hexdigest()[:16]


def read_records(file: Path, vocabulary: Vocabulary) -> Recorded:
    producers: list[int] = []
    values: list[Values] = []
    known: dict[str, Values] = {}
    for line, (producer, bitmap) in _rows(file, ("producer", "bitmap")):
        if not (producer.isascii() and producer.isdigit() and int(producer) < MOST_PRODUCERS):
            raise _wrong(file, line, 1, "producer", f"{producer!r} is no number of a producer")
        if bitmap not in known:
            known[bitmap] = _values(file, line, bitmap, vocabulary, may_be_open=False)
        producers.append(int(producer))
        values.append(known[bitmap])
    if not producers:
        raise InvalidInput(f"{file} has no records", field="file", hint="a line a record: 1,10001")
    return Recorded(np.array(producers, np.int32), np.array(values, np.int32))


def read_subscriptions(file: Path, vocabulary: Vocabulary) -> list[Subscription]:
    """Consumers are numbered in the order in which the file names them."""
    numbers: dict[str, int] = {}
    subscriptions = []
    for line, (consumer, bitmap) in _rows(file, ("consumer", "bitmap")):
        if not consumer:
            raise _wrong(file, line, 1, "consumer", "it is empty")
        wanted = _values(file, line, bitmap, vocabulary, may_be_open=True)
        subscriptions.append((numbers.setdefault(consumer, len(numbers)), wanted))
    if not subscriptions:
        raise InvalidInput(
            f"{file} has no subscriptions", field="subscriptions", hint="a line each: S0,10001"
        )
    return subscriptions


def write_records(offers: Offers, file: Path) -> None:
    """A file that `read_records` reads, and that the authors' producer would."""
    bitmaps = [_bitmap(offers.vocabulary, values) for values in offers.values]
    lines = (
        f"{producer},{bitmaps[content]}\n"
        for producer, content in zip(offers.producer.tolist(), offers.content.tolist(), strict=True)
    )
    file.write_text("".join(lines), encoding="ascii")


def write_subscriptions(
    vocabulary: Vocabulary, subscriptions: Sequence[Subscription], file: Path
) -> None:
    lines = (f"S{consumer},{vocabulary.bitmap(wanted)}\n" for consumer, wanted in subscriptions)
    file.write_text("".join(lines), encoding="ascii")


def _bitmap(vocabulary: Vocabulary, values: NDArray[np.int32]) -> str:
    restaurant, food, discount = values.tolist()
    return vocabulary.bitmap((restaurant, food, discount))


def _values(
    file: Path, line: int, bitmap: str, vocabulary: Vocabulary, *, may_be_open: bool
) -> Values:
    try:
        return vocabulary.values(bitmap, may_be_open=may_be_open)
    except ValueError as error:
        raise _wrong(file, line, 2, "bitmap", str(error)) from None


def _rows(file: Path, columns: tuple[str, str]) -> Iterator[tuple[int, list[str]]]:
    """Each line with its number, taken apart into so many columns."""
    expected = ",".join(columns)
    for number, text in enumerate(_lines(file), start=1):
        cells = [cell.strip() for cell in text.split(",")]
        if len(cells) != len(columns):
            reason = f"{len(cells)} columns" if text.strip() else "empty"
            raise InvalidInput(
                f"{file}, line {number} is {reason}: {text[:60]!r}"
                if reason == "empty"
                else f"{file}, line {number} has {reason}: {text[:60]!r}",
                field="file",
                hint=f"{len(columns)} columns a line: {expected}",
            )
        yield number, cells


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InvalidInput(
            f"{file} cannot be read: {error.strerror}", field="file", hint="name a file of records"
        ) from None


def _lines(file: Path) -> list[str]:
    content = _content(file)
    try:
        return content.decode("utf-8").splitlines()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidInput(
            f"{file}, line {line} is no text", field="file", hint="a line a record: 1,10001"
        ) from None


def _wrong(file: Path, line: int, column: int, name: str, why: str) -> InvalidInput:
    return InvalidInput(f"{file}, line {line}, column {column} ({name}): {why}", field=name)
