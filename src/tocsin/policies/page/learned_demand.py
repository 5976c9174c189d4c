"""Learned demand: what subscriptions are worth here, found out by counting. A policy of our own.

Every other policy assumes how subscriptions become requests. This one counts, over all pages that
were published, by how many subscriptions matched them (`group_of`) and how old they were: how many
requests came, led by notifications or not, and for how long there could have come some. From that
it learns how requests fall with a page's age (`rate`), how many of either kind a subscription
stands for (`means`), and how far pages scatter in what is browsed (`scatter`).

Pages come to an age together with all that are as old: `Knowledge` is filled as they do, and as
they are published, requested and removed (`observe`); now and then it is looked at anew (`looks`).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from msgspec import Struct, field
from numpy.typing import NDArray

from tocsin.policies.page.design import PAGE, Event, Page, PagePolicy, Rule, undivided

AGES = 32
GROUPS = 16
YOUNG = 4  # operations: what is younger has the first age
STEP = 2**0.5  # from the end of an age to that of the next
ENDS = tuple(round(YOUNG * STEP**age) for age in range(AGES - 1))
"""A page is of the age n until ENDS[n] operations after it was first heard of; then of the next."""
WIDTHS = tuple(
    end - begin for begin, end in zip((0, *ENDS), (*ENDS, round(ENDS[-1] * STEP)), strict=True)
)
EVERY = 16  # operations between two looks at what was counted, at first …
PART = 64  # … and later a part of all that were counted
REMEMBERED = 100_000.0  # requests; then all that was counted counts half
SMOOTH = 10.0  # requests at each age, as if seen: FALL times as many as at the age before
FALL = 0.7
ALIKE = 2.0  # pages of each group, as if seen: all groups convert alike
LEAST_EXPECTED = 0.3  # requests of a page so far, to learn from it how far pages scatter
DOUBT = 2.0  # requests as if seen, which say that scatter is a half
NOTIFIED, BROWSED = range(2)

Floats = NDArray[np.float64]


def _cells(*shape: int, initial: float = 0.0) -> Any:
    return field(default_factory=lambda: np.full(shape, initial))


class Knowledge(Struct):
    """What was counted, by age and group; and what was made of it at the last look."""

    there: Floats = _cells(AGES, GROUPS)  # subscriptions of pages so old; those without count one
    since: Floats = _cells(AGES, GROUPS)  # the operation up to which their time was counted
    time: Floats = _cells(AGES, GROUPS)  # subscriptions × operations
    asked: Floats = _cells(AGES, GROUPS, 2)  # requests, by kind
    means: Floats = _cells(
        GROUPS, 2, initial=1.0
    )  # requests in a page's life for each subscription
    rate: Floats = _cells(
        AGES, initial=1.0
    )  # the part of a page's requests that comes in one operation
    before: Floats = _cells(AGES)  # the part that has come by the middle of an age
    squares: float = 0.0  # browsing: of what was not expected,
    foreseen: float = 0.0  # and requests that were
    scatter: float = 1.0  # browsing: the variance of what a page has, in squares of its mean
    clock: int = 0  # operations since the last look


def group_of(subscriptions: int) -> int:
    """0, 1, 2 to 3, 4 to 7, …"""
    group = 0
    while subscriptions > 0 and group < GROUPS - 1:
        subscriptions //= 2
        group += 1
    return group


def moves(known: Knowledge, age: int, group: int, weight: int, now: int) -> None:
    """A page of so many subscriptions is so old from now on; or no longer, if they are negative."""
    known.time[age, group] += known.there[age, group] * (now - known.since[age, group])
    known.since[age, group] = now
    known.there[age, group] += weight


def surprises(known: Knowledge, age: int, group: int, weight: int, browsed: int) -> None:
    """A page has passed an age: how far was its browsing from what was expected?"""
    mean = known.means[group, BROWSED] * weight * known.before[age + 1]
    if mean > LEAST_EXPECTED:
        off = browsed - mean
        known.squares += off * off / mean - 1
        known.foreseen += mean


def expected(
    known: Knowledge, age: int, group: int, weight: int, notified: int, browsed: int
) -> float:
    """Between the requests that are still to come (all that a page is good for) and those that come
    next (how long its bytes are taken for that): the geometric mean of both.

    A share of all requests has come at this age. Subscribers ask once, a part q of them: of those
    that have not, q·(1 − share)/(1 − q·share) will. With q = 1 that is s − a_S, as HUG has it.
    Browsing is Poisson's, of a mean that scatters from page to page: those who browsed count the
    more, the larger that scatter is (Gamma and Poisson).
    """
    share = known.before[age]
    later = 1 - share
    part = known.means[group, NOTIFIED]
    rest = max(0.0, (weight - notified) * part * later / (1 - part * share))
    mean, scatter = known.means[group, BROWSED] * weight, known.scatter
    rest += mean * later * (1 + scatter * browsed) / (1 + scatter * mean * share)
    return float(rest * math.sqrt(known.rate[age] / later))


def looks(known: Knowledge, now: int) -> None:
    """An operation begins; now and then, what was counted is looked at anew."""
    known.clock += 1
    if known.clock < EVERY + min(float(now), REMEMBERED) / PART:
        return
    known.clock = 0
    if requests_up_to(known, now) > REMEMBERED:
        forget_half(known)
    learn_ages(known)
    for kind in range(2):
        learn_means(known, kind)
    squares, requests = known.squares + DOUBT / 2, known.foreseen + DOUBT
    known.scatter = max(0.0, squares / requests)


def requests_up_to(known: Knowledge, now: int) -> float:
    """All that were counted; the time of pages is counted up to now."""
    requests = 0.0
    for age in range(AGES):
        for group in range(GROUPS):
            known.time[age, group] += known.there[age, group] * (now - known.since[age, group])
            known.since[age, group] = now
            requests += known.asked[age, group, NOTIFIED] + known.asked[age, group, BROWSED]
    return requests


def forget_half(known: Knowledge) -> None:
    """All that was counted counts half."""
    for age in range(AGES):
        for group in range(GROUPS):
            known.time[age, group] /= 2
            known.asked[age, group, NOTIFIED] /= 2
            known.asked[age, group, BROWSED] /= 2
    known.squares /= 2
    known.foreseen /= 2


def learn_ages(known: Knowledge) -> None:
    """How requests fall with age: requests for each that is expected of a page in its whole
    life."""
    passed, part = 0.0, 1 - FALL
    for age in range(AGES):
        width = WIDTHS[age]
        asked, life = SMOOTH, SMOOTH / part * width
        for group in range(GROUPS):
            asked += known.asked[age, group, NOTIFIED] + known.asked[age, group, BROWSED]
            mean = known.means[group, NOTIFIED] + known.means[group, BROWSED]
            life += known.time[age, group] * mean
        known.rate[age] = asked / life
        part = known.rate[age] * width
        known.before[age] = passed + part / 2
        passed += part
        part *= FALL
    for age in range(AGES):
        known.rate[age] /= passed
        known.before[age] /= passed


def learn_means(known: Knowledge, kind: int) -> None:
    """How many requests a subscription stands for: of each group, and of all that have any."""
    every, lives = 1.0, 1.0
    for group in range(1, GROUPS):
        for age in range(AGES):
            every += known.asked[age, group, kind]
            lives += known.time[age, group] * known.rate[age]
    for group in range(GROUPS):
        like = ALIKE * 2.0 ** (group - 1)
        asked, life = like * every / lives, like
        for age in range(AGES):
            asked += known.asked[age, group, kind]
            life += known.time[age, group] * known.rate[age]
        known.means[group, kind] = asked / life
        if kind == NOTIFIED:  # nobody is told twice
            known.means[group, kind] = min(1.0, known.means[group, kind])


def observe(known: Knowledge, page: Page, event: int, before: int, operation: int) -> None:
    """What happens to a page teaches, whether it is in the cache or not."""
    age, group, weight = page.age, group_of(page.subscriptions), max(1, page.subscriptions)
    if event == Event.NOTIFIED:
        known.asked[age, group, NOTIFIED] += 1
    elif event == Event.BROWSED:
        known.asked[age, group, BROWSED] += 1
    elif event == Event.OLDER:
        surprises(known, age - 1, group, weight, page.browsed)
        moves(known, age - 1, group, -weight, operation)
        moves(known, age, group, weight, operation)
    elif event == Event.REMOVED:
        moves(known, age, group, -weight, operation)
    else:
        if event == Event.PUBLISHED:
            moves(known, age, group_of(before), -max(1, before), operation)
        moves(known, age, group, weight, operation)


def demand(known: Knowledge, page: Page) -> float:
    """f of delivery, equation 1; there is no L, since pages are valued anew as they grow older."""
    weight = max(1, page.subscriptions)
    group = group_of(page.subscriptions)
    return expected(known, page.age, group, weight, page.notified, page.browsed)


@PAGE.register("learned-demand", formerly="assay")
def learned_demand(text: str) -> PagePolicy:
    """f is the requests that a page is expected to have next, as pages of as many subscriptions, as
    old and as often requested have had here: it learns how far subscriptions can be trusted."""
    return undivided(
        text,
        Rule(demand, ages=False),
        pushes=True,
        state=Knowledge,
        begin=looks,
        observe=observe,
        ages=ENDS,
    )
