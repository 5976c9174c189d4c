"""The figures of the evaluation (kafka, Figures 8 to 14)."""

from __future__ import annotations

from tocsin.lab.experiments.kafka_admission.policies import (
    BUFFERS,
    FIVE,
    MEANS,
    PRINTED_WORST,
    STUDIED,
    THRESHOLDS,
)
from tocsin.lab.spec.figures import curves

FIGURES = (
    curves(
        "8-hit-rate",
        "Figure 8: cache hit rate by policy",
        "admitted records (share)",
        "hit_rate",
        policies=FIVE,
        one_scale=True,
    ),
    curves(
        "9-duplication-factor",
        "Figure 9: duplication factor by policy",
        "copies of an admitted record",
        "duplication_factor",
        policies=FIVE,
        one_scale=True,
    ),
    curves(
        "10-latency",
        "Figure 10: end-to-end latency by policy",
        "mean latency (s)",
        "latency_mean_s",
        policies=FIVE,
        one_scale=True,
    ),
    curves(
        "11-throughput",
        "Figure 11: throughput by policy",
        "records a second",
        "throughput_per_s",
        policies=FIVE,
        one_scale=True,
    ),
    *(
        curves(
            f"{number}-{policy}-parameters",
            f"Figure {number}: {policy}, by its parameters ({what}), 1,000 records",
            "mean latency (s)",
            "latency_mean_s",
            policies=policies,
            one_scale=True,
            at=STUDIED,
        )
        for number, policy, what, policies in (
            (12, "threshold", "lambda, mu", (*THRESHOLDS, PRINTED_WORST)),
            (13, "mean", "batch", MEANS),
            (14, "buffer", "gamma, alpha", BUFFERS),
        )
    ),
    curves(
        "bytes-in-logs",
        "Bytes in all logs, mean over the run",
        "KB",
        "stored_mean_bytes",
        policies=FIVE,
        unit=1e3,
        one_scale=True,
    ),
)
