"""Figures 8 to 14."""

from __future__ import annotations

from tocsin.lab.declaring.figures import Figure, Series
from tocsin.lab.experiments.kafka_admission.policies import (
    BUFFERS,
    FIVE,
    MEANS,
    PRINTED_WORST,
    STUDIED,
    THRESHOLDS,
)

FIGURES = (
    Figure(
        name="8-hit-rate",
        title="Figure 8: cache hit rate by policy",
        axis="admitted records (share)",
        series=(Series(metric="hit_rate", policies=FIVE),),
        one_scale=True,
    ),
    Figure(
        name="9-duplication-factor",
        title="Figure 9: duplication factor by policy",
        axis="copies of an admitted record",
        series=(Series(metric="duplication_factor", policies=FIVE),),
        one_scale=True,
    ),
    Figure(
        name="10-latency",
        title="Figure 10: end-to-end latency by policy",
        axis="mean latency (s)",
        series=(Series(metric="latency_mean_s", policies=FIVE),),
        one_scale=True,
    ),
    Figure(
        name="11-throughput",
        title="Figure 11: throughput by policy",
        axis="records a second",
        series=(Series(metric="throughput_per_s", policies=FIVE),),
        one_scale=True,
    ),
    *(
        Figure(
            name=f"{number}-{policy}-parameters",
            title=f"Figure {number}: {policy}, by its parameters ({what}), 1,000 records",
            axis="mean latency (s)",
            series=(Series(metric="latency_mean_s", policies=policies),),
            one_scale=True,
            at=STUDIED,
        )
        for number, policy, what, policies in (
            (12, "threshold", "lambda, mu", (*THRESHOLDS, PRINTED_WORST)),
            (13, "mean", "batch", MEANS),
            (14, "buffer", "gamma, alpha", BUFFERS),
        )
    ),
    Figure(
        name="bytes-in-logs",
        title="Bytes in all logs, mean over the run",
        axis="KB",
        unit=1e3,
        series=(Series(metric="stored_mean_bytes", policies=FIVE),),
        one_scale=True,
    ),
)
