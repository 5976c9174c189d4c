"""Models as lines beside simulated points, and how far they are off (survival, Figures 4 to 7)."""

from __future__ import annotations

from tocsin.lab.experiments.survival.variants import (
    CLASSES,
    MULTI,
    PAPERS,
    PLAIN,
    SINGLE,
)
from tocsin.lab.spec.figures import Drawn, Figure, Series, curves

SECONDS = "mean survival time (s)"
POINTS: Drawn = "points"
LINE: Drawn = "line"
QUARTILES: tuple[tuple[str, str, Drawn], ...] = (
    ("q25", "quartile", POINTS),
    ("q75", "quartile", POINTS),
    ("exact_q25", "exact quartile", LINE),
    ("exact_q75", "exact quartile", LINE),
)
ERRORS = "How far the models are off the simulation"
DISTANCES = "How far the models' distributions are off (Kolmogorov and Smirnov)"

FIGURES = (
    Figure(
        name="4-single-broker",
        title="Figure 4: one broker, the mean and the middle half of all messages",
        axis="survival time (s)",
        variants=SINGLE,
        series=(
            Series(metric="mst", label="simulated", drawn=POINTS, policies=(PAPERS,)),
            Series(metric="exact_mst", label="exact", drawn=LINE, policies=(PAPERS,)),
            *(
                Series(metric=metric, label=label, dash="dotted", drawn=drawn, policies=(PAPERS,))
                for metric, label, drawn in QUARTILES
            ),
        ),
    ),
    curves(
        "4-reduced-error",
        "Figure 4: the reduced model against the exact one, with the printed start",
        "relative difference of the means",
        "reduced_off",
        policies=(PAPERS,),
        variants=SINGLE,
        one_scale=True,
    ),
    Figure(
        name="5-multi-broker",
        title="Figure 5: several brokers, simulation and models",
        axis=SECONDS,
        variants=MULTI,
        series=(
            Series(metric="mst_little", label="simulated", drawn=POINTS, policies=(PAPERS,)),
            Series(
                metric="multi_mst", label="multi", dash="dashed", drawn=LINE, policies=(PAPERS,)
            ),
            Series(metric="balanced_mst", label="balanced", drawn=LINE, policies=(PAPERS,)),
            Series(metric="wide_mst", label="wide", dash="dotted", drawn=LINE, policies=(PAPERS,)),
            Series(metric="one_cache_s", label="k/λb", dash="dotted", pooled=True),
            Series(metric="all_caches_s", label="nk/λb", dash="dotted", pooled=True),
        ),
    ),
    Figure(
        name="6-loss",
        title="Figure 6: published and never cached",
        axis="P_loss",
        variants=("load", "brokers"),
        series=(
            Series(metric="p_loss", drawn=POINTS),
            Series(metric="never_cached", label="e^−ρn", dash="dashed", pooled=True),
        ),
        one_scale=True,
    ),
    Figure(
        name="6-policies",
        title="Figure 6: policies, simulation and the balanced model",
        axis=SECONDS,
        variants=MULTI,
        series=(
            Series(metric="mst_little", label="simulated", drawn=POINTS),
            Series(metric="balanced_mst", label="balanced", drawn=LINE),
        ),
    ),
    Figure(
        name="6-first-client",
        title="Copies for every client, and for a broker's first one alone",
        axis=SECONDS,
        variants=("load", "load-first"),
        series=(
            Series(metric="mst_little", label="simulated", drawn=POINTS),
            Series(metric="balanced_mst", label="balanced", drawn=LINE),
        ),
        one_scale=True,
    ),
    Figure(
        name="7-classes",
        title="Figure 7: popular and unpopular messages",
        axis=SECONDS,
        variants=CLASSES,
        series=(
            Series(metric="popular_mst", label="popular", policies=(PAPERS, PLAIN)),
            Series(
                metric="unpopular_mst", label="unpopular", dash="dashed", policies=(PAPERS, PLAIN)
            ),
        ),
    ),
    *(
        Figure(
            name=name,
            title=title,
            axis=axis,
            variants=MULTI,
            series=(
                Series(metric=f"multi_{ending}", label="multi", dash="dashed", drawn=LINE),
                Series(metric=f"balanced_{ending}", label="balanced"),
                Series(metric=f"wide_{ending}", label="wide", dash="dotted", drawn=LINE),
            ),
            one_scale=True,
        )
        for name, ending, title, axis in (
            ("errors", "error", ERRORS, "relative error of the mean survival time"),
            ("distances", "ks", DISTANCES, "largest difference of the curves"),
        )
    ),
    curves(
        "replicas",
        "Copies of a message, on average over its life",
        "copies",
        "replicas",
        variants=MULTI,
    ),
)
