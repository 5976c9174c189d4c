"""The curves that the points give for a figure.

Knows no drawing library: `pictures` draws the same curves into files, `interactive` into a page.
"""

from __future__ import annotations

import pandas as pd
from msgspec import Struct

from tocsin.lab.declaring.columns import bound_columns
from tocsin.lab.declaring.figures import Dash, Figure, Series
from tocsin.lab.declaring.statistics import estimate

REFERENCE = ""  # the policy of a curve that belongs to none


class Curve(Struct, frozen=True, kw_only=True):
    """Means over seeds with their 95 % band, by size in MB."""

    policy: str
    label: str
    dash: Dash
    sizes_mb: list[float]
    mean: list[float]
    low: list[float]
    high: list[float]


class Bound(Struct, frozen=True, kw_only=True):
    """No policy does better than `best`; one that knows the future reaches `reached`."""

    sizes_mb: list[float]
    best: list[float]
    reached: list[float]


class Panel(Struct, frozen=True, kw_only=True):
    """One reading's part of a figure."""

    reading: str
    curves: list[Curve]
    bound: Bound | None
    allowed_mb: list[float]  # sizes, where the figure draws them


def panels(figure: Figure, points: pd.DataFrame) -> list[Panel]:
    """The figure's curves, reading by reading, in the order in which the points name them."""
    found = []
    for reading in dict.fromkeys(points["reading"]):
        here = points[points["reading"] == reading]
        simulated = here[here["kind"] == "simulation"]
        bounded = here[here["kind"] == "bound"]
        sizes = sorted(simulated["size_bytes"].unique())
        curves = [
            curve for series in figure.series for curve in _curves(series, simulated, figure.unit)
        ]
        panel = Panel(
            reading=str(reading),
            curves=curves,
            bound=_bound(figure, simulated, bounded),
            allowed_mb=[size / 1e6 for size in sizes] if figure.allowed else [],
        )
        if curves:
            found.append(panel)
    return found


def _curves(series: Series, points: pd.DataFrame, unit: float) -> list[Curve]:
    if series.metric not in points or points[series.metric].isna().all():
        return []
    if series.against:
        points = _differences(points, series.metric, series.against)
    if series.pooled:
        return [_curve(REFERENCE, series.label, series, points, unit)]
    found = []
    for policy in dict.fromkeys(points["policy"]):
        if series.policies is None or policy in series.policies:
            label = f"{policy} {series.label}".strip()
            mine = points[points["policy"] == policy]
            found.append(_curve(str(policy), label, series, mine, unit))
    return found


def _curve(policy: str, label: str, series: Series, points: pd.DataFrame, unit: float) -> Curve:
    sizes, means = [], []
    for size, values in points.groupby("size_bytes")[series.metric]:
        if series.pooled:  # the same for all policies: seeds are what varies
            values = values.groupby(points.loc[values.index, "seed"]).mean()
        found = estimate(values / unit)
        if found.seeds:
            sizes.append(float(size) / 1e6)  # type: ignore[arg-type]
            means.append(found)
    return Curve(
        policy=policy,
        label=label,
        dash=series.dash,
        sizes_mb=sizes,
        mean=[found.mean for found in means],
        low=[found.low for found in means],
        high=[found.high for found in means],
    )


def _differences(points: pd.DataFrame, metric: str, against: str) -> pd.DataFrame:
    """The metric less that of the policy `against`, at the same size and seed. Seeds differ more
    from each other than policies do: a pair shows what the means hide."""
    cell = ["size_bytes", "seed"]
    base = points[points["policy"] == against].set_index(cell)[metric]
    others = points[points["policy"] != against]
    places = pd.MultiIndex.from_frame(others[cell])
    return others.assign(**{metric: others[metric] - base.reindex(places).to_numpy()})


def _bound(figure: Figure, simulated: pd.DataFrame, bounds: pd.DataFrame) -> Bound | None:
    best, reached = bound_columns(figure.bound)
    if not figure.bound or best not in bounds or bounds[best].isna().all():
        return None
    sizes, shifted = [], []
    for size, rows in bounds.groupby("size_bytes"):
        here = simulated[simulated["size_bytes"] == size]
        move = _shift(here, figure, set(rows["seed"]))
        sizes.append(float(size) / 1e6)  # type: ignore[arg-type]
        shifted.append((rows[[best, reached]].mean() + move) / figure.unit)
    return Bound(
        sizes_mb=sizes,
        best=[float(one[best]) for one in shifted],
        reached=[float(one[reached]) for one in shifted],
    )


def _shift(points: pd.DataFrame, figure: Figure, seeds: set[int]) -> float:
    """Bounds are computed for a few seeds only, and seeds differ more from each other than a bound
    from a policy: add how far the mean of all seeds is from that of these, over all policies.
    Where the figure shows differences to a policy, subtract that policy's value instead."""
    against = figure.series[0].against
    if against:
        points = points[points["policy"] == against]
    by_seed = points.groupby("seed")[figure.bound].mean()
    few = by_seed[by_seed.index.isin(seeds)]
    if few.empty:
        return 0.0
    return float(-few.mean() if against else by_seed.mean() - few.mean())
