"""Points that were played live, and predictions of them, as readings of their own: all that is made
of a reading's points, curves and verdicts and tables, is then made of these too.
"""

from __future__ import annotations

import pandas as pd

SUFFIXES = {"live": ", live", "prediction": ", predicted"}  # by the kind of points
COST = "cost_"  # columns of predictions: what they were made with


def told_apart(points: pd.DataFrame) -> pd.DataFrame:
    """The simulated ones come first."""
    suffixes = points["kind"].map(SUFFIXES).fillna("")
    readings = points["reading"] + suffixes
    kinds = points["kind"].where(suffixes == "", "simulation")
    order = suffixes.map(["", *SUFFIXES.values()].index).argsort(kind="stable")
    return points.assign(reading=readings, kind=kinds).iloc[order]


def live_of(reading: str) -> str:
    """The reading that this one is a prediction of; empty if it is none."""
    predicted = reading.removesuffix(SUFFIXES["prediction"])
    return predicted + SUFFIXES["live"] if predicted != reading else ""


def about_live(points: pd.DataFrame) -> list[str]:
    """What was played live, in a sentence; nothing if nothing was."""
    predicted = points[points["kind"] == "prediction"]
    if predicted.empty:
        return []
    first = predicted.iloc[0]
    costs = ", ".join(
        f"{name.removeprefix(COST)}={first[name]:.3g}"
        for name in predicted.columns
        if name.startswith(COST)
    )
    return [
        "Readings “…, live” were played through the whole system; “…, predicted” is the simulator "
        f"over the same workloads with what these points show to cost: {costs}."
    ]
