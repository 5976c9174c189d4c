"""Up to where a dataset is files, and from where on it is the log: for Spark's tables, and for the
plain ones of the fault simulation.
"""

from __future__ import annotations

from collections.abc import Callable

from tocsin.errors import NotFound
from tocsin.storage.log import Reader


def stored_end(log: Reader, dataset: str, end: int | None) -> int:
    """Records below are in files, which were stored up to `end`. Before the first flush: where the
    log begins."""
    if end is not None:
        return end
    try:
        return log.first_position(dataset)
    except NotFound:
        return 0


def window_end(
    log: Reader, dataset: str, start: int, end: int, most_bytes: int, stored: Callable[[], int]
) -> int:
    """Where a window from `start` ends that has about so many bytes; at most `end`, and behind one
    record at least. Below what is `stored` any position will do: files are filtered by position."""
    limit = start + log.span(most_bytes)
    if limit >= end:
        return end
    if limit <= stored():
        return limit
    begin = log.record_at(dataset, limit)
    if begin > start:
        return begin
    for position, body in log.lines(dataset, begin, end, 1):
        return log.end_of(position, body)
    return end


class Flushes:
    """When each dataset's log became files, as far as a running query may still read the log."""

    def __init__(self, clock: Callable[[], float], grace_s: float) -> None:
        self._clock = clock
        self._grace_s = grace_s
        self._recent: dict[str, list[tuple[float, int]]] = {}  # when, and the end until then

    def note(self, dataset: str, first: int) -> None:
        self._recent.setdefault(dataset, []).append((self._clock(), first))

    def forget(self, dataset: str) -> None:
        self._recent.pop(dataset, None)

    def kept_below(self, dataset: str, bound: int) -> int:
        """As `bound`, but no farther than records that were flushed within the grace period."""
        oldest = self._clock() - self._grace_s
        recent = self._recent.get(dataset, [])
        recent[:] = [(at, first) for at, first in recent if at > oldest]
        return min([bound, *(first for _, first in recent)])
