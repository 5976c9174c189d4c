"""What a run looks at: the records of its channel's NEW datasets between two cuts of the log."""

from __future__ import annotations

import datetime as dt

from msgspec import Struct

from tocsin.storage.store.progress import Progress

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


class Window(Struct, frozen=True):
    """From where the channel stood up to where it will stand. Records between are stamped after
    the first time, up to and including the second."""

    since: Progress
    upto: Progress

    def range(self, dataset: str) -> tuple[int, int]:
        start = self.since.ends.get(dataset, 0)
        return start, self.upto.ends.get(dataset, start)

    @property
    def lacks_new(self) -> bool:
        """Whether one of the datasets has no new records, so that a join of them has none."""
        return any(start >= end for start, end in map(self.range, self.upto.ends))

    def times(self) -> tuple[dt.datetime, dt.datetime]:
        return _time(self.since.at_us), _time(self.upto.at_us)


def _time(stamp_us: int) -> dt.datetime:
    return _EPOCH + dt.timedelta(microseconds=stamp_us)
