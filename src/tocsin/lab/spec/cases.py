"""What checks are made of: the cases of a claim, and a finding of all that could be compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

from msgspec.structs import replace

from tocsin.lab.spec.axis import Axis
from tocsin.lab.spec.claims import Case, Check, Finding, View
from tocsin.lab.spec.statistics import Estimate, estimate

Cases = Callable[[View], Iterator[Case]]
NUMBERS = {2: "two", 3: "three"}


def check_of(
    cases: Cases,
    policies: Sequence[str],
    metrics: Iterable[str],
    *,
    places: int = 0,
    seeds: int = 0,
    place: int | None = None,
) -> Check:
    """The check that compares these cases, if the table has so many places and seeds, the place,
    the policies and the metrics."""
    metrics = tuple(metrics)

    def check(view: View) -> Finding:
        if len(view.places) < places:
            return Finding((), f"needs {NUMBERS[places]} {view.axis.plural}")
        if len(view.seeds) < seeds:
            return Finding((), f"needs {NUMBERS[seeds]} seeds")
        if place is not None and place not in view.places:
            return Finding((), f"no points at {view.axis.in_words(place)}")
        return _finding(view, policies, metrics, cases)

    return check


def steps(metric: str, policies: Sequence[str], holds: Callable[[Estimate], bool]) -> Check:
    """What the metric gains from each place to the next; a group is a policy."""

    def cases(view: View) -> Iterator[Case]:
        for policy in policies:
            for at, larger in pairwise(view.places):
                step = estimate(
                    view.values(metric, policy, larger) - view.values(metric, policy, at)
                )
                yield Case(
                    at=larger,
                    group=policy,
                    compared=f"{policy}: {view.axis.in_words(larger)} − {view.axis.in_words(at)}",
                    metric=metric,
                    value=step,
                    holds=holds(step),
                )

    return check_of(cases, policies, [metric], places=2)


def _finding(
    view: View, policies: Sequence[str], metrics: tuple[str, ...], cases: Cases
) -> Finding:
    missing = view.lacks(policies, metrics)
    if missing:
        return Finding((), missing)
    # A place that only some of the policies were run at gives nothing to compare.
    comparable = tuple(_placed(case, view.axis) for case in cases(view) if case.value.seeds)
    if not comparable:
        return Finding((), "nothing to compare")
    by_place = all(case.group == case.place for case in comparable)
    return Finding(comparable, groups_are=view.axis.plural if by_place else "policies")


def _placed(case: Case, axis: Axis) -> Case:
    """A group is a place, if nothing else is said."""
    place = axis.in_words(case.at)
    return replace(case, place=place, group=case.group or place)
