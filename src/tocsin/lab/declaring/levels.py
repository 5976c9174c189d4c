"""Claims about how large a metric is, by itself: in a range, steady, how much chance moves it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from tocsin.lab.declaring.cases import Cases, case, finding
from tocsin.lab.declaring.claims import Case, Check, Finding, View
from tocsin.lab.declaring.statistics import Estimate, estimate


def between(
    metric: str, policies: Sequence[str], low: float, high: float, *, every_seed: bool = False
) -> Check:
    """The mean's interval, or the value of every seed, lies in the closed range, at each place."""

    def cases(view: View) -> Iterator[Case]:
        for at in view.places:
            for policy in policies:
                values = view.values(metric, policy, at)
                mean = estimate(values)
                fits = all(low <= value <= high for value in values[~np.isnan(values)])
                yield case(
                    view,
                    at,
                    told=policy,
                    metric=metric,
                    value=mean,
                    holds=fits if every_seed else mean.within(low, high),
                    level=True,
                )

    return lambda view: finding(view, policies, [metric], cases)


def at_most(metric: str, policies: Sequence[str], high: float) -> Check:
    """The mean's interval lies below it, or on it, at each place."""
    return between(metric, policies, -np.inf, high)


def steady(metric: str, policies: Sequence[str], tolerance: float) -> Check:
    """At each place within ± tolerance of the mean over all places; a group is a policy."""

    def cases(view: View) -> Iterator[Case]:
        for policy in policies:
            means = [np.nanmean(view.values(metric, policy, at)) for at in view.places]
            for at in view.places:
                apart = estimate(view.values(metric, policy, at) - float(np.mean(means)))
                yield case(
                    view,
                    at,
                    group=policy,
                    told=f"{policy} − its mean over all {view.axis.plural}",
                    metric=metric,
                    value=apart,
                    holds=apart.within(-tolerance, tolerance),
                )

    def check(view: View) -> Finding:
        if len(view.places) < 2:
            return Finding((), f"needs two {view.axis.plural}")
        return finding(view, policies, [metric], cases)

    return check


def on_a_line(metric: str, policies: Sequence[str], tolerance: float) -> Check:
    """At each place within ± tolerance, relatively, of a straight line through all of them; a
    group is a policy."""

    def cases(view: View) -> Iterator[Case]:
        for policy in policies:
            means = [float(np.nanmean(view.values(metric, policy, at))) for at in view.places]
            slope, height = np.polyfit(view.places, means, 1)
            for at in view.places:
                apart = estimate(view.values(metric, policy, at) / (slope * at + height) - 1.0)
                yield case(
                    view,
                    at,
                    group=policy,
                    told=f"{policy}, off the line by",
                    metric=metric,
                    value=apart,
                    holds=apart.within(-tolerance, tolerance),
                    unitless=True,
                )

    def check(view: View) -> Finding:
        if len(view.places) < 3:
            return Finding((), f"needs three {view.axis.plural}")
        return finding(view, policies, [metric], cases)

    return check


def lowest_at(metric: str, policy: str, place: int) -> Check:
    """Lower at one place than at the places beside it."""

    def cases(view: View) -> Iterator[Case]:
        for one, other in pairwise(view.places):
            if place in (one, other):
                beside = other if place == one else one
                apart = estimate(
                    view.values(metric, policy, place) - view.values(metric, policy, beside)
                )
                yield case(
                    view,
                    beside,
                    told=f"{policy}, at {view.axis.told(place)} less that",
                    metric=metric,
                    value=apart,
                    holds=apart.below(0),
                )

    def check(view: View) -> Finding:
        if place not in view.places:
            return Finding((), f"no points at {view.axis.told(place)}")
        return finding(view, [policy], [metric], cases)

    return check


def spread_falls(metric: str, policies: Sequence[str]) -> Check:
    """The standard deviation over seeds is smaller at each next place; a group is a policy."""

    def cases(view: View) -> Iterator[Case]:
        for policy in policies:
            for at, larger in pairwise(view.places):
                before, after = (
                    float(np.nanstd(view.values(metric, policy, place), ddof=1))
                    for place in (at, larger)
                )
                yield case(
                    view,
                    larger,
                    group=policy,
                    told=f"{policy}: deviation over seeds, of that at {view.axis.told(at)},",
                    metric=metric,
                    value=_exactly(after / before if before else float("nan")),
                    holds=after < before,
                    unitless=True,
                )

    return lambda view: _over_seeds(view, policies, [metric], cases)


def moves_with(metric: str, other: str, policies: Sequence[str], at_least: float) -> Check:
    """Over seeds, the correlation of two metrics is at least so large, at each place."""

    def cases(view: View) -> Iterator[Case]:
        for at in view.places:
            for policy in policies:
                pair = np.stack([view.values(name, policy, at) for name in (metric, other)])
                pair = pair[:, ~np.isnan(pair).any(axis=0)]
                with np.errstate(invalid="ignore"):
                    found = float(np.asarray(np.corrcoef(pair))[0, 1])
                yield case(
                    view,
                    at,
                    told=f"{policy}: correlation of {metric} and {other}",
                    metric=metric,
                    value=_exactly(found),
                    holds=found >= at_least,
                    unitless=True,
                )

    return lambda view: _over_seeds(view, policies, [metric, other], cases)


def _over_seeds(
    view: View, policies: Sequence[str], metrics: Sequence[str], cases: Cases
) -> Finding:
    if len(view.seeds) < 3:
        return Finding((), "needs three seeds")
    return finding(view, policies, metrics, cases)


def _exactly(value: float) -> Estimate:
    return Estimate(value, value, value, 1)
