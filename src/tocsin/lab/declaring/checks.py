"""The kinds of claim that papers make about a sweep, each a function that makes the check.

A check never looks at which side would be welcome: direction, rivals and tolerance are fixed in the
claim's declaration, before any number is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, pairwise

import numpy as np

from tocsin.lab.declaring.claims import Case, Check, Finding, Values, View, difference, megabytes
from tocsin.lab.declaring.statistics import Estimate, estimate

SIZE = "size_bytes"  # as a metric's yardstick: the allowed cache size itself
DECIDED_PAIRS_THAT_AGREE = 0.9


def changes_with_size(metric: str, policies: Sequence[str], *, rises: bool) -> Check:
    """At each step to the next larger cache; a group is a policy."""

    def cases(view: View) -> Iterator[Case]:
        for policy in policies:
            for size, larger in pairwise(view.sizes):
                step = estimate(
                    view.values(metric, policy, larger) - view.values(metric, policy, size)
                )
                yield Case(
                    group=policy,
                    told=f"{policy}: {megabytes(larger)} − {megabytes(size)}",
                    metric=metric,
                    value=step,
                    holds=step.above(0) if rises else step.below(0),
                    size_bytes=larger,
                )

    def check(view: View) -> Finding:
        if len(view.sizes) < 2:
            return Finding((), "needs two cache sizes")
        return _finding(view, policies, [metric], cases)

    return check


def beats(
    winner: str, rivals: Sequence[str] | None, metrics: dict[str, bool], *, floor: float = 0.0
) -> Check:
    """The winner against each rival (None: every other policy) in each metric, at each size.

    `metrics` says for each whether more is better.
    """

    def check(view: View) -> Finding:
        others = [
            policy for policy in (view.policies if rivals is None else rivals) if policy != winner
        ]

        def cases(view: View) -> Iterator[Case]:
            for size in view.sizes:
                for metric, more in metrics.items():
                    for rival in others:
                        apart = difference(view, metric, winner, rival, size)
                        yield Case(
                            group=megabytes(size),
                            told=f"{winner} − {rival}",
                            metric=metric,
                            value=apart,
                            holds=apart.above(floor) if more else apart.below(-floor),
                            size_bytes=size,
                            better=1 if more else -1,
                        )

        return _finding(view, [winner, *others], metrics, cases)

    return check


def ordered(metric: str, policies: Sequence[str], *, falling: bool) -> Check:
    """Each of the policies against the next one in the list, at each size."""

    def cases(view: View) -> Iterator[Case]:
        for size in view.sizes:
            for first, second in pairwise(policies):
                apart = difference(view, metric, first, second, size)
                yield Case(
                    group=megabytes(size),
                    told=f"{first} − {second}",
                    metric=metric,
                    value=apart,
                    holds=apart.above(0) if falling else apart.below(0),
                    size_bytes=size,
                )

    return lambda view: _finding(view, policies, [metric], cases)


def similar(metric: str, one: str, other: str, tolerance: float) -> Check:
    """The whole interval of the difference lies within ± tolerance, at each size."""

    def cases(view: View) -> Iterator[Case]:
        for size in view.sizes:
            apart = difference(view, metric, one, other, size)
            yield Case(
                group=megabytes(size),
                told=f"{one} − {other}",
                metric=metric,
                value=apart,
                holds=apart.within(-tolerance, tolerance),
                size_bytes=size,
            )

    return lambda view: _finding(view, [one, other], [metric], cases)


def goes_with(metric: str, other: str, policies: Sequence[str], *, rises: bool) -> Check:
    """Of two policies the one with more of `metric` has more (or less) of `other`: in nine of ten
    pairs, counting the pairs whose seeds decide both differences."""

    def cases(view: View) -> Iterator[Case]:
        for size in view.sizes:
            agreed = []
            for first, second in combinations(policies, 2):
                here = _sign(difference(view, metric, first, second, size))
                there = _sign(difference(view, other, first, second, size))
                if here and there:
                    agreed.append(here == (there if rises else -there))
            share = float(np.mean(agreed)) if agreed else float("nan")
            yield Case(
                group=megabytes(size),
                told=f"agreeing part of {len(agreed)} pairs",
                metric=other,
                value=Estimate(share, share, share, 1),
                holds=share >= DECIDED_PAIRS_THAT_AGREE,
                size_bytes=size,
                unitless=True,
            )

    return lambda view: _finding(view, policies, [metric, other], cases)


def ratio(
    metric: str,
    yardstick: str,
    policies: Sequence[str],
    *,
    low: float = -np.inf,
    high: float = np.inf,
    every_seed: bool = False,
) -> Check:
    """metric / yardstick lies in the closed range: its mean's interval, or the value of every
    seed, at each size."""

    def cases(view: View) -> Iterator[Case]:
        for size in view.sizes:
            for policy in policies:
                shares = quotient(view, metric, yardstick, policy, size)
                mean = estimate(shares)
                fits = all(low <= share <= high for share in shares[~np.isnan(shares)])
                yield Case(
                    group=megabytes(size),
                    told=f"{policy}: {metric} / {yardstick}",
                    metric=metric,
                    value=mean,
                    holds=fits if every_seed else mean.within(low, high),
                    size_bytes=size,
                    unitless=True,
                )

    needed = [metric] if yardstick == SIZE else [metric, yardstick]
    return lambda view: _finding(view, policies, needed, cases)


def nearer_to_one(metric: str, yardstick: str, one: str, other: str) -> Check:
    """|log(metric / yardstick)| is smaller for one policy than for the other, at each size."""

    def cases(view: View) -> Iterator[Case]:
        for size in view.sizes:
            gaps = [
                np.abs(np.log(quotient(view, metric, yardstick, policy, size)))
                for policy in (one, other)
            ]
            apart = estimate(gaps[0] - gaps[1])
            yield Case(
                group=megabytes(size),
                told=f"{one} − {other}, of |log({metric} / {yardstick})|",
                metric=metric,
                value=apart,
                holds=apart.below(0),
                size_bytes=size,
                unitless=True,
            )

    return lambda view: _finding(view, [one, other], [metric, yardstick], cases)


def adds_up(total: str, parts: Sequence[str], policies: Sequence[str]) -> Check:
    """total = the sum of its parts, to the byte, in every point; and the first part is the same
    whatever the policy."""

    def cases(view: View) -> Iterator[Case]:
        for size in view.sizes:
            for policy in policies:
                left = view.values(total, policy, size)
                for part in parts:
                    left = left - view.values(part, policy, size)
                base = difference(view, parts[0], policy, policies[0], size)
                yield Case(
                    group=megabytes(size),
                    told=f"{policy}: what the parts leave of",
                    metric=total,
                    value=estimate(left),
                    holds=bool((left[~np.isnan(left)] == 0).all()) and base.mean == 0,
                    size_bytes=size,
                )

    return lambda view: _finding(view, policies, [total, *parts], cases)


def within_bound(metric: str, *, more: bool) -> Check:
    """No policy that keeps the budget passes the proven bound, in any point that has one."""

    def cases(view: View) -> Iterator[Case]:
        for size in sorted(int(size) for size in view.bounds["size_bytes"].unique()):
            for policy in view.policies:
                if (view.values("cache_max_bytes", policy, size) > size).any():
                    continue  # it had more room than the bound is about
                beyond = view.values(metric, policy, size) - view.best(metric, size)
                if not more:
                    beyond = -beyond
                yield Case(
                    group=megabytes(size),
                    told=f"{policy} beyond the bound",
                    metric=metric,
                    value=estimate(beyond),
                    holds=not (beyond > 0).any(),
                    size_bytes=size,
                )

    def check(view: View) -> Finding:
        if view.bounds.empty:
            return Finding((), "no bounds")
        return _finding(view, (), [metric, "cache_max_bytes"], cases)

    return check


def both(*checks: Check) -> Check:
    """All cases of several checks together."""

    def check(view: View) -> Finding:
        found = [one(view) for one in checks]
        cases = tuple(case for finding in found for case in finding.cases)
        return Finding(cases, next((finding.missing for finding in found if finding.missing), ""))

    return check


def quotient(view: View, metric: str, yardstick: str, policy: str, size: int) -> Values:
    """One a seed; NaN where there is no point."""
    parts = view.values(metric, policy, size)
    wholes = (
        np.full(len(parts), float(size))
        if yardstick == SIZE
        else view.values(yardstick, policy, size)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        return parts / wholes


def _sign(apart: Estimate) -> int:
    return 1 if apart.above(0) else -1 if apart.below(0) else 0


def _finding(
    view: View,
    policies: Sequence[str],
    metrics: Sequence[str] | dict[str, bool],
    cases: Callable[[View], Iterator[Case]],
) -> Finding:
    missing = view.lacks(policies, metrics)
    if missing:
        return Finding((), missing)
    # A size that only some of the policies were run at gives nothing to compare.
    return Finding(tuple(case for case in cases(view) if case.value.seeds))
