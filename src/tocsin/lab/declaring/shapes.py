"""Claims about the shape of a curve along the axis: a line, an exponential, how steep it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from tocsin.lab.declaring.cases import Cases, case, finding
from tocsin.lab.declaring.claims import Case, Check, Finding, View
from tocsin.lab.declaring.statistics import Estimate, estimate


def straight(
    metric: str, policies: Sequence[str], at_least: float, *, logarithm: bool = False
) -> Check:
    """The correlation of the mean (or of its logarithm) with the axis is at least so large; a
    group is a policy."""

    def cases(view: View) -> Iterator[Case]:
        for policy in policies:
            means = np.array([np.nanmean(view.values(metric, policy, at)) for at in view.places])
            shown = np.log(means) if logarithm else means
            found = float(np.asarray(np.corrcoef(view.places, shown))[0, 1])
            of = f"log {metric}" if logarithm else metric
            yield case(
                view,
                view.places[-1],
                group=policy,
                told=f"{policy}: correlation of {of} with the axis",
                metric=metric,
                value=Estimate(found, found, found, 1),
                holds=found >= at_least,
                unitless=True,
            )

    return lambda view: _along(view, policies, metric, cases, 3)


def rises_at_most(metric: str, policies: Sequence[str], most: float) -> Check:
    """From each place to the next, by so much; a group is a policy."""

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
                    holds=step.below(most),
                )

    return lambda view: _along(view, policies, metric, cases, 2)


def part_of_last(
    metric: str, policies: Sequence[str], place: int, *, low: float = 0.0, high: float = np.inf
) -> Check:
    """At a place, so much of what it is at the last one; a group is a policy."""

    def cases(view: View) -> Iterator[Case]:
        last = view.places[-1]
        for policy in policies:
            with np.errstate(divide="ignore", invalid="ignore"):
                part = estimate(
                    view.values(metric, policy, place) / view.values(metric, policy, last)
                )
            yield case(
                view,
                place,
                group=policy,
                told=f"{policy}: {metric}, of that at {view.axis.told(last)},",
                metric=metric,
                value=part,
                holds=part.within(low, high),
                unitless=True,
            )

    def check(view: View) -> Finding:
        if place not in view.places:
            return Finding((), f"no points at {view.axis.told(place)}")
        return finding(view, policies, [metric], cases)

    return check


def _along(view: View, policies: Sequence[str], metric: str, cases: Cases, most: int) -> Finding:
    if len(view.places) < most:
        return Finding((), f"needs {most} {view.axis.plural}")
    return finding(view, policies, [metric], cases)
