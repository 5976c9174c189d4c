"""The log of a routed dataset in memory, and what filters match in it: the truth again.

A position is where a record ends. The log forgets its oldest records; here they stay, for checkers.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tocsin.model import Column, Dataset, Result
from tocsin.overlay.filters import Filter, matches
from tocsin.overlay.routing import Publication
from tocsin.sql import parse_filter

WORLD = Dataset("world", (Column("kind", "STRING"), Column("level", "INT")), routed=True)
QUESTIONS = [
    parse_filter(text, WORLD)
    for text in (
        "",
        "kind = 'a'",
        "kind = 'b'",
        "kind IN ('a', 'b')",
        "kind = 'a' AND level > 3",
        "kind = 'a' AND level > 5",
        "level BETWEEN 2 AND 6",
        "level = 4",
        "kind IS NULL",
    )
]
KINDS = ("a", "b", "c", None)
LEVELS = range(8)
LOOKED_AT = 8  # records, for one answer


@dataclass
class ModelLog:
    filters: dict[int, Filter] = field(default_factory=dict)  # by backend subscription
    dataset: str = WORLD.name
    head: int = 0
    floor: int = 0  # records up to here are gone
    records: list[Publication] = field(default_factory=list)
    _matched: dict[int, list[Result]] = field(default_factory=dict)

    def append(self, record: dict[str, Any], size: int, now: float) -> Publication:
        self.head += size
        publication = Publication(self.dataset, self.head, record, now)
        self.records.append(publication)
        payload = msgspec.json.encode(record)
        for backend, filter_ in self.filters.items():
            if matches(filter_, record):
                result = Result(backend, self.head, now, payload)
                self._matched.setdefault(backend, []).append(result)
        return publication

    def retire(self, keep: int) -> None:
        if len(self.records) > keep:
            self.floor = max(self.floor, self.records[-keep - 1].position)

    def results(self, backend: int, after: int, upto: int) -> list[Result]:
        """All that there ever were in (after, upto]."""
        matched = self._matched.get(backend, [])
        return matched[_split(matched, after) : _split(matched, upto)]

    def read(self, backend: int, after: int, upto: int, limit: int) -> tuple[int, list[Result]]:
        """Those of them that are kept, and how far was looked."""
        upto, _ = self.between(after, upto, LOOKED_AT)
        results = self.results(backend, max(after, self.floor), upto)
        return (results[limit - 1].position if len(results) > limit else upto), results[:limit]

    def between(self, after: int, upto: int, limit: int) -> tuple[int, list[Publication]]:
        """All records in a range that are kept, and how far was looked."""
        first = _split(self.records, max(after, self.floor))
        records = self.records[first : _split(self.records, upto)]
        return (records[limit - 1].position if len(records) > limit else upto), records[:limit]


def _split(ordered: list[Any], position: int) -> int:
    return bisect_right(ordered, position, key=lambda record: record.position)
