"""The kinds of claim that papers make about a sweep, each a function that makes the check.

A check never looks at which side would be welcome: direction, rivals and tolerance are fixed in the
claim's declaration, before any number is seen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations, pairwise

import numpy as np

from tocsin.lab.spec.cases import check_of, steps
from tocsin.lab.spec.claims import Case, Check, Finding, Values, View, difference
from tocsin.lab.spec.statistics import Estimate, estimate, exactly

AXIS = "axis"  # as a metric's yardstick: the value of the axis itself
DECIDED_PAIRS_THAT_AGREE = 0.9


def changes_along(metric: str, policies: Sequence[str], *, rises: bool) -> Check:
    """At each step to the next larger value of the axis; a group is a policy."""
    return steps(metric, policies, lambda step: step.above(0) if rises else step.below(0))


def beats(
    winner: str, rivals: Sequence[str] | None, metrics: dict[str, bool], *, floor: float = 0.0
) -> Check:
    """The winner against each rival (None: every other policy) in each metric, at each place.

    `metrics` says for each whether more is better.
    """

    def check(view: View) -> Finding:
        others = [
            policy for policy in (view.policies if rivals is None else rivals) if policy != winner
        ]

        def cases(view: View) -> Iterator[Case]:
            for at in view.places:
                for metric, more in metrics.items():
                    for rival in others:
                        apart = difference(view, metric, winner, rival, at)
                        yield Case(
                            at=at,
                            compared=f"{winner} − {rival}",
                            metric=metric,
                            value=apart,
                            holds=apart.above(floor) if more else apart.below(-floor),
                            better=1 if more else -1,
                        )

        return check_of(cases, [winner, *others], metrics)(view)

    return check


def ordered(metric: str, policies: Sequence[str], *, falling: bool) -> Check:
    """Each of the policies against the next one in the list, at each place."""

    def cases(view: View) -> Iterator[Case]:
        for at in view.places:
            for first, second in pairwise(policies):
                apart = difference(view, metric, first, second, at)
                yield Case(
                    at=at,
                    compared=f"{first} − {second}",
                    metric=metric,
                    value=apart,
                    holds=apart.above(0) if falling else apart.below(0),
                    better=1 if falling else -1,
                )

    return check_of(cases, policies, [metric])


def similar(metric: str, policy: str, other: str, tolerance: float) -> Check:
    """The whole interval of the difference lies within ± tolerance, at each place."""

    def cases(view: View) -> Iterator[Case]:
        for at in view.places:
            apart = difference(view, metric, policy, other, at)
            yield Case(
                at=at,
                compared=f"{policy} − {other}",
                metric=metric,
                value=apart,
                holds=apart.within(-tolerance, tolerance),
            )

    return check_of(cases, [policy, other], [metric])


def times(
    metric: str, policy: str, others: Sequence[str], *, low: float = -np.inf, high: float = np.inf
) -> Check:
    """metric of the policy / metric of each other lies in the closed range, at each place."""

    def cases(view: View) -> Iterator[Case]:
        for at in view.places:
            for other in others:
                with np.errstate(divide="ignore", invalid="ignore"):
                    share = estimate(
                        view.values(metric, policy, at) / view.values(metric, other, at)
                    )
                yield Case(
                    at=at,
                    compared=f"{metric}: {policy} / {other}",
                    metric=metric,
                    value=share,
                    holds=share.within(low, high),
                    unitless=True,
                )

    return check_of(cases, [policy, *others], [metric])


def gap_grows(metric: str, policy: str, other: str) -> Check:
    """policy − other is larger at each next place."""

    def cases(view: View) -> Iterator[Case]:
        for at, larger in pairwise(view.places):
            gaps = [
                view.values(metric, policy, place) - view.values(metric, other, place)
                for place in (at, larger)
            ]
            step = estimate(gaps[1] - gaps[0])
            yield Case(
                at=larger,
                compared=f"{policy} − {other}, more than at {view.axis.in_words(at)},",
                metric=metric,
                value=step,
                holds=step.above(0),
            )

    return check_of(cases, [policy, other], [metric], places=2)


def goes_with(metric: str, other: str, policies: Sequence[str], *, rises: bool) -> Check:
    """Of two policies the one with more of `metric` has more (or less) of `other`: in nine of ten
    pairs, counting the pairs whose seeds decide both differences."""

    def cases(view: View) -> Iterator[Case]:
        for at in view.places:
            agreed = []
            for first, second in combinations(policies, 2):
                here = _sign(difference(view, metric, first, second, at))
                there = _sign(difference(view, other, first, second, at))
                if here and there:
                    agreed.append(here == (there if rises else -there))
            share = float(np.mean(agreed)) if agreed else float("nan")
            yield Case(
                at=at,
                compared=f"agreeing part of {len(agreed)} pairs",
                metric=other,
                value=exactly(share),
                holds=share >= DECIDED_PAIRS_THAT_AGREE,
                unitless=True,
            )

    return check_of(cases, policies, [metric, other])


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
    seed, at each place."""

    def cases(view: View) -> Iterator[Case]:
        for at in view.places:
            for policy in policies:
                shares = quotient(view, metric, yardstick, policy, at)
                mean = estimate(shares)
                fits = all(low <= share <= high for share in shares[~np.isnan(shares)])
                yield Case(
                    at=at,
                    compared=f"{policy}: {metric} / {yardstick}",
                    metric=metric,
                    value=mean,
                    holds=fits if every_seed else mean.within(low, high),
                    unitless=True,
                )

    needed = [metric] if yardstick == AXIS else [metric, yardstick]
    return check_of(cases, policies, needed)


def nearer_to_one(metric: str, yardstick: str, nearer: str, other: str) -> Check:
    """|log(metric / yardstick)| is smaller for the nearer policy, at each place."""

    def cases(view: View) -> Iterator[Case]:
        for at in view.places:
            gaps = [
                np.abs(np.log(quotient(view, metric, yardstick, policy, at)))
                for policy in (nearer, other)
            ]
            apart = estimate(gaps[0] - gaps[1])
            yield Case(
                at=at,
                compared=f"{nearer} − {other}, of |log({metric} / {yardstick})|",
                metric=metric,
                value=apart,
                holds=apart.below(0),
                unitless=True,
            )

    return check_of(cases, [nearer, other], [metric, yardstick])


def adds_up(total: str, parts: Sequence[str], policies: Sequence[str]) -> Check:
    """total = the sum of its parts, to the byte, in every point; and the first part is the same
    whatever the policy."""

    def cases(view: View) -> Iterator[Case]:
        for at in view.places:
            for policy in policies:
                left = view.values(total, policy, at)
                for part in parts:
                    left = left - view.values(part, policy, at)
                base = difference(view, parts[0], policy, policies[0], at)
                yield Case(
                    at=at,
                    compared=f"{policy}: what the parts leave of",
                    metric=total,
                    value=estimate(left),
                    holds=bool((left[~np.isnan(left)] == 0).all()) and base.mean == 0,
                )

    return check_of(cases, policies, [total, *parts])


def within_bound(metric: str, *, more: bool, spent: str = "") -> Check:
    """No policy passes the proven bound, in any point that has one. One that had more room than the
    bound is about (its `spent` is above the axis) is passed over."""

    def cases(view: View) -> Iterator[Case]:
        for at in sorted(int(at) for at in view.bounds[view.axis.column].unique()):
            for policy in view.policies:
                if spent and (view.values(spent, policy, at) > at).any():
                    continue
                beyond = view.values(metric, policy, at) - view.best(metric, at)
                if not more:
                    beyond = -beyond
                yield Case(
                    at=at,
                    compared=f"{policy} beyond the bound",
                    metric=metric,
                    value=estimate(beyond),
                    holds=not (beyond > 0).any(),
                )

    bounded = check_of(cases, (), [metric, spent] if spent else [metric])
    return lambda view: Finding((), "no bounds") if view.bounds.empty else bounded(view)


def both(*checks: Check) -> Check:
    """All cases of several checks together."""

    def together(view: View) -> Finding:
        findings = [check(view) for check in checks]
        cases = tuple(dict.fromkeys(case for finding in findings for case in finding.cases))
        missing = next((finding.missing for finding in findings if finding.missing), "")
        return Finding(cases, missing, findings[0].groups_are)

    return together


def only_at(places: Collection[int], check: Check) -> Check:
    """The check at these values of the axis alone."""

    def limited(view: View) -> Finding:
        here = view.only(places)
        if here.places:
            return check(here)
        return Finding((), f"no points at {', '.join(view.axis.in_words(at) for at in places)}")

    return limited


def only_in(variants: Collection[str], check: Check) -> Check:
    """The check under these variants alone."""

    def limited(view: View) -> Finding:
        if view.variant in variants:
            return check(view)
        return Finding((), f"is about the variant {' or '.join(variants)}")

    return limited


def quotient(view: View, metric: str, yardstick: str, policy: str, at: int) -> Values:
    """One a seed; NaN where there is no point."""
    parts = view.values(metric, policy, at)
    wholes = (
        np.full(len(parts), float(at)) if yardstick == AXIS else view.values(yardstick, policy, at)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        return parts / wholes


def _sign(apart: Estimate) -> int:
    return 1 if apart.above(0) else -1 if apart.below(0) else 0
