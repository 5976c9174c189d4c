"""What a policy of page caches is made of: what it may look at, rules, portions, equation 1.

Frequencies and `worth` are plain functions over scalars: the lab compiles the same ones.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from msgspec import Struct

from tocsin.policies.registry import Parameter, Registry

WHOLE, PUSHED_REQUESTED, NOTIFIED_BROWSED = range(3)
"""How a cache is divided: not at all, by what brought a page (DC), by who asks for it (DC-TA)."""
_NAMES = (("", ""), ("push", "access"), ("notified", "browsed"))

LEAST_SHARE = Fraction(1, 4)
"""Of the cache, that each portion of DC keeps: 25 %, so that the other has 75 % at most (NOTES)."""

BETA = Parameter("beta", 1.0, at_least=0.01, at_most=100.0)
"""Weighs popularity against recency (equation 1)."""


class Page(Struct):
    """What a policy may look at. All but `accesses` are remembered after the page is evicted."""

    subscriptions: int = 0  # s, of this broker's, that matched it
    notified: int = 0  # a_S, accesses that a notification led to
    browsed: int = 0  # a_NS, all other accesses
    accesses: int = 0  # GD*'s f: since it was stored, in the portion where it is


Frequency = Callable[[Page], float]


class Rule(Struct, frozen=True):
    """How pages of one portion are valued, and whether one may be worth too little to be stored."""

    frequency: Frequency  # f of equation 1
    beta: float = 1.0
    aborts: bool = True  # place() of NOTES: evicts only what is worth less; else as GD* does
    ages: bool = True  # has an L


class PagePolicy(Struct, frozen=True):
    text: str  # as the user wrote it
    first: Rule  # of the whole cache, or of the portion where pushed pages go
    second: Rule  # of the other portion; unused in a cache that is not divided
    layout: int = WHOLE
    pushes: bool = True  # stores pages as they are published
    share: float = 1.0  # the first portion's, of the capacity
    learns: bool = False  # its f is what the cache has learnt (`assay`), not its rule's


Build = Callable[..., PagePolicy]

PAGE: Registry[Build] = Registry("page cache")


def undivided(
    text: str, rule: Rule, *, pushes: bool, share: float = 1.0, learns: bool = False
) -> PagePolicy:
    return PagePolicy(text, rule, rule, pushes=pushes, share=share, learns=learns)


def worth(frequency: float, cost: float, size_bytes: int, beta: float) -> float:
    """(f·c/size)^(1/β), what equation 1 adds to L. SG2's f may be negative: then the root is of
    its magnitude, so that the order of pages stays what it is for β = 1."""
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
    """What a portion of DC must keep."""
    return int(-(-LEAST_SHARE * capacity_bytes // 1))


def portion_names(policy: PagePolicy) -> tuple[str, str]:
    return _NAMES[policy.layout]
