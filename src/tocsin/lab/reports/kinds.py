"""Points that were played live, and predictions of them, as variants of their own: all that is made
of a variant's points, curves and verdicts and tables, is then made of these too.
"""

from __future__ import annotations

import pandas as pd

SUFFIXES = {"live": ", live", "prediction": ", predicted"}  # by the kind of points
COST = "cost_"  # columns of predictions: what they were made with


def label_kinds(points: pd.DataFrame) -> pd.DataFrame:
    """The simulated ones come first."""
    suffixes = points["kind"].map(SUFFIXES).fillna("")
    variants = points["variant"] + suffixes
    kinds = points["kind"].where(suffixes == "", "simulation")
    order = suffixes.map(["", *SUFFIXES.values()].index).argsort(kind="stable")
    return points.assign(variant=variants, kind=kinds).iloc[order]


def live_of(variant: str) -> str:
    """The variant that this one is a prediction of; empty if it is none."""
    predicted = variant.removesuffix(SUFFIXES["prediction"])
    return predicted + SUFFIXES["live"] if predicted != variant else ""


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
        "Variants “…, live” were played through the whole system; “…, predicted” is the simulator "
        f"over the same workloads with what these points show to cost: {costs}."
    ]
