"""Claims about the shape of a curve along the axis: a line, an exponential, how steep it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tocsin.lab.spec.cases import check_of, steps
from tocsin.lab.spec.claims import Case, Check, View
from tocsin.lab.spec.statistics import estimate, exactly


def straight(
    metric: str, policies: Sequence[str], at_least: float, *, logarithm: bool = False
) -> Check:
    """The correlation of the mean (or of its logarithm) with the axis is at least so large; a
    group is a policy."""

    def cases(view: View) -> Iterator[Case]:
        for policy in policies:
            means = np.array([np.nanmean(view.values(metric, policy, at)) for at in view.places])
            shown = np.log(means) if logarithm else means
            correlation = float(np.asarray(np.corrcoef(view.places, shown))[0, 1])
            of = f"log {metric}" if logarithm else metric
            yield Case(
                at=view.places[-1],
                group=policy,
                compared=f"{policy}: correlation of {of} with the axis",
                metric=metric,
                value=exactly(correlation),
                holds=correlation >= at_least,
                unitless=True,
            )

    return check_of(cases, policies, [metric], places=3)


def rises_at_most(metric: str, policies: Sequence[str], most: float) -> Check:
    """From each place to the next, by so much; a group is a policy."""
    return steps(metric, policies, lambda step: step.below(most))


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
            yield Case(
                at=place,
                group=policy,
                compared=f"{policy}: {metric}, of that at {view.axis.in_words(last)},",
                metric=metric,
                value=part,
                holds=part.within(low, high),
                unitless=True,
            )

    return check_of(cases, policies, [metric], place=place)
