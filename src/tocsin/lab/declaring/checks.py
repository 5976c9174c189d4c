"""The kinds of claim that papers make about a sweep, each a function that makes the check.

A check never looks at which side would be welcome: direction, rivals and tolerance are fixed in the
claim's declaration, before any number is seen.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations, pairwise

import numpy as np

from tocsin.lab.declaring.cases import case, finding
from tocsin.lab.declaring.claims import Case, Check, Finding, Values, View, difference
from tocsin.lab.declaring.statistics import Estimate, estimate

AXIS = "axis"  # as a metric's yardstick: the value of the axis itself
DECIDED_PAIRS_THAT_AGREE = 0.9


def changes_along(metric: str, policies: Sequence[str], *, rises: bool) -> Check:
    """At each step to the next larger value of the axis; a group is a policy."""

    def cases(view: View) -> Iterator[Case]:
        for policy in policies:
            for at, larger in pairwise(view.places):
                step = estimate(
                    view.values(metric, policy, larger) - view.values(metric, policy, at)
                )
                yield case(
                    view,
                    larger,
                    group=policy,
                    told=f"{policy}: {view.axis.told(larger)} − {view.axis.told(at)}",
                    metric=metric,
                    value=step,
                    holds=step.above(0) if rises else step.below(0),
                )

    def check(view: View) -> Finding:
        if len(view.places) < 2:
            return Finding((), f"needs two {view.axis.plural}")
        return finding(view, policies, [metric], cases)

    return check


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
                        yield case(
                            view,
                            at,
                            told=f"{winner} − {rival}",
                            metric=metric,
                            value=apart,
                            holds=apart.above(floor) if more else apart.below(-floor),
                            better=1 if more else -1,
                        )

        return finding(view, [winner, *others], metrics, cases)

    return check


def ordered(metric: str, policies: Sequence[str], *, falling: bool) -> Check:
    """Each of the policies against the next one in the list, at each place."""

    def cases(view: View) -> Iterator[Case]:
        for at in view.places:
            for first, second in pairwise(policies):
                apart = difference(view, metric, first, second, at)
                yield case(
                    view,
                    at,
                    told=f"{first} − {second}",
                    metric=metric,
                    value=apart,
                    holds=apart.above(0) if falling else apart.below(0),
                    better=1 if falling else -1,
                )

    return lambda view: finding(view, policies, [metric], cases)


def similar(metric: str, one: str, other: str, tolerance: float) -> Check:
    """The whole interval of the difference lies within ± tolerance, at each place."""

    def cases(view: View) -> Iterator[Case]:
        for at in view.places:
            apart = difference(view, metric, one, other, at)
            yield case(
                view,
                at,
                told=f"{one} − {other}",
                metric=metric,
                value=apart,
                holds=apart.within(-tolerance, tolerance),
            )

    return lambda view: finding(view, [one, other], [metric], cases)


def times(
    metric: str, one: str, others: Sequence[str], *, low: float = -np.inf, high: float = np.inf
) -> Check:
    """metric of one / metric of each other lies in the closed range, at each place."""

    def cases(view: View) -> Iterator[Case]:
        for at in view.places:
            for other in others:
                with np.errstate(divide="ignore", invalid="ignore"):
                    share = estimate(view.values(metric, one, at) / view.values(metric, other, at))
                yield case(
                    view,
                    at,
                    told=f"{metric}: {one} / {other}",
                    metric=metric,
                    value=share,
                    holds=share.within(low, high),
                    unitless=True,
                )

    return lambda view: finding(view, [one, *others], [metric], cases)


def gap_grows(metric: str, one: str, other: str) -> Check:
    """one − other is larger at each next place."""

    def cases(view: View) -> Iterator[Case]:
        for at, larger in pairwise(view.places):
            gaps = [
                view.values(metric, one, place) - view.values(metric, other, place)
                for place in (at, larger)
            ]
            step = estimate(gaps[1] - gaps[0])
            yield case(
                view,
                larger,
                told=f"{one} − {other}, more than at {view.axis.told(at)},",
                metric=metric,
                value=step,
                holds=step.above(0),
            )

    def check(view: View) -> Finding:
        if len(view.places) < 2:
            return Finding((), f"needs two {view.axis.plural}")
        return finding(view, [one, other], [metric], cases)

    return check


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
            yield case(
                view,
                at,
                told=f"agreeing part of {len(agreed)} pairs",
                metric=other,
                value=Estimate(share, share, share, 1),
                holds=share >= DECIDED_PAIRS_THAT_AGREE,
                unitless=True,
            )

    return lambda view: finding(view, policies, [metric, other], cases)


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
                yield case(
                    view,
                    at,
                    told=f"{policy}: {metric} / {yardstick}",
                    metric=metric,
                    value=mean,
                    holds=fits if every_seed else mean.within(low, high),
                    unitless=True,
                )

    needed = [metric] if yardstick == AXIS else [metric, yardstick]
    return lambda view: finding(view, policies, needed, cases)


def nearer_to_one(metric: str, yardstick: str, one: str, other: str) -> Check:
    """|log(metric / yardstick)| is smaller for one policy than for the other, at each place."""

    def cases(view: View) -> Iterator[Case]:
        for at in view.places:
            gaps = [
                np.abs(np.log(quotient(view, metric, yardstick, policy, at)))
                for policy in (one, other)
            ]
            apart = estimate(gaps[0] - gaps[1])
            yield case(
                view,
                at,
                told=f"{one} − {other}, of |log({metric} / {yardstick})|",
                metric=metric,
                value=apart,
                holds=apart.below(0),
                unitless=True,
            )

    return lambda view: finding(view, [one, other], [metric, yardstick], cases)


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
                yield case(
                    view,
                    at,
                    told=f"{policy}: what the parts leave of",
                    metric=total,
                    value=estimate(left),
                    holds=bool((left[~np.isnan(left)] == 0).all()) and base.mean == 0,
                )

    return lambda view: finding(view, policies, [total, *parts], cases)


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
                yield case(
                    view,
                    at,
                    told=f"{policy} beyond the bound",
                    metric=metric,
                    value=estimate(beyond),
                    holds=not (beyond > 0).any(),
                )

    def check(view: View) -> Finding:
        if view.bounds.empty:
            return Finding((), "no bounds")
        return finding(view, (), [metric, spent] if spent else [metric], cases)

    return check


def both(*checks: Check) -> Check:
    """All cases of several checks together."""

    def check(view: View) -> Finding:
        found = [one(view) for one in checks]
        cases = tuple(dict.fromkeys(case for one in found for case in one.cases))
        missing = next((one.missing for one in found if one.missing), "")
        return Finding(cases, missing, found[0].groups_are)

    return check


def only_at(places: Collection[int], one: Check) -> Check:
    """The check at these values of the axis alone."""

    def check(view: View) -> Finding:
        here = view.only(places)
        if here.places:
            return one(here)
        return Finding((), f"no points at {', '.join(view.axis.told(at) for at in places)}")

    return check


def only_in(readings: Collection[str], one: Check) -> Check:
    """The check under these readings alone."""

    def check(view: View) -> Finding:
        if view.reading in readings:
            return one(view)
        return Finding((), f"is about the reading {' or '.join(readings)}")

    return check


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
