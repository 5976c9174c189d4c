"""The smallest of many scores: a 4-ary heap of records that knows where each key lies.

Equal scores are ordered by `tie`, then by key, as in the live cache.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tocsin.lab.jit.functions import compiled
from tocsin.lab.jit.records import record_dtype, records

ENTRY = record_dtype([("score", "f8"), ("tie", "f8"), ("key", "i8")])


def new_heap(keys: int) -> tuple[Any, Any, Any]:
    """Entries, the place of each key in them (-1: not there), and how many there are."""
    return records(keys, ENTRY), np.full(keys, -1, np.int64), np.zeros(1, np.int64)


@compiled
def precedes(score: float, tie: float, key: int, other: Any) -> bool:
    if score != other.score:
        return bool(score < other.score)
    if tie != other.tie:
        return bool(tie < other.tie)
    return bool(key < other.key)


@compiled
def _settle(entries: Any, places: Any, count: int, at: int) -> None:
    """Move the entry at this place up or down to where it belongs."""
    score, tie, key = entries[at].score, entries[at].tie, entries[at].key
    while at > 0:
        parent = (at - 1) >> 2
        if not precedes(score, tie, key, entries[parent]):
            break
        entries[at] = entries[parent]
        places[entries[at].key] = at
        at = parent
    while True:
        first = 4 * at + 1
        if first >= count:
            break
        least = first
        for child in range(first + 1, min(first + 4, count)):
            other = entries[child]
            if precedes(other.score, other.tie, other.key, entries[least]):
                least = child
        if precedes(score, tie, key, entries[least]):
            break
        entries[at] = entries[least]
        places[entries[at].key] = at
        at = least
    entry = entries[at]
    entry.score, entry.tie, entry.key = score, tie, key
    places[key] = at


@compiled
def place(entries: Any, places: Any, count: Any, key: int, score: float, tie: float) -> None:
    """Insert the key, or give it another score."""
    at = places[key]
    if at < 0:
        at = count[0]
        count[0] += 1
    entry = entries[at]
    entry.score, entry.tie, entry.key = score, tie, key
    _settle(entries, places, count[0], at)


@compiled
def remove(entries: Any, places: Any, count: Any, key: int) -> None:
    at = places[key]
    if at < 0:
        return
    places[key] = -1
    count[0] -= 1
    last = count[0]
    if at < last:
        entries[at] = entries[last]
        _settle(entries, places, last, at)
