"""The same operations through the page cache of a running broker."""

from __future__ import annotations

import time

import numpy as np

from tocsin.caching.page_cache import OUTCOMES, Outcome, PageCache, Step
from tocsin.lab.simulators.page_cache.outcome import PageOutcome, Steps
from tocsin.lab.workloads.pages.operations import (
    NOTIFIED,
    PUBLISH,
    RENEWED,
    SUPERSEDED,
    Operations,
)
from tocsin.policies.page import PagePolicy, portion_names

NUMBERS = {outcome: number for number, outcome in enumerate(OUTCOMES)}


def _play(
    cache: PageCache[int], kind: int, page: int, size_bytes: int, subscriptions: int
) -> Step[int] | None:
    if kind in (SUPERSEDED, RENEWED):
        cache.superseded(page, kind == SUPERSEDED)
        return None
    if kind == PUBLISH:
        return cache.publish(page, size_bytes, subscriptions)
    return cache.request(page, size_bytes, kind == NOTIFIED)


def run_live(
    operations: Operations, policy: PagePolicy, capacity_bytes: int, *, cost: float = 1.0
) -> tuple[PageOutcome, Steps]:
    cache: PageCache[int] = PageCache(policy, capacity_bytes, cost=cost)
    names = portion_names(policy)
    outcomes: list[Outcome] = []
    until = []
    evicted: list[tuple[int, str]] = []
    columns = (operations.kind, operations.page, operations.size_bytes, operations.subscriptions)
    rows = zip(*(column.tolist() for column in columns), strict=True)
    started = time.perf_counter()
    for row in rows:
        step = _play(cache, *row)
        outcomes.append(step.outcome if step else "none")
        evicted += step.evicted if step else []
        until.append(len(evicted))
    seconds = time.perf_counter() - started
    counters = cache.counters
    same = set(PageOutcome.__struct_fields__) & set(counters.__struct_fields__)
    outcome = PageOutcome(
        **{name: getattr(counters, name) for name in same},
        operations=len(operations),
        cached_bytes=cache.size_bytes,
        cache_max_bytes=counters.max_bytes,
        seconds=seconds,
    )
    steps = Steps(
        np.array([NUMBERS[name] for name in outcomes], np.uint8),
        np.array([page for page, _ in evicted], np.int32),
        np.array([names.index(portion) for _, portion in evicted], np.uint8),
        np.array(until, np.int64),
    )
    return outcome, steps
