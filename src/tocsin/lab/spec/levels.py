"""Claims about how large a metric is, by itself: in a range, steady, how much chance moves it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from tocsin.lab.spec.cases import check_of
from tocsin.lab.spec.claims import Case, Check, View
from tocsin.lab.spec.statistics import estimate, exactly


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
                yield Case(
                    at=at,
                    compared=policy,
                    metric=metric,
                    value=mean,
                    holds=fits if every_seed else mean.within(low, high),
                    level=True,
                )

    return check_of(cases, policies, [metric])


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
                yield Case(
                    at=at,
                    group=policy,
                    compared=f"{policy} − its mean over all {view.axis.plural}",
                    metric=metric,
                    value=apart,
                    holds=apart.within(-tolerance, tolerance),
                )

    return check_of(cases, policies, [metric], places=2)


def on_a_line(metric: str, policies: Sequence[str], tolerance: float) -> Check:
    """At each place within ± tolerance, relatively, of a straight line through all of them; a
    group is a policy."""

    def cases(view: View) -> Iterator[Case]:
        for policy in policies:
            means = [float(np.nanmean(view.values(metric, policy, at))) for at in view.places]
            slope, height = np.polyfit(view.places, means, 1)
            for at in view.places:
                apart = estimate(view.values(metric, policy, at) / (slope * at + height) - 1.0)
                yield Case(
                    at=at,
                    group=policy,
                    compared=f"{policy}, off the line by",
                    metric=metric,
                    value=apart,
                    holds=apart.within(-tolerance, tolerance),
                    unitless=True,
                )

    return check_of(cases, policies, [metric], places=3)


def lowest_at(metric: str, policy: str, place: int) -> Check:
    """Lower at one place than at the places beside it."""

    def cases(view: View) -> Iterator[Case]:
        for pair in pairwise(view.places):
            if place in pair:
                neighbour = next(at for at in pair if at != place)
                apart = estimate(
                    view.values(metric, policy, place) - view.values(metric, policy, neighbour)
                )
                yield Case(
                    at=neighbour,
                    compared=f"{policy}, at {view.axis.in_words(place)} less that",
                    metric=metric,
                    value=apart,
                    holds=apart.below(0),
                )

    return check_of(cases, [policy], [metric], place=place)


def spread_falls(metric: str, policies: Sequence[str]) -> Check:
    """The standard deviation over seeds is smaller at each next place; a group is a policy."""

    def cases(view: View) -> Iterator[Case]:
        for policy in policies:
            for at, larger in pairwise(view.places):
                there = view.axis.in_words(at)
                before, after = (
                    float(np.nanstd(view.values(metric, policy, place), ddof=1))
                    for place in (at, larger)
                )
                yield Case(
                    at=larger,
                    group=policy,
                    compared=f"{policy}: deviation over seeds, of that at {there},",
                    metric=metric,
                    value=exactly(after / before if before else float("nan")),
                    holds=after < before,
                    unitless=True,
                )

    return check_of(cases, policies, [metric], seeds=3)


def moves_with(metric: str, other: str, policies: Sequence[str], at_least: float) -> Check:
    """Over seeds, the correlation of two metrics is at least so large, at each place."""

    def cases(view: View) -> Iterator[Case]:
        for at in view.places:
            for policy in policies:
                pair = np.stack([view.values(name, policy, at) for name in (metric, other)])
                pair = pair[:, ~np.isnan(pair).any(axis=0)]
                with np.errstate(invalid="ignore"):
                    correlation = float(np.asarray(np.corrcoef(pair))[0, 1])
                yield Case(
                    at=at,
                    compared=f"{policy}: correlation of {metric} and {other}",
                    metric=metric,
                    value=exactly(correlation),
                    holds=correlation >= at_least,
                    unitless=True,
                )

    return check_of(cases, policies, [metric, other], seeds=3)
