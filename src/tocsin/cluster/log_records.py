"""The records of a dataset by their places, wherever they are kept: the log, or the Parquet files
that older ones became. Spark is not needed for that.

A record that lies at [after, position) of the log is known by its end, `position`. Everything in
(floor, end of the log] can be read. Knows nothing of filters' texts, brokers or sockets; everything
here may wait for disks, and is called on threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import msgspec
from prometheus_client import Counter

from tocsin.cluster.stored_records import FileRange, StoredRange, file_ranges
from tocsin.errors import Gone, NotFound
from tocsin.model import Dataset
from tocsin.protocol import log_line
from tocsin.protocol.unreadable import readable
from tocsin.storage.log import Reader
from tocsin.storage.tables import TableFiles

STRANGE = Counter("tocsin_strange_records_total", "What others wrote into a dataset's topic")
PIECE_BYTES = 1024 * 1024
MOST_LOOKED_AT = 500_000
_TRIES = 3


_decode_record = readable(msgspec.json.Decoder(dict[str, Any]).decode)


class Placed(NamedTuple):
    """A record, as JSON, and where it lies. `at`: when the log took it."""

    after: int
    position: int
    at: float
    record: bytes


class Read(NamedTuple):
    """All records up to a position, in order."""

    records: list[Placed]
    upto: int


def placed(after: int, position: int, body: bytes) -> Placed | None:
    """A line of the log; None if it is no record after all: others may write into a topic. Brokers
    read what is told them as a record, and would ask for what they cannot read for ever."""
    try:
        line = log_line.decode_content(body)
        record = bytes(line.record)
        extra = bytes(line.extra)
        if extra:
            record = record[:-1] + (b"," if len(record) > 2 else b"") + extra[1:]
        _decode_record(record)
    except msgspec.DecodeError:
        STRANGE.inc()
        return None
    return Placed(after, position, line.taken_us / 1e6, record)


class LogRecords:
    """Safe to call from any thread, as far as the log's reader is."""

    def __init__(self, log: Reader, tables: TableFiles) -> None:
        self._log = log
        self._tables = tables

    def floor(self, dataset: Dataset) -> int:
        """Everything behind it can still be read."""
        files = self._files(dataset)
        if not files:
            return self._first_position(dataset.name)
        if dataset.retain_s is None:
            return files[0].first_position
        for file in files:
            if file.rows:
                return self._stored(dataset, file).first_position
        return files[-1].end_position

    def read(self, dataset: Dataset, after: int, upto: int, most_bytes: int = PIECE_BYTES) -> Read:
        """The records in (after, upto], which the log has or had; of more than `most_bytes` the
        first, but at least one. `after` and `upto` need not be where a record ends."""
        for _ in range(_TRIES):
            begin = max(after, self.floor(dataset))
            if begin >= upto:
                break
            first = self._first_position(dataset.name)
            if begin < first:
                return self._read_stored(dataset, begin, min(upto, first), most_bytes)
            try:
                return self._read_logged(dataset.name, begin, upto, most_bytes)
            except Gone:  # it has just become Parquet alone
                continue
        return Read([], upto)

    def since(self, dataset: Dataset, at_us: int, end: int) -> int:
        """Behind which position everything was taken at or after a moment."""
        begin = self.floor(dataset)
        for file in self._files(dataset):
            if file.rows and file.max_received_us >= at_us:
                return self._stored(dataset, file).since(at_us)
            begin = max(begin, file.end_position)
        pieces = self._log.pieces(dataset.name, begin, end, PIECE_BYTES)
        while len(pieces) > 1:
            middle = len(pieces) // 2
            earlier = self._taken_us(dataset.name, pieces[middle][0], end) < at_us
            pieces = pieces[middle:] if earlier else pieces[:middle]
        for first, upto in pieces:
            for position, body in self._lines(dataset.name, first, upto):
                if log_line.taken_us(body) >= at_us:
                    return position
            begin = upto
        return begin

    def last(
        self, dataset: Dataset, matches: Callable[[dict[str, Any]], bool], count: int, end: int
    ) -> int:
        """Behind which position the last `count` matching records are, as far as one looks back."""
        behind = end
        looked_at = 0
        for records in self._backwards(dataset, end):
            for record in reversed(records):
                looked_at += 1
                if matches(msgspec.json.decode(record.record)):
                    behind = record.after
                    count -= 1
                    if count == 0:
                        return behind
            if looked_at >= MOST_LOOKED_AT:
                return behind
        return behind

    def _backwards(self, dataset: Dataset, end: int) -> Iterator[list[Placed]]:
        files = self._files(dataset)
        begin = max([self.floor(dataset), *(file.end_position for file in files)])
        for first, upto in reversed(self._log.pieces(dataset.name, begin, end, PIECE_BYTES)):
            yield [
                record
                for position, body in self._lines(dataset.name, first, upto)
                if (record := placed(position, self._log.end_of(position, body), body))
            ]
        for file in reversed(files):
            for rows in self._stored(dataset, file).backwards(PIECE_BYTES):
                yield [Placed(*row) for row in rows]

    def _read_logged(self, name: str, after: int, upto: int, most_bytes: int) -> Read:
        records: list[Placed] = []
        start, reached = self._log.record_at(name, after), None
        for position, body in self._log.lines(name, start, upto, most_bytes):
            end = self._log.end_of(position, body)
            if end > upto:
                reached = upto
                break
            record = placed(position, end, body)
            if record is not None:
                records.append(record)
            reached = end
        return Read(records, upto if reached is None else reached)

    def _read_stored(self, dataset: Dataset, after: int, upto: int, most_bytes: int) -> Read:
        for file in self._files(dataset):
            if file.end_position > after:
                rows, reached = self._stored(dataset, file).read(after, upto, most_bytes)
                return Read([Placed(*row) for row in rows], reached)
        return Read([], upto)

    def _files(self, dataset: Dataset) -> list[FileRange]:
        return file_ranges(self._tables.stored(dataset).files)

    def _stored(self, dataset: Dataset, files: FileRange) -> StoredRange:
        ends = partial(self._log.ends, dataset.name)
        return StoredRange(self._tables.folder, files, dataset, ends)

    def _lines(self, name: str, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """As the log's own, a piece at a time: some media read all that is asked for at once."""
        while start < end:
            lines = list(self._log.lines(name, start, end, PIECE_BYTES))
            yield from lines
            start = self._log.end_of(*lines[-1]) if lines else end

    def _taken_us(self, name: str, start: int, end: int) -> int:
        for _, body in self._log.lines(name, start, end, 1):
            return log_line.taken_us(body)
        return 1 << 62

    def _first_position(self, name: str) -> int:
        try:
            return self._log.first_position(name)
        except NotFound:  # it is being dropped
            return 0
