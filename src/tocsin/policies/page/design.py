"""What a policy of page caches is made of: what it may look at, rules, portions, state, values
(delivery, equation 1).

Frequencies and `worth` are plain functions over scalars: the lab compiles the same ones.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from fractions import Fraction
from typing import Any

from msgspec import Struct

from tocsin.policies.registry import Parameter, Registry

WHOLE, PUSHED_REQUESTED, NOTIFIED_BROWSED = range(3)
"""How a cache is divided: not at all; by what brought a page, with bytes that move; by who asks."""
_NAMES = (("", ""), ("push", "access"), ("notified", "browsed"))

BETA = Parameter("beta", 1.0, at_least=0.01, at_most=100.0)
"""Weighs popularity against recency (delivery, equation 1)."""


class Page(Struct):
    """What a policy may look at. All but `accesses` are remembered after the page is evicted."""

    subscriptions: int = 0  # s, of this broker's, that matched it
    notified: int = 0  # a_S, accesses that a notification led to
    browsed: int = 0  # a_NS, all other accesses
    accesses: int = 0  # since it was stored, in the portion where it is
    age: int = 0  # of the ages that the policy declares, how many it has passed


class Event(IntEnum):
    """What a policy that keeps state is told of a page."""

    BORN = 0  # its first operation; its subscriptions are known, if it was published
    PUBLISHED = 1  # again: its subscriptions are others now
    NOTIFIED = 2  # it was requested, led by a notification
    BROWSED = 3  # it was requested otherwise
    OLDER = 4  # it has passed an age: `age` is the new one
    REMOVED = 5  # it is gone for good


Frequency = Callable[..., float]


class Rule(Struct, frozen=True):
    """How pages of one portion are valued, and whether one may be worth too little to be stored."""

    frequency: Frequency  # f of delivery, equation 1: of ([state,] page, *values)
    beta: float = 1.0
    aborts: bool = True  # delivery 2.2.1: evicts only what is worth less; else as GD* does
    ages: bool = True  # has an L


class PagePolicy(Struct, frozen=True):
    text: str  # as the user wrote it
    first: Rule  # of the whole cache, or of the portion where pushed pages go
    second: Rule  # of the other portion; unused in a cache that is not divided
    layout: int = WHOLE
    pushes: bool = True  # stores pages as they are published
    share: float = 1.0  # the first portion's, of the capacity
    least_share: Fraction = Fraction(0)  # what a portion keeps whose bytes may move to the other
    values: tuple[float, ...] = ()  # of parameters: its functions take them last
    # Of a policy that keeps state: its functions take it first.
    state: type[Struct] | None = None
    begin: Callable[..., None] | None = None  # (state, operation, *values): an operation begins
    observe: Callable[..., None] | None = None  # (state, page, event, before, operation, *values)
    ages: tuple[int, ...] = ()  # operations after a page's first: it is valued anew after each


Build = Callable[..., PagePolicy]

PAGE: Registry[Build] = Registry("page cache", "page_policy", stateful=False)


def undivided(text: str, rule: Rule, *, pushes: bool, **declared: Any) -> PagePolicy:
    """A cache of one portion; what else a `PagePolicy` may declare is by name."""
    return PagePolicy(text, rule, rule, pushes=pushes, **declared)


def worth(frequency: float, cost: float, size_bytes: int, beta: float) -> float:
    """(f·c/size)^(1/β), what L grows by (delivery, equation 1). SG2's f may be negative: then the
    root is of its magnitude, so that the order of pages stays what it is for β = 1."""
    ratio = frequency * cost / size_bytes
    if beta == 1.0:
        return ratio
    if ratio < 0:
        return float(-((-ratio) ** (1 / beta)))
    return float(ratio ** (1 / beta))


def limits(policy: PagePolicy, capacity_bytes: int) -> tuple[int, int]:
    """Bytes of both portions, as they start: ⌊φC⌋ and the rest. Exact: φ is what was written."""
    first = int(Fraction(str(policy.share)) * capacity_bytes)
    return first, capacity_bytes - first


def least_bytes(policy: PagePolicy, capacity_bytes: int) -> int:
    """What a portion must keep."""
    return int(-(-policy.least_share * capacity_bytes // 1))


def portion_names(policy: PagePolicy) -> tuple[str, str]:
    return _NAMES[policy.layout]
