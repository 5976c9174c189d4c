"""A plain cache under requests, compiled: a miss is cached, smallest scores make room.

Cached objects are ranked in two lanes. Whoever's score is the largest so far (of LRU and FIFO:
everybody's) is appended to a queue; all others are in a heap. The smallest score is at the front
of one of them. Entries of objects that were asked for since may be too small: they are put right
when they come to the front, which spares the work for all that never do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tocsin.lab.jit.functions import borrow, compiled, inlined
from tocsin.lab.jit.heap import ENTRY, new_heap, place, precedes, remove
from tocsin.lab.jit.records import record_dtype, records
from tocsin.policies import Candidate

CANDIDATE = record_dtype(Candidate)
OBJECT = record_dtype(
    [
        ("size_bytes", "i8"),
        ("cached_at", "f8"),
        ("last_access_at", "f8"),
        ("requests", "i8"),  # since it was cached
        ("inflation", "f8"),
        ("ranked", "f8"),  # the score it is ranked by: never above its own
        ("lane", "i8"),
    ]
)
_COUNTS = """hits hit_bytes misses miss_bytes inserted bypassed evicted evicted_bytes size_bytes
    max_bytes"""
TOTALS = record_dtype([(name, "i8") for name in _COUNTS.split()] + [("inflation", "f8")])
NOT_CACHED, QUEUED, HEAPED = range(3)
FRONT, END = range(2)  # of the queue, both ever growing: places in the ring are their last bits


def new_ranking(objects: int) -> tuple[Any, ...]:
    """The queue in a ring, its front and end; and the heap."""
    places = 1 << int(2 * objects).bit_length()
    return records(places, ENTRY), np.zeros(2, np.int64), *new_heap(objects)


@inlined
def _score(item: Any, number: int, candidate: Any, policy: Any, score: Any) -> float:
    candidate.backend = number
    candidate.waiting = item.requests
    candidate.fetch_delay_s = 1.0
    candidate.tail_size_bytes = item.size_bytes
    candidate.tail_cached_at = item.cached_at
    candidate.last_access_at = item.last_access_at
    candidate.inflation = item.inflation
    value: float = score(policy, candidate)
    return value


@inlined
def _is_dead(objects: Any, entry: Any) -> bool:
    """A newer entry of the same object exists, or it is gone."""
    item = objects[entry.key]
    return bool(item.lane != QUEUED or item.ranked != entry.score)


@compiled
def _tidy(objects: Any, queue: Any, span: Any) -> None:
    """Leave only the living in the queue."""
    last = queue.shape[0] - 1
    end = span[FRONT]
    for at in range(span[FRONT], span[END]):
        if not _is_dead(objects, queue[at & last]):
            queue[end & last] = queue[at & last]
            end += 1
    span[END] = end


@inlined
def _is_largest(item: Any, number: int, score: float, queue: Any, span: Any) -> bool:
    if span[FRONT] == span[END]:
        return True
    newest = queue[(span[END] - 1) & (queue.shape[0] - 1)]
    return not precedes(score, item.cached_at, number, newest)


@inlined
def _rank(
    objects: Any, queue: Any, span: Any, entries: Any, places: Any, count: Any,
    number: int, score: float,
) -> None:  # fmt: skip
    item = objects[number]
    if _is_largest(item, number, score, queue, span):
        if item.lane == HEAPED:
            remove(entries, places, count, number)
        if span[END] - span[FRONT] == queue.shape[0]:
            _tidy(objects, queue, span)
        item.lane = QUEUED
        entry = queue[span[END] & (queue.shape[0] - 1)]
        entry.score, entry.tie, entry.key = score, item.cached_at, number
        span[END] += 1
    else:
        item.lane = HEAPED
        place(entries, places, count, number, score, item.cached_at)
    item.ranked = score


@inlined
def _victim(
    objects: Any, queue: Any, span: Any, entries: Any, places: Any, count: Any,
    candidate: Any, policy: Any, score: Any,
) -> int:  # fmt: skip
    """The object with the smallest score; taken out of the ranking."""
    last = queue.shape[0] - 1
    while True:
        while span[FRONT] < span[END] and _is_dead(objects, queue[span[FRONT] & last]):
            span[FRONT] += 1
        heaped = span[FRONT] == span[END]
        front = queue[span[FRONT] & last]
        if not heaped and count[0] > 0:
            heaped = precedes(entries[0].score, entries[0].tie, entries[0].key, front)
        number = entries[0].key if heaped else front.key
        item = objects[number]
        now = _score(item, number, candidate, policy, score)
        if now == item.ranked:
            if heaped:
                remove(entries, places, count, number)
            item.lane = NOT_CACHED
            return int(number)
        _rank(objects, queue, span, entries, places, count, number, now)


@compiled
def run(
    requested: Any, size_bytes: Any, state: Any, budget_bytes: int, policies: Any, score: Any,
) -> None:  # fmt: skip
    objects, queue, span = borrow(state[0]), borrow(state[1]), borrow(state[2])
    entries, places, count = borrow(state[3]), borrow(state[4]), borrow(state[5])
    candidates, totals = state[6], state[7]
    total, candidate, policy = totals[0], candidates[0], policies[0]
    for event in range(requested.shape[0]):
        number = requested[event]
        item = objects[number]
        if item.lane != NOT_CACHED:
            total.hits += 1
            total.hit_bytes += item.size_bytes
            item.requests += 1
            item.last_access_at = event
            item.inflation = total.inflation
            now = _score(item, number, candidate, policy, score)
            if now < item.ranked or (
                now > item.ranked and _is_largest(item, number, now, queue, span)
            ):
                _rank(objects, queue, span, entries, places, count, number, now)
            continue
        size = size_bytes[event]
        total.misses += 1
        total.miss_bytes += size
        if size > budget_bytes:
            total.bypassed += 1
            continue
        while total.size_bytes + size > budget_bytes:
            victim = objects[
                _victim(objects, queue, span, entries, places, count, candidate, policy, score)
            ]
            total.inflation = victim.ranked
            total.size_bytes -= victim.size_bytes
            total.evicted += 1
            total.evicted_bytes += victim.size_bytes
        item.size_bytes = size
        item.cached_at = event
        item.last_access_at = event
        item.requests = 1
        item.inflation = total.inflation
        now = _score(item, number, candidate, policy, score)
        _rank(objects, queue, span, entries, places, count, number, now)
        total.inserted += 1
        total.size_bytes += size
        total.max_bytes = max(total.max_bytes, total.size_bytes)
