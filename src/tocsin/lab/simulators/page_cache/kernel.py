"""A page cache, compiled: `caching.page_cache` operation by operation, with the very policies.

Time is the number of the operation, twice: in between, pages grow older. In DC's access portion
values are set by requests alone, so that a value's time is that of the last request.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tocsin.lab.jit.functions import borrow, compiled, fused, inlined
from tocsin.lab.jit.records import record_dtype, records
from tocsin.lab.simulators.page_cache.ranking import ENTRY, SPARE, front, is_own, pop, push
from tocsin.lab.workloads.pages.operations import NOTIFIED, PUBLISH
from tocsin.lab.workloads.pages.operations import RENEWED as RENEW
from tocsin.lab.workloads.pages.operations import SUPERSEDED as SUPERSEDE
from tocsin.policies.page.design import (
    NOTIFIED_BROWSED,
    PUSHED_REQUESTED,
    Event,
    Page,
    worth,
)

ITEM = record_dtype(
    Page,
    [
        ("size_bytes", "i8"),
        ("value", "f8"),
        ("set_at", "i4"),  # when the value was set
        ("ranked_at", "i4"),  # and when the one by which it is ranked was
        ("portion", "i2"),  # + 1: 0 is nowhere
        ("superseded", "i2"),
    ],
    age="i4",
)
"""64 bytes: a cache line."""
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
    [
        ("layout", "i8"),
        ("pushes", "i8"),
        ("least_bytes", "i8"),
        ("cost", "f8"),
        ("steps", "i8"),
        ("observed", "i8"),  # the policy keeps state
        ("born", "i8"),  # pages, so far
        ("due", "i8"),  # the operation when the next page comes to an age
    ]
)
_COUNTS = ("request_bytes", "hit_bytes", "evicted", "evicted_bytes", "max_bytes", "size_bytes")
TOTALS = record_dtype([(name, "i8") for name in _COUNTS])
STORED, ABORTED, NONE, HIT, MISS_STORED, MISS_NOT_STORED = range(6)
FIRST, SECOND = range(2)
UNINTERESTING = -np.inf
NEVER = 2**62
BORN, PUBLISHED, LED, BROWSED, OLDER = (
    int(event)
    for event in (Event.BORN, Event.PUBLISHED, Event.NOTIFIED, Event.BROWSED, Event.OLDER)
)
_worth = fused(worth)


def new_state(pages: int, steps: int, ages: tuple[int, ...], observed: int) -> tuple[Any, ...]:
    """Pages, both portions' rankings, and how many entries they have; portions, setting, totals,
    counts of outcomes, room for thought; what is told of steps: outcomes, evicted pages and
    their portions, up to which each; and, for so many pages as a policy that keeps state is told
    of: the operation when each was born, their order, how many have passed each age, the ages."""
    portions = records(2, PORTION)
    portions["evicted_at"] = -1
    room = 2 * pages + SPARE
    return (
        records(pages, ITEM),
        (records(room, ENTRY), records(room, ENTRY)),
        np.zeros(2, np.int64),
        portions,
        records(1, SETTING),
        records(1, TOTALS),
        np.zeros(6, np.int64),
        np.zeros((2, room), np.int64),
        np.zeros(steps, np.uint8),
        np.zeros(steps, np.int32),
        np.zeros(steps, np.uint8),
        np.zeros(steps, np.int64),
        (
            np.zeros(observed, np.int64),
            np.zeros(observed, np.int32),
            np.zeros(len(ages), np.int64),
            np.array(ages, np.int64),
        ),
    )


@fused
def _value_now(
    items: Any, number: int, at: int, portion: Any, cost: float, policy: Any, first: Any,
    second: Any,
) -> float:  # fmt: skip
    item = items[number]
    frequency = first(policy, item) if at == FIRST else second(policy, item)
    value: float = portion.age + _worth(frequency, cost, item.size_bytes, portion.beta)
    return value


@inlined
def _value_anew(
    items: Any, number: int, at: int, value: float, now: int, entries: Any, count: Any
) -> None:
    item = items[number]
    fell = value < item.value
    item.value = value
    item.set_at = now
    if fell:
        push(items, number, at, entries, count)


@inlined
def _put(
    items: Any, number: int, at: int, value: float, now: int, entries: Any, count: Any, portion: Any
) -> None:
    item = items[number]
    item.portion = at + 1
    portion.size_bytes += item.size_bytes
    item.value = value
    item.set_at = now
    push(items, number, at, entries, count)


@compiled
def _bytes_below(
    items: Any, entries: Any, count: int, at: int, value: float, enough_bytes: int, waiting: Any
) -> int:
    """Of pages worth less, but no more than is enough. Below an entry are only larger ones."""
    below_bytes = 0
    depth = 0
    if count > 0:
        waiting[0] = 0
        depth = 1
    while depth > 0 and below_bytes < enough_bytes:
        depth -= 1
        place = waiting[depth]
        entry = entries[place]
        if entry.score < value:
            item = items[entry.key]
            if item.value < value and is_own(items, entry, at):
                below_bytes += item.size_bytes
            for child in range(4 * place + 1, min(4 * place + 5, count)):
                waiting[depth] = child
                depth += 1
    return below_bytes


@inlined
def _leave(items: Any, number: int, portion: Any) -> None:
    item = items[number]
    item.portion = 0
    portion.size_bytes -= item.size_bytes


@fused
def _note(
    items: Any, number: int, at: int, total: Any, setting: Any, gone: Any, gone_from: Any
) -> None:
    """An eviction."""
    if setting.steps:
        gone[total.evicted] = number
        gone_from[total.evicted] = at
    total.evicted += 1
    total.evicted_bytes += items[number].size_bytes


@compiled
def _evict_until(
    items: Any, entries: Any, count: Any, portion: Any, at: int, free_bytes: int,
    now: int, total: Any, setting: Any, gone: Any, gone_from: Any,
) -> None:  # fmt: skip
    while portion.limit_bytes - portion.size_bytes < free_bytes:
        number = front(items, entries, count, at)
        value = items[number].value
        pop(entries, count, at)
        _leave(items, number, portion)
        _note(items, number, at, total, setting, gone, gone_from)
        if portion.ages and value != UNINTERESTING:
            portion.age = value
        portion.evicted_at = now


@compiled
def _stale(
    items: Any, entries: Any, count: Any, evicted_at: int, needed_bytes: int, most_bytes: int,
    seen: Any, chosen: Any,
) -> int:  # fmt: skip
    """How many stale pages are chosen; 0 if they are not enough."""
    if needed_bytes > most_bytes:
        return 0
    looked, taken, stale_bytes = 0, 0, 0
    while stale_bytes < needed_bytes:
        number = front(items, entries, count, SECOND)
        if number < 0:
            break
        pop(entries, count, SECOND)
        seen[looked] = number
        looked += 1
        item = items[number]
        stale = item.superseded != 0 or item.set_at < evicted_at
        if stale and stale_bytes + item.size_bytes <= most_bytes:
            chosen[taken] = number
            taken += 1
            stale_bytes += item.size_bytes
    for place in range(looked):
        push(items, seen[place], SECOND, entries, count)
    return taken if stale_bytes >= needed_bytes else 0


@compiled
def _begin(
    items: Any, operation: int, entries: Any, count: Any, portion: Any, setting: Any,
    order: Any, born: Any, passed: Any, ages: Any, policy: Any, first: Any, begin: Any,
    observe: Any,
) -> None:  # fmt: skip
    """An operation begins: pages come to other ages, and are valued anew."""
    begin(policy, operation)
    if operation < setting.due:
        return
    setting.due = NEVER
    for age in range(ages.shape[0]):
        while passed[age] < setting.born:
            number = order[passed[age]]
            item = items[number]
            if operation < born[number] + ages[age]:
                setting.due = min(setting.due, born[number] + ages[age])
                break
            passed[age] += 1
            item.age = age + 1
            observe(policy, item, OLDER, 0, operation)
            if item.portion > 0 and not item.superseded:
                value = _value_now(
                    items, number, FIRST, portion, setting.cost, policy, first, first
                )
                _value_anew(items, number, FIRST, value, 2 * operation - 1, entries, count)


@compiled
def _tell(
    items: Any, number: int, what: int, before: int, operation: int, setting: Any, order: Any,
    born: Any, ages: Any, policy: Any, observe: Any,
) -> None:  # fmt: skip
    """Tell a policy that keeps state of a page; its own counts are set already."""
    item = items[number]
    if born[number] == 0:
        born[number] = operation
        order[setting.born] = number
        setting.born += 1
        if ages.shape[0] > 0:
            setting.due = min(setting.due, operation + ages[0])
        observe(policy, item, BORN, 0, operation)
    elif what == PUBLISH:
        observe(policy, item, PUBLISHED, before, operation)
    if what != PUBLISH:
        observe(policy, item, LED if what == NOTIFIED else BROWSED, 0, operation)


@compiled
def run(
    kind: Any, page: Any, size_bytes: Any, subscriptions: Any, state: Any, policies: Any,
    first: Any, second: Any, begin: Any, observe: Any,
) -> None:  # fmt: skip
    items, count, portions = borrow(state[0]), borrow(state[2]), borrow(state[3])
    heaps = (borrow(state[1][0]), borrow(state[1][1]))
    setting, total = state[4][0], state[5][0]
    counts, room = borrow(state[6]), borrow(state[7])
    outcomes, gone, gone_from, until = (
        borrow(state[8]), borrow(state[9]), borrow(state[10]), borrow(state[11]),
    )  # fmt: skip
    cost, layout, dual = setting.cost, setting.layout, setting.layout == PUSHED_REQUESTED
    waiting, chosen = room[0], room[1]
    born, order, passed = borrow(state[12][0]), borrow(state[12][1]), borrow(state[12][2])
    ages, observed, policy = borrow(state[12][3]), setting.observed != 0, policies[0]
    for row in range(kind.shape[0]):
        now = 2 * row + 2
        what = kind[row]
        number = page[row]
        item = items[number]
        if observed:
            _begin(
                items, row + 1, heaps[0], count, portions[0], setting, order, born, passed, ages,
                policy, first, begin, observe,
            )  # fmt: skip
        there = item.portion - 1
        outcome = NONE
        at = FIRST  # where it shall be placed
        placing = False
        if there < 0:
            item.size_bytes = size_bytes[row]
        if what in (SUPERSEDE, RENEW):
            item.superseded = what == SUPERSEDE
            if there >= 0:
                value = UNINTERESTING
                if what == RENEW:
                    value = _value_now(
                        items, number, there, portions[there], cost, policy, first, second,
                    )  # fmt: skip
                _value_anew(
                    items, number, there, value, now,
                    heaps[0] if there == FIRST else heaps[1], count,
                )  # fmt: skip
        elif what == PUBLISH:
            before = item.subscriptions
            item.subscriptions = subscriptions[row]
            if observed:
                _tell(
                    items, number, what, before, row + 1, setting, order, born, ages, policy,
                    observe,
                )  # fmt: skip
            if setting.pushes and subscriptions[row] > 0 and not item.superseded:
                if there < 0:
                    placing = True
                    outcome = ABORTED
                    item.accesses = 0
                elif there == FIRST:
                    value = _value_now(
                        items, number, FIRST, portions[0], cost, policy, first, second,
                    )  # fmt: skip
                    _value_anew(items, number, FIRST, value, now, heaps[0], count)
        else:
            notified = what == NOTIFIED
            if notified:
                item.notified += 1
            else:
                item.browsed += 1
            if observed:
                _tell(
                    items, number, what, 0, row + 1, setting, order, born, ages, policy, observe,
                )  # fmt: skip
            total.request_bytes += item.size_bytes
            if there >= 0:
                outcome = HIT
                total.hit_bytes += item.size_bytes
                if item.superseded:
                    pass
                elif dual and there == FIRST:
                    _move(
                        items, number, now, heaps, count, portions, total, setting, gone,
                        gone_from, policy, first, second,
                    )  # fmt: skip
                elif layout != NOTIFIED_BROWSED or notified == (there == FIRST):
                    item.accesses += 1
                    portion = portions[there]
                    value = _value_now(
                        items, number, there, portion, cost, policy, first, second,
                    )  # fmt: skip
                    _value_anew(
                        items, number, there, value, now,
                        heaps[0] if there == FIRST else heaps[1], count,
                    )  # fmt: skip
            else:
                outcome = MISS_NOT_STORED
                if not item.superseded:
                    placing = True
                    item.accesses = 1
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
                value = _value_now(
                        items, number, at, portion, cost, policy, first, second,
                    )  # fmt: skip
                below = _bytes_below(items, entries, count[at], at, value, needed, waiting)
                fits = fits and below >= needed
                if not fits and dual:
                    stale = _stale(
                        items, heaps[1], count, portions[1].evicted_at, needed - below,
                        portions[1].limit_bytes - setting.least_bytes, waiting, chosen,
                    )  # fmt: skip
                    fits = stale > 0
                    for place in range(stale):
                        moved = items[chosen[place]].size_bytes
                        _leave(items, chosen[place], portions[1])
                        _note(items, chosen[place], SECOND, total, setting, gone, gone_from)
                        portions[1].limit_bytes -= moved
                        portion.limit_bytes += moved
            if fits:
                outcome = STORED if outcome == ABORTED else MISS_STORED
                _evict_until(
                    items, entries, count, portion, at, size, now, total, setting, gone, gone_from,
                )  # fmt: skip
                value = _value_now(
                        items, number, at, portion, cost, policy, first, second,
                    )  # fmt: skip
                _put(items, number, at, value, now, entries, count, portion)
                total.max_bytes = max(
                    total.max_bytes, portions[0].size_bytes + portions[1].size_bytes
                )
        counts[outcome] += 1
        if setting.steps:
            outcomes[row] = outcome
            until[row] = total.evicted
    total.size_bytes = portions[0].size_bytes + portions[1].size_bytes


@compiled
def _move(
    items: Any, number: int, now: int, heaps: Any, count: Any, portions: Any, total: Any,
    setting: Any, gone: Any, gone_from: Any, policy: Any, first: Any, second: Any,
) -> None:  # fmt: skip
    """DC: a pushed page is asked for, and belongs to the access portion now."""
    item, pushed, requested = items[number], portions[0], portions[1]
    size = item.size_bytes
    with_bytes = pushed.limit_bytes - size >= setting.least_bytes
    if with_bytes or size <= requested.limit_bytes:
        _leave(items, number, pushed)
        if with_bytes:
            pushed.limit_bytes -= size
            requested.limit_bytes += size
        _evict_until(
            items, heaps[1], count, requested, SECOND, size, now, total, setting, gone, gone_from,
        )  # fmt: skip
        item.accesses = 1
        value = _value_now(
            items, number, SECOND, requested, setting.cost, policy, first, second,
        )  # fmt: skip
        _put(items, number, SECOND, value, now, heaps[1], count, requested)
