"""The policies' parameters (kafka, Figures 12 to 14), and what we found of them."""

from __future__ import annotations

from tocsin.lab.experiments.kafka_admission.policies import (
    BATCHES,
    BUFFER,
    BUFFERS,
    FIVE,
    MEANS,
    PRINTED_WORST,
    SET_POINTS,
    STUDIED,
    THRESHOLDS,
)
from tocsin.lab.spec.checks import beats, both, only_at, ordered, similar, times
from tocsin.lab.spec.claims import Check, Claim
from tocsin.lab.spec.levels import between

AT_1000 = "at 1,000 records, over paired seeds"


def studied(*checks: Check) -> Check:
    return only_at([STUDIED], both(*checks))


def _hits_more_and_waits_less(policy: str, other: str) -> Check:
    return both(
        ordered("hit_rate", (policy, other), falling=True),
        ordered("latency_mean_s", (policy, other), falling=False),
    )


CLAIMS = (
    Claim(
        name="threshold-best-parameters",
        says="The lowest end-to-end latency was observed for mu = 0.8, lambda = 0.2",
        where="12",
        rule=f"below each of the other six tuples {AT_1000}",
        check=studied(beats("threshold(0.2,0.8)", THRESHOLDS, {"latency_mean_s": False})),
    ),
    Claim(
        name="threshold-second-best",
        says="the latency was minimized when the … tuple was (0.8,0.2) and (0.3,0.1)",
        where="12",
        rule=f"mu = 0.3, lambda = 0.1 is below each of the tuples but (0.8, 0.2) {AT_1000}",
        check=studied(
            beats(
                "threshold(0.1,0.3)",
                [policy for policy in THRESHOLDS if policy != "threshold(0.2,0.8)"],
                {"latency_mean_s": False},
            )
        ),
    ),
    Claim(
        name="threshold-worst-parameters",
        says="the highest latency was observed for mu = 0.8, lambda = 0.8",
        where="12",
        rule=f"above each of the seven tuples {AT_1000}",
        check=studied(beats(PRINTED_WORST, THRESHOLDS, {"latency_mean_s": True})),
    ),
    Claim(
        name="lambda-raises-latency",
        says="the higher the lambda is … the number of cache hits decreases and … higher the "
        "average latency",
        where="12",
        rule=f"lambda 0.2 against 0.1 at mu = 0.3, and 0.8, 0.3 at mu = 0.2, {AT_1000}",
        check=studied(
            _hits_more_and_waits_less("threshold(0.1,0.3)", "threshold(0.2,0.3)"),
            _hits_more_and_waits_less("threshold(0.3,0.2)", "threshold(0.8,0.2)"),
        ),
    ),
    Claim(
        name="mu-lowers-latency",
        says="Larger mu … increases the number of cache hits … leading to a lower average latency",
        where="12",
        rule=f"mu 0.2 against 0.1 at lambda = 0.3, and 0.8, 0.3 at lambda = 0.2, {AT_1000}",
        check=studied(
            _hits_more_and_waits_less("threshold(0.3,0.2)", "threshold(0.3,0.1)"),
            _hits_more_and_waits_less("threshold(0.2,0.8)", "threshold(0.2,0.3)"),
        ),
    ),
    Claim(
        name="batches-lower-latency",
        says="latency monotonically decreased with increase in batch size",
        where="13",
        rule=f"each batch size of {', '.join(map(str, BATCHES))} against the next {AT_1000}",
        check=studied(ordered("latency_mean_s", MEANS, falling=True)),
    ),
    Claim(
        name="batch-500-best",
        says="the optimal batch size appears to be 500",
        where="13",
        rule=f"below each of the other batch sizes {AT_1000}",
        check=studied(beats("mean(500)", MEANS, {"latency_mean_s": False})),
    ),
    Claim(
        name="first-batch-cached",
        says="the first 500 elements are always cached. The remaining 500 are then decided",
        where="13",
        rule="with batches of 500, the hit rate is at least 0.5 in every point of 1,000 records",
        check=studied(between("hit_rate", ("mean(500)",), 0.5, 1.0, every_seed=True)),
    ),
    Claim(
        name="buffer-1-0-lowest",
        says="the latency is lowest for gamma = 1, alpha = 0",
        where="14",
        rule=f"below each of the other tuples {AT_1000}",
        check=studied(beats(BUFFERS[0], BUFFERS, {"latency_mean_s": False})),
    ),
    Claim(
        name="buffer-1-0-always-hits",
        says="if gamma = 1, alpha = 0 … the block will always be a cache hit",
        where="14",
        rule="the hit rate is 1 in every point",
        check=between("hit_rate", BUFFERS[:1], 1.0, 1.0, every_seed=True),
    ),
    Claim(
        name="buffer-parameters-matter-little",
        says="there is not much difference between the various combinations",
        where="14",
        rule="latency of (1, 0) / that of each other tuple lies in 0.8 to 1.25 at 1,000 records",
        check=studied(times("latency_mean_s", BUFFERS[0], BUFFERS[1:], low=0.8, high=1.25)),
    ),
    Claim(
        name="buffer-local-minimum",
        says="also reaches local minima around (0.8,0.2)",
        where="14",
        rule=f"(0.8, 0.2) is below (0.9, 0.1) and (0.7, 0.3) {AT_1000}",
        check=studied(beats(BUFFERS[2], (BUFFERS[1], BUFFERS[3]), {"latency_mean_s": False})),
    ),
    Claim(
        name="buffer-half-is-mean-of-two",
        says="gamma = 0.5, alpha = 0.5 … is similar to the batch mean policy with a batch size of "
        "2",
        where="14",
        rule="the hit rates differ by at most 0.05, with the interval, at every number of records",
        check=similar("hit_rate", BUFFER, "mean(2)", 0.05),
    ),
    Claim(
        name="threshold-set-point",
        says="threshold admits mu / (lambda + mu) of all deliveries, whatever is published",
        where="8, 12",
        rule="the admitted part of deliveries is within ± 0.02 of it, for each tuple",
        check=both(
            *(
                between("admitted_share", (policy,), point - 0.02, point + 0.02)
                for policy, point in SET_POINTS.items()
            )
        ),
        own=True,
    ),
    Claim(
        name="same-bytes-in-the-end",
        says="whatever the policy, in the end the same bytes are in the logs: what is refused "
        "comes there from the database",
        where="bytes-in-logs",
        rule="of the five policies, the bytes at the end are the same in every point",
        check=both(*(similar("stored_bytes", "all", other, 0.0) for other in FIVE[:-1])),
        own=True,
    ),
    Claim(
        name="buffer-is-no-less-than-before",
        says="all tuples of buffer with alpha > 0 decide alike",
        where="14",
        rule="their hit rates are the same in every point",
        check=both(*(similar("hit_rate", BUFFER, other, 0.0) for other in BUFFERS[1:-1])),
        own=True,
    ),
)
