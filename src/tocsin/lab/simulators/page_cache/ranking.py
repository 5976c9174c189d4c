"""Pages of a portion by value, compiled: a 4-ary heap whose four children share a cache line.

It does not know where a page lies: an entry that no longer holds stays until it comes to the front.
A page's own entry is the one whose `tie` is the page's `ranked_at`, and it is never above the
page's value: one that rose is put right at the front, too. So most accesses leave the heap alone.
"""

from __future__ import annotations

from typing import Any

from tocsin.lab.jit.functions import compiled, fused, inlined
from tocsin.lab.jit.records import record_dtype

ENTRY = record_dtype([("score", "f8"), ("tie", "i4"), ("key", "i4")])
SPARE = 64  # entries that no longer hold, at least, before they are cleared away


@inlined
def _precedes(score: float, tie: int, key: int, other: Any) -> bool:
    """Of equal values, the one set longest ago comes first (delivery 2.2.1). Those set at once,
    since they came to an age together, go by their numbers."""
    if score != other.score:
        return bool(score < other.score)
    return bool(tie < other.tie or (tie == other.tie and key < other.key))


@inlined
def is_own(items: Any, entry: Any, at: int) -> bool:
    item = items[entry.key]
    return bool(item.portion == at + 1 and item.ranked_at == entry.tie)


@fused
def _up(entries: Any, place: int, score: float, tie: int, key: int) -> None:
    while place > 0:
        parent = (place - 1) >> 2
        if not _precedes(score, tie, key, entries[parent]):
            break
        entries[place] = entries[parent]
        place = parent
    entry = entries[place]
    entry.score, entry.tie, entry.key = score, tie, key


@fused
def _least_child(entries: Any, count: int, place: int) -> int:
    """-1 if there is none."""
    begin = 4 * place + 1
    if begin >= count:
        return -1
    least = begin
    for child in range(begin + 1, min(begin + 4, count)):
        entry = entries[child]
        if _precedes(entry.score, entry.tie, entry.key, entries[least]):
            least = child
    return least


@compiled
def pop(entries: Any, count: Any, at: int) -> None:
    """Take the front out. The last entry is among the largest: it is sought from below."""
    count[at] -= 1
    last = count[at]
    score, tie, key = entries[last].score, entries[last].tie, entries[last].key
    place = 0
    child = _least_child(entries, last, 0)
    while child >= 0:
        entries[place] = entries[child]
        place = child
        child = _least_child(entries, last, place)
    if last > 0:
        _up(entries, place, score, tie, key)


@fused
def _replace(entries: Any, count: int, score: float, tie: int, key: int) -> None:
    """Another value for the front."""
    place = 0
    child = _least_child(entries, count, 0)
    while child >= 0 and not _precedes(score, tie, key, entries[child]):
        entries[place] = entries[child]
        place = child
        child = _least_child(entries, count, place)
    entry = entries[place]
    entry.score, entry.tie, entry.key = score, tie, key


@compiled
def _clear(items: Any, entries: Any, count: Any, at: int) -> None:
    """Leave only entries that hold."""
    kept = 0
    for place in range(count[at]):
        entry = entries[place]
        if is_own(items, entry, at):
            _up(entries, kept, entry.score, entry.tie, entry.key)
            kept += 1
    count[at] = kept


@compiled
def push(items: Any, number: int, at: int, entries: Any, count: Any) -> None:
    """Rank a page by its value as it is."""
    if count[at] == entries.shape[0]:
        _clear(items, entries, count, at)
    item = items[number]
    item.ranked_at = item.set_at
    _up(entries, count[at], item.value, item.set_at, number)
    count[at] += 1


@compiled
def front(items: Any, entries: Any, count: Any, at: int) -> int:
    """The page of the smallest value, whose entry is at the front then; -1: there is none."""
    while count[at] > 0:
        entry = entries[0]
        number = entry.key
        item = items[number]
        if item.portion != at + 1 or item.ranked_at != entry.tie:
            pop(entries, count, at)
        elif item.set_at == entry.tie:
            return int(number)
        else:
            item.ranked_at = item.set_at
            _replace(entries, count[at], item.value, item.set_at, number)
    return -1
