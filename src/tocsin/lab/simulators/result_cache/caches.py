"""The caches: what leaves, and which of them loses its tail when room is needed.

Victims lie in a heap by score, and caches whose score is old are marked: they are put right before
the heap is next asked.
"""

from __future__ import annotations

from typing import Any

from tocsin.lab.jit.functions import compiled, inlined
from tocsin.lab.jit.heap import place, precedes, remove
from tocsin.lab.simulators.result_cache.state import EVICTION


@inlined
def mark(cache: Any, run: Any, marks: Any) -> None:
    """Score and deadline are to be looked at again before they are next needed."""
    if cache.marked & 1 == 0:
        cache.marked |= 1
        marks[0, run.marks] = cache.backend
        run.marks += 1
    if run.expires and cache.marked & 2 == 0:
        cache.marked |= 2
        marks[1, run.late_marks] = cache.backend
        run.late_marks += 1


@inlined
def account(run: Any, now: float) -> None:
    elapsed_s = now - run.measured_at
    if elapsed_s > 0:
        run.byte_s += run.size_bytes * elapsed_s
        run.overshoot_byte_s += max(0, run.size_bytes - run.budget_bytes) * elapsed_s
        run.measured_at = now


@inlined
def access(cache: Any, run: Any, now: float) -> None:
    cache.last_access_at = now
    cache.inflation = run.inflation


@compiled
def pop(cache: Any, objects: Any, run: Any, marks: Any, now: float) -> int:
    """The tail object leaves. Its size."""
    account(run, now)
    gone = objects[cache.first + cache.tail]
    run.size_bytes -= gone.size_bytes
    run.held_s += now - gone.cached_at
    cache.spoiled = cache.waiting
    cache.tail += 1
    tail = objects[cache.first + cache.tail]  # or where it will be
    cache.waiting += tail.standing
    cache.away_since_ms += tail.away_since_ms
    tail.standing = 0
    tail.away_since_ms = 0
    if cache.tail == cache.next:
        cache.waiting += cache.online
    mark(cache, run, marks)
    size_bytes: int = gone.size_bytes
    return size_bytes


@compiled
def consume(cache: Any, objects: Any, run: Any, marks: Any, now: float) -> None:
    """Tail objects that nobody waits for any longer leave."""
    while cache.waiting == 0 and cache.next > cache.tail:
        size_bytes = pop(cache, objects, run, marks, now)
        cache.consumption_bytes += size_bytes
        run.consumed += 1
        run.consumed_bytes += size_bytes


@compiled
def show(cache: Any, objects: Any, policies: Any, look: Any) -> None:
    """As `Suffix.show`."""
    if not look(policies[EVICTION], cache, 0, cache.tail_size_bytes, cache.waiting):
        return
    for position in range(cache.tail + 1, cache.next):
        item = objects[cache.first + position]
        nth = position - cache.tail
        if not look(policies[EVICTION], cache, nth, item.size_bytes, item.standing):
            return


@compiled
def mend_scores(
    caches: Any, objects: Any, run: Any, marks: Any, victims: Any, policies: Any,
    score: Any, look: Any, now: float,
) -> None:  # fmt: skip
    entries, places, count = victims
    for at in range(run.marks):
        cache = caches[marks[0, at]]
        cache.marked &= 2
        if cache.next > cache.tail:
            item = objects[cache.first + cache.tail]
            cache.tail_size_bytes = item.size_bytes
            cache.tail_created_at = item.created_at
            cache.tail_cached_at = item.cached_at
            cache.present = 0
            cache.now = now
            if run.looks:
                show(cache, objects, policies, look)
            worth = score(policies[EVICTION], cache)
            place(entries, places, count, cache.backend, worth, item.cached_at)
        else:
            remove(entries, places, count, cache.backend)
    run.marks = 0


@compiled
def make_room(
    cache: Any, caches: Any, objects: Any, run: Any, marks: Any, victims: Any, policies: Any,
    score: Any, look: Any, size_bytes: int, created_at: float, now: float,
) -> bool:  # fmt: skip
    """As `ResultCache._make_room`: False if the new object is the smallest itself."""
    entries, _, count = victims
    while run.size_bytes + size_bytes > run.budget_bytes:
        mend_scores(caches, objects, run, marks, victims, policies, score, look, now)
        if cache.tail == cache.next:
            cache.tail_size_bytes = size_bytes
            cache.tail_created_at = created_at
            cache.tail_cached_at = now
            cache.present = cache.online
            cache.now = now
            if run.looks:
                show(cache, objects, policies, look)
            worth = score(policies[EVICTION], cache)
            if count[0] == 0 or precedes(worth, now, cache.backend, entries[0]):
                return False
        run.inflation = entries[0].score
        freed_bytes = pop(caches[entries[0].key], objects, run, marks, now)
        run.evicted += 1
        run.evicted_bytes += freed_bytes
    return True
