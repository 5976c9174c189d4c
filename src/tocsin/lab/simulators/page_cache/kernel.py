"""A page cache, compiled: `caching.page_cache` operation by operation, with the very policies.

Both portions' pages lie in heaps, side by side. A value that rises leaves its entry as it is: it is
put right when it comes to the front, which spares the work for all that never do. So an entry is
never above its page's value.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tocsin.lab.compiling.functions import borrow, compiled, fused, inlined
from tocsin.lab.compiling.heap import ENTRY, place, remove
from tocsin.lab.compiling.records import record_dtype, records
from tocsin.lab.workloads.pages.operations import NOTIFIED, PUBLISH
from tocsin.lab.workloads.pages.operations import SUPERSEDED as SUPERSEDE
from tocsin.policies.page.design import (
    NOTIFIED_BROWSED,
    PUSHED_REQUESTED,
    Page,
    worth,
)

ITEM = record_dtype(
    Page,
    [
        ("size_bytes", "i8"),
        ("value", "f8"),
        ("set_at", "i8"),
        ("last_request", "i8"),
        ("portion", "i4"),  # + 1: 0 is nowhere
        ("superseded", "i4"),
    ],
)
PORTION = record_dtype(
    [
        ("limit_bytes", "i8"),
        ("size_bytes", "i8"),
        ("age", "f8"),
        ("evicted_at", "i8"),
        ("beta", "f8"),
        ("aborts", "i8"),
        ("ages", "i8"),
    ]
)
SETTING = record_dtype(
    [("layout", "i8"), ("pushes", "i8"), ("least_bytes", "i8"), ("cost", "f8"), ("steps", "i8")]
)
TOTALS = record_dtype(
    [
        (name, "i8")
        for name in "request_bytes hit_bytes evicted evicted_bytes max_bytes size_bytes".split()
    ]
)
STORED, ABORTED, NONE, HIT, MISS_STORED, MISS_NOT_STORED = range(6)
FIRST, SECOND = range(2)
UNINTERESTING = -np.inf
_worth = fused(worth)


def new_state(pages: int, steps: int) -> tuple[Any, ...]:
    """Pages, both heaps (entries, places, counts), portions, setting, totals, room for thought; and
    what is told of steps: outcomes, evicted pages and their portions, up to which each."""
    portions = records(2, PORTION)
    portions["evicted_at"] = -1
    items = records(pages, ITEM)
    items["last_request"] = -1
    return (
        items,
        (records(pages, ENTRY), records(pages, ENTRY)),
        np.full(pages, -1, np.int64),
        np.zeros(2, np.int64),
        portions,
        records(1, SETTING),
        records(1, TOTALS),
        np.zeros(6, np.int64),
        np.zeros((2, pages + 4), np.int64),
        np.zeros(steps, np.uint8),
        np.zeros(steps, np.int32),
        np.zeros(steps, np.uint8),
        np.zeros(steps, np.int64),
    )


@inlined
def _value_now(item: Any, at: int, portion: Any, cost: float, first: Any, second: Any) -> float:
    frequency = first(item) if at == FIRST else second(item)
    value: float = portion.age + _worth(frequency, cost, item.size_bytes, portion.beta)
    return value


@inlined
def _value_anew(
    item: Any, number: int, at: int, value: float, now: int, entries: Any, places: Any, count: Any
) -> None:
    item.value = value
    item.set_at = now
    rank = places[number]
    if rank < 0 or value < entries[rank].score:
        place(entries, places, count[at : at + 1], number, value, now)


@fused
def _front(items: Any, entries: Any, places: Any, count: Any) -> int:
    """The page of the smallest value."""
    while True:
        entry = entries[0]
        number = entry.key
        item = items[number]
        if item.set_at == entry.tie:
            return int(number)
        place(entries, places, count, number, item.value, item.set_at)


@fused
def _bytes_below(
    items: Any, entries: Any, count: int, value: float, enough_bytes: int, waiting: Any
) -> int:
    """Of pages worth less, but no more than is enough. Below an entry are only larger ones."""
    found = 0
    depth = 0
    if count > 0:
        waiting[0] = 0
        depth = 1
    while depth > 0 and found < enough_bytes:
        depth -= 1
        at = waiting[depth]
        if entries[at].score < value:
            item = items[entries[at].key]
            if item.value < value:
                found += item.size_bytes
            for child in range(4 * at + 1, min(4 * at + 5, count)):
                waiting[depth] = child
                depth += 1
    return found


@fused
def _leave(
    items: Any, number: int, at: int, entries: Any, places: Any, count: Any, portion: Any
) -> None:
    item = items[number]
    remove(entries, places, count[at : at + 1], number)
    item.portion = 0
    portion.size_bytes -= item.size_bytes


@fused
def _tell(
    items: Any, number: int, at: int, total: Any, setting: Any, gone: Any, gone_from: Any
) -> None:
    """An eviction."""
    if setting.steps:
        gone[total.evicted] = number
        gone_from[total.evicted] = at
    total.evicted += 1
    total.evicted_bytes += items[number].size_bytes


@fused
def _evict_until(
    items: Any, entries: Any, places: Any, count: Any, portion: Any, at: int, free_bytes: int,
    now: int, total: Any, setting: Any, gone: Any, gone_from: Any,
) -> None:  # fmt: skip
    while portion.limit_bytes - portion.size_bytes < free_bytes:
        number = _front(items, entries, places, count[at : at + 1])
        value = items[number].value
        _leave(items, number, at, entries, places, count, portion)
        _tell(items, number, at, total, setting, gone, gone_from)
        if portion.ages and value != UNINTERESTING:
            portion.age = value
        portion.evicted_at = now


@compiled
def _stale(
    items: Any, entries: Any, places: Any, count: Any, evicted_at: int, needed_bytes: int,
    most_bytes: int, seen: Any, chosen: Any,
) -> int:  # fmt: skip
    """How many stale pages are chosen; 0 if they are not enough."""
    if needed_bytes > most_bytes:
        return 0
    looked, taken, found = 0, 0, 0
    while found < needed_bytes and count[0] > 0:
        number = _front(items, entries, places, count)
        remove(entries, places, count, number)
        seen[looked] = number
        looked += 1
        item = items[number]
        stale = item.superseded != 0 or item.last_request < evicted_at
        if stale and found + item.size_bytes <= most_bytes:
            chosen[taken] = number
            taken += 1
            found += item.size_bytes
    for at in range(looked):
        item = items[seen[at]]
        place(entries, places, count, seen[at], item.value, item.set_at)
    return taken if found >= needed_bytes else 0


@compiled
def run(
    kind: Any, page: Any, size_bytes: Any, subscriptions: Any, state: Any, first: Any, second: Any
) -> None:
    items, places, count = borrow(state[0]), borrow(state[2]), borrow(state[3])
    heaps = (borrow(state[1][0]), borrow(state[1][1]))
    portions = borrow(state[4])
    setting, total = state[5][0], state[6][0]
    counts, room = borrow(state[7]), borrow(state[8])
    told, gone, gone_from, until = (
        borrow(state[9]), borrow(state[10]), borrow(state[11]), borrow(state[12]),
    )  # fmt: skip
    cost, layout, dual = setting.cost, setting.layout, setting.layout == PUSHED_REQUESTED
    waiting, chosen = room[0], room[1]
    for now in range(kind.shape[0]):
        what = kind[now]
        number = page[now]
        item = items[number]
        there = item.portion - 1
        outcome = NONE
        at = FIRST  # where it shall be placed
        placing = False
        if there < 0:
            item.size_bytes = size_bytes[now]
        if what == SUPERSEDE:
            item.superseded = 1
            if there >= 0:
                _value_anew(
                    item, number, there, UNINTERESTING, now,
                    heaps[0] if there == FIRST else heaps[1], places, count,
                )  # fmt: skip
        elif what == PUBLISH:
            item.subscriptions += subscriptions[now]
            if setting.pushes and subscriptions[now] > 0 and not item.superseded:
                if there < 0:
                    placing = True
                    outcome = ABORTED
                    item.accesses = 0
                elif there == FIRST:
                    value = _value_now(item, FIRST, portions[0], cost, first, second)
                    _value_anew(item, number, FIRST, value, now, heaps[0], places, count)
        else:
            notified = what == NOTIFIED
            if notified:
                item.notified += 1
            else:
                item.browsed += 1
            total.request_bytes += item.size_bytes
            if there >= 0:
                outcome = HIT
                total.hit_bytes += item.size_bytes
                if item.superseded:
                    pass
                elif dual and there == FIRST:
                    _move(
                        items, number, now, heaps, places, count, portions, total, setting, gone,
                        gone_from, first, second,
                    )  # fmt: skip
                elif layout != NOTIFIED_BROWSED or notified == (there == FIRST):
                    item.accesses += 1
                    item.last_request = now
                    portion = portions[there]
                    value = _value_now(item, there, portion, cost, first, second)
                    _value_anew(
                        item, number, there, value, now,
                        heaps[0] if there == FIRST else heaps[1], places, count,
                    )  # fmt: skip
            else:
                outcome = MISS_NOT_STORED
                if not item.superseded:
                    placing = True
                    item.accesses = 1
                    item.last_request = now
                    if dual or (layout == NOTIFIED_BROWSED and not notified):
                        at = SECOND
        if placing:
            portion = portions[at]
            entries = heaps[0] if at == FIRST else heaps[1]
            size = item.size_bytes
            needed = size - (portion.limit_bytes - portion.size_bytes)
            fits = size <= portion.limit_bytes
            below = 0
            if needed > 0 and portion.aborts:
                value = _value_now(item, at, portion, cost, first, second)
                below = _bytes_below(items, entries, count[at], value, needed, waiting)
                fits = fits and below >= needed
                if not fits and dual:
                    stale = _stale(
                        items, heaps[1], places, count[1:2], portions[1].evicted_at, needed - below,
                        portions[1].limit_bytes - setting.least_bytes, waiting, chosen,
                    )  # fmt: skip
                    fits = stale > 0
                    for one in range(stale):
                        moved = items[chosen[one]].size_bytes
                        _leave(items, chosen[one], SECOND, heaps[1], places, count, portions[1])
                        _tell(items, chosen[one], SECOND, total, setting, gone, gone_from)
                        portions[1].limit_bytes -= moved
                        portion.limit_bytes += moved
            if fits:
                outcome = STORED if outcome == ABORTED else MISS_STORED
                _evict_until(
                    items, entries, places, count, portion, at, size, now, total, setting, gone,
                    gone_from,
                )  # fmt: skip
                item.portion = at + 1
                portion.size_bytes += size
                value = _value_now(item, at, portion, cost, first, second)
                _value_anew(item, number, at, value, now, entries, places, count)
                total.max_bytes = max(
                    total.max_bytes, portions[0].size_bytes + portions[1].size_bytes
                )
        counts[outcome] += 1
        if setting.steps:
            told[now] = outcome
            until[now] = total.evicted
    total.size_bytes = portions[0].size_bytes + portions[1].size_bytes


@compiled
def _move(
    items: Any, number: int, now: int, heaps: Any, places: Any, count: Any, portions: Any,
    total: Any, setting: Any, gone: Any, gone_from: Any, first: Any, second: Any,
) -> None:  # fmt: skip
    """DC: a pushed page is asked for, and belongs to the access portion now."""
    item, pushed, requested = items[number], portions[0], portions[1]
    size = item.size_bytes
    with_bytes = pushed.limit_bytes - size >= setting.least_bytes
    if with_bytes or size <= requested.limit_bytes:
        _leave(items, number, FIRST, heaps[0], places, count, pushed)
        if with_bytes:
            pushed.limit_bytes -= size
            requested.limit_bytes += size
        _evict_until(
            items, heaps[1], places, count, requested, SECOND, size, now, total, setting, gone,
            gone_from,
        )  # fmt: skip
        item.accesses = 1
        item.last_request = now
        item.portion = SECOND + 1
        requested.size_bytes += size
        value = _value_now(item, SECOND, requested, setting.cost, first, second)
        _value_anew(item, number, SECOND, value, now, heaps[1], places, count)
