"""The curves that the points give for a figure.

Knows no drawing library: `pictures` draws the same curves into files, `interactive` into a page.
"""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd
from msgspec import Struct
from msgspec.structs import replace

from tocsin.lab.reports.kinds import live_of
from tocsin.lab.spec.axis import Axis
from tocsin.lab.spec.columns import bound_columns
from tocsin.lab.spec.figures import Dash, Drawn, Figure, Series
from tocsin.lab.spec.statistics import Estimate, estimate

REFERENCE = ""  # the policy of a curve that belongs to none


class Curve(Struct, frozen=True, kw_only=True):
    """Means over seeds with their 95 % band, by values of the axis in its unit, or by place among
    the panel's `names`."""

    policy: str
    label: str
    dash: Dash
    drawn: Drawn
    xs: list[float]
    mean: list[float]
    low: list[float]
    high: list[float]


class Bound(Struct, frozen=True, kw_only=True):
    """No policy does better than `best`; one that knows the future reaches `reached`."""

    xs: list[float]
    best: list[float]
    reached: list[float]


class Panel(Struct, frozen=True, kw_only=True):
    """One variant's part of a figure."""

    variant: str
    axis: Axis
    curves: list[Curve]
    bound: Bound | None
    allowed: list[float]  # values of the axis, where the figure draws them
    names: list[str] = []  # of what stands side by side, instead of values


def panels(figure: Figure, points: pd.DataFrame, whole: Axis) -> list[Panel]:
    """The figure's curves, variant by variant, in the order in which the points name them; what was
    predicted of live points beside those."""
    merged: dict[str, Panel] = {}
    for panel in _panels(figure, points, whole):
        live = merged.get(live_of(panel.variant))
        if live is None:
            merged[panel.variant] = panel
        else:
            beside = [_as_predicted(curve) for curve in panel.curves]
            merged[live.variant] = replace(live, curves=[*live.curves, *beside])
    return list(merged.values())


def _as_predicted(curve: Curve) -> Curve:
    return replace(curve, dash="dashed", label=f"{curve.label} predicted".strip())


def _panels(figure: Figure, points: pd.DataFrame, whole: Axis) -> list[Panel]:
    drawn = []
    for variant in dict.fromkeys(str(variant) for variant in points["variant"]):
        if figure.variants is not None and variant not in figure.variants:
            continue
        axis = whole.of(variant)
        here = points[points["variant"] == variant]
        simulated = here[here["kind"] == "simulation"]
        bounded = here[here["kind"] == "bound"]
        if figure.at is not None:
            panel = _side_by_side(figure, variant, simulated, axis)
        else:
            values = sorted(simulated[axis.column].unique())
            panel = Panel(
                variant=variant,
                axis=axis,
                curves=[
                    curve
                    for series in figure.series
                    for curve in _curves(series, simulated, figure.unit, axis)
                ],
                bound=bound_of(
                    figure.bound, simulated, bounded, axis, figure.unit, figure.series[0].against
                ),
                allowed=[value / axis.unit for value in values] if figure.allowed else [],
            )
        if panel.curves:
            drawn.append(panel)
    return drawn


def _side_by_side(figure: Figure, variant: str, points: pd.DataFrame, axis: Axis) -> Panel:
    """Policies at one value of the axis, in the order in which the figure names them."""
    here = points[points[axis.column] == figure.at]
    names: list[str] = []
    curves = []
    for series in figure.series:
        if series.metric not in here or here[series.metric].isna().all():
            continue
        there = set(here["policy"])
        names = [name for name in series.policies or dict.fromkeys(here["policy"]) if name in there]
        means = [
            estimate(here.loc[here["policy"] == name, series.metric] / figure.unit)
            for name in names
        ]
        curves.append(_of_means(REFERENCE, series, series.label, range(len(names)), means))
    return Panel(
        variant=variant,
        axis=axis,
        curves=[curve for curve in curves if curve.xs],
        bound=None,
        allowed=[],
        names=_shortened(names),
    )


def _shortened(names: list[str]) -> list[str]:
    """Of policies that differ in their numbers alone, the numbers."""
    parts = [name.partition("(") for name in names]
    if len({name for name, _, _ in parts}) > 1 or not all(numbers for _, _, numbers in parts):
        return names
    return [numbers.removesuffix(")").replace(",", ", ") for _, _, numbers in parts]


def _curves(series: Series, points: pd.DataFrame, unit: float, axis: Axis) -> list[Curve]:
    if series.metric not in points or points[series.metric].isna().all():
        return []
    if series.against:
        points = _differences(points, series.metric, series.against, axis)
    if series.pooled:
        return [_curve(REFERENCE, series.label, series, points, unit, axis)]
    curves = []
    for policy in dict.fromkeys(points["policy"]):
        if series.policies is None or policy in series.policies:
            label = f"{policy} {series.label}".strip()
            mine = points[points["policy"] == policy]
            curves.append(_curve(str(policy), label, series, mine, unit, axis))
    return curves


def _curve(
    policy: str, label: str, series: Series, points: pd.DataFrame, unit: float, axis: Axis
) -> Curve:
    xs, means = [], []
    for value, values in points.groupby(axis.column)[series.metric]:
        if series.pooled:  # the same for all policies: seeds are what varies
            values = values.groupby(points.loc[values.index, "seed"]).mean()
        mean = estimate(values / unit)
        if mean.seeds:
            xs.append(float(value) / axis.unit)  # type: ignore[arg-type]
            means.append(mean)
    return _of_means(policy, series, label, xs, means)


def _of_means(
    policy: str, series: Series, label: str, xs: Iterable[float], means: list[Estimate]
) -> Curve:
    return Curve(
        policy=policy,
        label=label,
        dash=series.dash,
        drawn=series.drawn,
        xs=list(xs),
        mean=[point.mean for point in means],
        low=[point.low for point in means],
        high=[point.high for point in means],
    )


def _differences(points: pd.DataFrame, metric: str, against: str, axis: Axis) -> pd.DataFrame:
    """The metric less that of the policy `against`, at the same value and seed. Seeds differ more
    from each other than policies do: a pair shows what the means hide."""
    cell = [axis.column, "seed"]
    base = points[points["policy"] == against].set_index(cell)[metric]
    others = points[points["policy"] != against]
    places = pd.MultiIndex.from_frame(others[cell])
    return others.assign(**{metric: others[metric] - base.reindex(places).to_numpy()})


def bound_of(
    metric: str,
    simulated: pd.DataFrame,
    bounds: pd.DataFrame,
    axis: Axis,
    unit: float = 1.0,
    against: str = "",
) -> Bound | None:
    """Comparable with means over all seeds, or with differences to the policy `against`."""
    best, reached = bound_columns(metric)
    if not metric or best not in bounds or bounds[best].isna().all():
        return None
    xs, shifted = [], []
    for value, rows in bounds.groupby(axis.column):
        here = simulated[simulated[axis.column] == value]
        move = _shift(here, metric, against, set(rows["seed"]))
        xs.append(float(value) / axis.unit)  # type: ignore[arg-type]
        shifted.append((rows[[best, reached]].mean() + move) / unit)
    return Bound(
        xs=xs,
        best=[float(row[best]) for row in shifted],
        reached=[float(row[reached]) for row in shifted],
    )


def _shift(points: pd.DataFrame, metric: str, against: str, seeds: set[int]) -> float:
    """Bounds are computed for a few seeds only, and seeds differ more from each other than a bound
    from a policy: add how far the mean of all seeds is from that of these, over all policies.
    Where differences to a policy are shown, subtract that policy's value instead."""
    if against:
        points = points[points["policy"] == against]
    by_seed = points.groupby("seed")[metric].mean()
    few = by_seed[by_seed.index.isin(seeds)]
    if few.empty:
        return 0.0
    return float(-few.mean() if against else by_seed.mean() - few.mean())
