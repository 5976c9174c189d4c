"""Which records and which parameter sets make a query fail, found by trying it on parts. Pure.

A run that fails is one answer for many records and many subscriptions. Halving finds the few that
are to blame, so that everybody else's results go out. Knows no Spark: `fails` tries.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

R = TypeVar("R", bound=Hashable)
S = TypeVar("S", bound=Hashable)
T = TypeVar("T", bound=Hashable)

Fails = Callable[[Sequence[R], Sequence[S]], str | None]
"""Why the query fails on these records with these parameter sets; None: it does not."""

MOST_CULPRITS = 4  # parameter sets that are blamed for one record; more: the record is to blame
MOST_ROUNDS = 16
MOST_TRIES = 200


@dataclass
class Verdict(Generic[R, S]):
    """What to leave out, and why. `pairs`: a record that only these parameter sets fail on.
    `everything`: nothing smaller than the whole run could be blamed."""

    records: dict[R, str] = field(default_factory=dict)
    sets: dict[S, str] = field(default_factory=dict)
    pairs: dict[R, dict[S, str]] = field(default_factory=dict)
    everything: str | None = None


class _Exhausted(Exception):
    """Too many tries."""


def diagnose(
    records: Sequence[R], sets: Sequence[S], fails: Fails[R, S], *, one_by_one: bool
) -> Verdict[R, S]:
    """`one_by_one`: each result stems from one record, so that a record can be left out for some
    parameter sets alone."""
    verdict: Verdict[R, S] = Verdict()
    tried = _Counted(fails)
    why = ""
    try:
        for _ in range(MOST_ROUNDS):
            failure = tried(records, sets)
            if failure is None:
                return verdict
            why = failure
            if not _blame(verdict, records, sets, tried, one_by_one):
                break
            records = [each for each in records if each not in verdict.records]
            records = [each for each in records if each not in verdict.pairs]
            sets = [each for each in sets if each not in verdict.sets]
    except _Exhausted:
        pass
    verdict.everything = why
    return verdict


def _blame(
    verdict: Verdict[R, S],
    records: Sequence[R],
    sets: Sequence[S],
    fails: Fails[R, S],
    one_by_one: bool,
) -> bool:
    """Find one reason for the failure; False: there is none to be found."""
    record = _one_failing(records, lambda some: fails(some, sets))
    looked_at = records if record is None else [record]
    culprits = _few_failing(sets, lambda some: fails(looked_at, some))
    if culprits is not None and record is not None:
        others = [each for each in records if each != record]
        if others and fails(others, list(culprits)) is None:
            if one_by_one:
                verdict.pairs[record] = culprits
            else:
                verdict.records[record] = next(iter(culprits.values()))
            return True
        if others and len(culprits) == len(sets):
            return False  # all fail on more than one record: it is the query
    if culprits is not None and len(culprits) < len(sets):
        verdict.sets |= culprits
        return True
    if record is not None:
        verdict.records[record] = fails([record], sets) or "it fails with others only"
        return True
    return False


def _few_failing(
    items: Sequence[T], fails: Callable[[Sequence[T]], str | None]
) -> dict[T, str] | None:
    """The few without which nothing fails; None if there are not a few such."""
    culprits: dict[T, str] = {}
    rest = list(items)
    while len(culprits) < MOST_CULPRITS:
        culprit = _one_failing(rest, fails)
        if culprit is None:
            return None
        culprits[culprit] = fails([culprit]) or "it fails with others only"
        rest = [each for each in rest if each != culprit]
        if not rest or fails(rest) is None:
            return culprits
    return None


def _one_failing(items: Sequence[T], fails: Callable[[Sequence[T]], str | None]) -> T | None:
    """One that fails by itself, of several that fail together; None if only combinations do."""
    if len(items) < 2:
        return items[0] if items else None
    while len(items) > 1:
        middle = len(items) // 2
        left, right = items[:middle], items[middle:]
        if fails(left) is not None:
            items = left
        elif fails(right) is not None:
            items = right
        else:
            return None
    return items[0]


class _Counted(Generic[R, S]):
    def __init__(self, fails: Fails[R, S]) -> None:
        self._fails = fails
        self._left = MOST_TRIES

    def __call__(self, records: Sequence[R], sets: Sequence[S]) -> str | None:
        if self._left == 0:
            raise _Exhausted
        self._left -= 1
        return self._fails(records, sets)
