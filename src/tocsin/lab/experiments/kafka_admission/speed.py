"""Latency and throughput (kafka, Figures 10 to 11): true or not of the costs in `Logs`."""

from __future__ import annotations

from tocsin.lab.experiments.kafka_admission.admitted import AGREEING, EVERYWHERE
from tocsin.lab.experiments.kafka_admission.policies import (
    BUFFER,
    FIVE,
    MEAN,
    NOVEL,
    STUDIED,
    THRESHOLD,
)
from tocsin.lab.spec.checks import beats, gap_grows, goes_with, ordered, times
from tocsin.lab.spec.claims import Claim
from tocsin.lab.spec.levels import lowest_at

CLAIMS = (
    Claim(
        name="none-highest-latency",
        says="no caching results in the highest end-to-end latency",
        where="10",
        rule=f"above each of the other four {EVERYWHERE}",
        check=beats("none", FIVE, {"latency_mean_s": True}),
    ),
    Claim(
        name="latency-gap-grows",
        says="this effect gets much more palpable as the number of input records increases",
        where="10",
        rule="none − all grows at each step",
        check=gap_grows("latency_mean_s", "none", "all"),
    ),
    Claim(
        name="latency-order",
        says="unlimited caching < buffer policy < mean policy < threshold policy < no caching",
        where="10",
        rule=f"in that order {EVERYWHERE}",
        check=ordered("latency_mean_s", ("all", BUFFER, MEAN, THRESHOLD, "none"), falling=False),
    ),
    Claim(
        name="hundred-times",
        says="the latency is lowest and 100 times less than no caching case",
        where="10",
        rule="none / all lies, with its interval, in 50 to 200 at every number of records",
        check=times("latency_mean_s", "none", ("all",), low=50, high=200),
    ),
    Claim(
        name="hit-rate-with-latency",
        says="more cache hit rate means more content being stored in cache and less latency",
        where="8, 10",
        rule=f"{AGREEING}, {EVERYWHERE}",
        check=goes_with("hit_rate", "latency_mean_s", FIVE, rises=False),
    ),
    Claim(
        name="throughput-order",
        says="unlimited caching > buffer policy > mean policy > threshold policy > no caching",
        where="11",
        rule=f"in that order {EVERYWHERE}",
        check=ordered("throughput_per_s", ("all", BUFFER, MEAN, THRESHOLD, "none"), falling=True),
    ),
    Claim(
        name="all-far-ahead",
        says="when the policy is configured to unlimited caching the throughput reaches a maximum "
        "and far supersedes any other policy's throughput",
        where="11",
        rule="at least twice that of each of the other four, at every number of records",
        check=times("throughput_per_s", "all", ("none", *NOVEL), low=2.0),
    ),
    Claim(
        name="throughput-gap-grows",
        says="Similar to latency, this effect is most obvious as the number of records increases",
        where="11",
        rule="all − buffer grows at each step",
        check=gap_grows("throughput_per_s", "all", BUFFER),
    ),
    Claim(
        name="throughput-is-inverse",
        says="Average throughput is the inverse of average end-to-end latency and therefore, "
        "exactly opposite trend will be observed",
        where="10, 11",
        rule=f"{AGREEING}, {EVERYWHERE}",
        check=goes_with("throughput_per_s", "latency_mean_s", FIVE, rises=False),
    ),
    Claim(
        name="threshold-valley",
        says="it is a V-shaped curve with the lowest occurring at benchmark 1000",
        where="11",
        rule="threshold's throughput is lower at 1,000 records than at the numbers beside it",
        check=lowest_at("throughput_per_s", THRESHOLD, STUDIED),
    ),
    Claim(
        name="buffer-lowest-latency",
        says="in comparison to other policies, this policy performs the best",
        where="10, 14",
        rule=f"a lower latency than threshold and mean {EVERYWHERE}",
        check=beats(BUFFER, (THRESHOLD, MEAN), {"latency_mean_s": False}),
    ),
)
