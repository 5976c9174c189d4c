"""Which records and which parameter sets make a query fail, found by trying it on parts. Pure.

A run that fails is one answer for many records and many subscriptions. Halving finds those that
are to blame, so that everybody else's results go out. Knows no Spark: `fails` tries.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

R = TypeVar("R", bound=Hashable)
S = TypeVar("S", bound=Hashable)
T = TypeVar("T", bound=Hashable)

Fails = Callable[[Sequence[R], Sequence[S]], str | None]
"""Why the query fails on these records with these parameter sets; None: it does not."""

MOST_CULPRITS = 4  # parameter sets that are blamed for one record; more: the record is to blame
MOST_TRIES = 400
SAMPLE = 8  # records that fail one by one: all of them do
_ALONE = "it fails with others only"


@dataclass
class Verdict(Generic[R, S]):
    """What to leave out, and why. `pairs`: a record that only these parameter sets fail on.
    `everything`: nothing smaller than the whole run could be blamed; `exhausted`: because that
    took too many tries."""

    records: dict[R, str] = field(default_factory=dict)
    sets: dict[S, str] = field(default_factory=dict)
    pairs: dict[R, dict[S, str]] = field(default_factory=dict)
    everything: str | None = None
    exhausted: bool = False


class _Exhausted(Exception):
    """Too many tries."""


def diagnose(
    records: Sequence[R], sets: Sequence[S], fails: Fails[R, S], *, one_by_one: bool
) -> Verdict[R, S]:
    """`one_by_one`: each result stems from one record, so that a record can be left out for some
    parameter sets alone."""
    verdict: Verdict[R, S] = Verdict()
    tried = _Counted(fails)
    why: str | None = None
    try:
        while (failure := tried(records, sets)) is not None:
            why = failure
            sample = records[:: max(1, len(records) // SAMPLE)]
            if not records or (not verdict.records and _all_fail(sample, sets, tried)):
                blamed = _blame_sets(verdict, sample, sets, tried)
            elif one_by_one:
                blamed, records = _blame_first(verdict, records, sets, tried)
            else:
                blamed = _blame(verdict, records, sets, tried)
                records = [record for record in records if record not in verdict.records]
            if not blamed:
                verdict.everything = why
                break
            sets = [parameters for parameters in sets if parameters not in verdict.sets]
    except _Exhausted:
        verdict.everything, verdict.exhausted = why, True
    return verdict


def _all_fail(sample: Sequence[R], sets: Sequence[S], fails: Fails[R, S]) -> bool:
    """Whether that is no matter of single records, to judge by some of them."""
    return len(sample) >= SAMPLE and all(fails([record], sets) is not None for record in sample)


def _blame_sets(
    verdict: Verdict[R, S], sample: Sequence[R], sets: Sequence[S], fails: Fails[R, S]
) -> bool:
    """Those without which one of the records does not fail: it may itself be bad, so some are
    asked."""
    candidates = [[record] for record in sample[:MOST_CULPRITS]] or [[]]
    for record in candidates:
        culprits = _few_failing(sets, partial(fails, record))
        if culprits is not None and len(culprits) < len(sets):
            verdict.sets |= culprits
            return True
    return False


def _blame_first(
    verdict: Verdict[R, S], records: Sequence[R], sets: Sequence[S], fails: Fails[R, S]
) -> tuple[bool, Sequence[R]]:
    """The first record that fails, or sets that do; and the records that are still in question."""
    low, high = 0, len(records)  # none before `low` fails; one before `high` does
    while high - low > 1:
        middle = (low + high) // 2
        if fails(records[low:middle], sets) is not None:
            high = middle
        else:
            low = middle
    record, rest = records[low], records[high:]
    culprits = _few_failing(sets, partial(fails, [record]))
    if culprits is None:
        verdict.records[record] = fails([record], sets) or _ALONE
        return True, rest
    if len(culprits) < len(sets) and fails(rest, list(culprits)) is not None:
        verdict.sets |= culprits
        return True, records[low:]
    if len(culprits) == len(sets) > 1:
        verdict.records[record] = next(iter(culprits.values()))
    else:
        verdict.pairs[record] = culprits
    return True, rest


def _blame(
    verdict: Verdict[R, S], records: Sequence[R], sets: Sequence[S], fails: Fails[R, S]
) -> bool:
    """Find one reason for the failure where records belong together; False: none is found."""
    record = _one_failing(records, lambda subset: fails(subset, sets))
    looked_at = records if record is None else [record]
    culprits = _few_failing(sets, lambda subset: fails(looked_at, subset))
    if culprits is not None and record is not None:
        others = [other for other in records if other != record]
        if others and fails(others, list(culprits)) is None:
            verdict.records[record] = next(iter(culprits.values()))
            return True
        if others and len(culprits) == len(sets):
            return False  # all fail on more than one record: it is the query
    if culprits is not None and len(culprits) < len(sets):
        verdict.sets |= culprits
        return True
    if record is not None:
        verdict.records[record] = fails([record], sets) or _ALONE
        return True
    return False


def _few_failing(
    items: Sequence[T], fails: Callable[[Sequence[T]], str | None]
) -> dict[T, str] | None:
    """The few without which nothing fails; None if there are not a few such."""
    if len(items) > MOST_CULPRITS:
        spread = (items[0], items[len(items) // 2], items[-1])
        if all(fails([item]) is not None for item in spread):
            return None  # nobody fails with all three by chance
    culprits: dict[T, str] = {}
    rest = list(items)
    while len(culprits) < MOST_CULPRITS:
        culprit = _one_failing(rest, fails)
        if culprit is None:
            return None
        culprits[culprit] = fails([culprit]) or _ALONE
        rest = [item for item in rest if item != culprit]
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
