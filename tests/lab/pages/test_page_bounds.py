"""The interval of page caches: no choice has more hits than the limit, and some has as many as are
said to be reached."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import given, settings

from caching.made_up_pages import CAPACITIES, POLICIES, operations
from tocsin.lab.bounds.interval import Interval
from tocsin.lab.bounds.pages import certify_pages, stays_of
from tocsin.lab.simulators.page_cache.live import run_live
from tocsin.lab.workloads.pages.news import NewsSettings, news
from tocsin.lab.workloads.pages.operations import (
    BROWSE,
    NOTIFIED,
    PUBLISH,
    RENEWED,
    SUPERSEDED,
    Operations,
)
from tocsin.policies.page import parse_page_policy

Event = tuple[int, int, int, int]


def told(*events: Event) -> Operations:
    """Kind, page, size, subscriptions."""
    kind, page, size, subscriptions = (list(column) for column in zip(*events, strict=True))
    return Operations(
        np.array(kind, np.uint8),
        np.array(page, np.int32),
        np.array(size, np.int64),
        np.array(subscriptions, np.int32),
        max(page) + 1,
    )


def optimum(done: Operations, capacity: int) -> int:
    """By trying all sets of pages after each operation."""
    size = dict(zip(done.page.tolist(), done.size_bytes.tolist(), strict=True))
    best = {frozenset[int](): 0}
    columns = (done.kind.tolist(), done.page.tolist(), done.subscriptions.tolist())
    for kind, page, subscriptions in zip(*columns, strict=True):
        after: dict[frozenset[int], int] = {}
        for held, hits in best.items():
            now = hits + (kind in (BROWSE, NOTIFIED) and page in held)
            may = kind in (BROWSE, NOTIFIED) or (kind == PUBLISH and subscriptions > 0)
            there = held | {page} if may else held
            for count in range(len(there) + 1):
                for kept in combinations(sorted(there), count):
                    if sum(size[one] for one in kept) <= capacity:
                        chosen = frozenset(kept)
                        after[chosen] = max(after.get(chosen, 0), now)
        best = after
    return max(best.values())


@settings(max_examples=40)
@given(operations(most=18, pages=5), CAPACITIES)
def test_the_optimum_lies_in_the_interval(done: Operations, capacity: int) -> None:
    plain = done.kind < SUPERSEDED  # all may stay: the optimum is of those that are told nothing
    done = Operations(
        done.kind[plain],
        done.page[plain],
        done.size_bytes[plain],
        done.subscriptions[plain],
        done.pages,
    )
    found = certify_pages(done, capacity)
    assert found.reached <= optimum(done, capacity) <= found.limit


@given(operations(), POLICIES, CAPACITIES)
def test_no_policy_has_more_hits_than_the_limit(
    done: Operations, policy: str, capacity: int
) -> None:
    outcome, _ = run_live(done, parse_page_policy(policy), capacity)
    assert outcome.hits <= certify_pages(done, capacity).limit


def test_a_page_without_subscriptions_is_not_there_at_its_first_request() -> None:
    events = [(PUBLISH, 0, 2, 0), (BROWSE, 0, 2, 0), (BROWSE, 0, 2, 0)]
    assert certify_pages(told(*events), 2).limit == 1
    matched = [(PUBLISH, 0, 2, 1), *events[1:]]
    assert certify_pages(told(*matched), 2).limit == 2
    assert certify_pages(told(*matched), 2).reached == 2
    assert certify_pages(told(*matched), 1).limit == 0  # it is larger than the cache
    assert certify_pages(told(*matched), 0).limit == 0


def test_a_page_larger_than_the_cache_takes_no_part() -> None:
    pair = [(PUBLISH, 0, 3, 1), (PUBLISH, 1, 3, 1)]
    pair += [(BROWSE, page, 3, 0) for _ in range(10) for page in (0, 1)]
    alone = [(BROWSE, 2, 5, 0)] * 11
    found = certify_pages(told(*pair, *alone), 4)
    assert found.limit <= 4 / 3 * 10 + 2  # two that compete; and not ten of 4/5 besides


def test_two_pages_that_do_not_fit_together_are_told_apart() -> None:
    done = told(
        (PUBLISH, 0, 3, 1),
        (PUBLISH, 1, 2, 1),
        (PUBLISH, 2, 2, 1),
        (NOTIFIED, 0, 3, 0),
        (NOTIFIED, 1, 2, 0),
        (NOTIFIED, 2, 2, 0),
    )
    found = certify_pages(done, 4)
    assert (found.reached, found.limit) == (2, 2)  # 1 and 2; not 0 and one of them


def test_a_page_that_is_published_again_may_be_placed_then() -> None:
    done = told(
        (PUBLISH, 0, 1, 1), (PUBLISH, 1, 3, 1), (PUBLISH, 2, 7, 1), (BROWSE, 0, 1, 0),
        (PUBLISH, 1, 3, 1), (BROWSE, 1, 3, 0), (BROWSE, 2, 7, 0),
    )  # fmt: skip
    assert optimum(done, 10) == 3  # 1 has room once 0 was asked for
    assert certify_pages(done, 10) == Interval(3, 3)


def test_stays_go_from_an_event_of_a_page_to_its_next_request() -> None:
    done = told(
        (PUBLISH, 0, 3, 1), (BROWSE, 1, 1, 0), (BROWSE, 0, 3, 0), (SUPERSEDED, 0, 3, 0),
        (NOTIFIED, 1, 1, 0), (NOTIFIED, 0, 3, 0),
    )  # fmt: skip
    stays = stays_of(done)
    assert list(zip(stays.begin, stays.end, stays.outdated, strict=True)) == [
        (0, 2, 0), (1, 4, 0), (2, 5, 1),
    ]  # fmt: skip
    assert certify_pages(done, 4).limit == 3
    assert certify_pages(done, 4).reached == 2  # what is superseded does not stay


def test_what_is_renewed_may_stay_from_its_next_request_on() -> None:
    done = told(
        (PUBLISH, 0, 3, 1), (SUPERSEDED, 0, 3, 0), (RENEWED, 0, 3, 0), (BROWSE, 0, 3, 0),
        (RENEWED, 0, 3, 0), (BROWSE, 0, 3, 0),
    )  # fmt: skip
    assert stays_of(done).outdated.tolist() == [1, 0]
    assert certify_pages(done, 4) == Interval(1, 2)


def test_the_interval_is_narrow_on_the_papers_workload() -> None:
    made = news(NewsSettings(servers=4, requests=8_000, pages=3_000, stories=600), 1)
    reached = limit = 0.0
    for number in range(made.servers):
        done = made.server(number)
        found = certify_pages(done, int(0.05 * done.requested_bytes))
        reached += found.reached
        limit += found.limit
    assert limit * 0.95 < reached <= limit < made.requests
