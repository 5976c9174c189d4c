"""BAD's simulated broker (section V): Figures 3 to 5, and every sentence that claims something."""

from __future__ import annotations

from tocsin.lab.declaring.axis import CACHE_SIZES
from tocsin.lab.declaring.checks import (
    AXIS,
    adds_up,
    beats,
    both,
    changes_along,
    goes_with,
    nearer_to_one,
    ordered,
    ratio,
    similar,
    within_bound,
)
from tocsin.lab.declaring.claims import Claim
from tocsin.lab.declaring.experiment import Experiment, Extent, Reading
from tocsin.lab.declaring.figures import Figure, Series
from tocsin.lab.subjects.result_cache import RESULT_CACHE

EVICTING = ("lru", "lsc", "lscz", "lsd", "exp")
PAPERS = (*EVICTING, "ttl")
OURS = "homing"
CLOSE = ("lsc", "exp", "ttl", "fifo", OURS)  # so near to each other that only pairs tell

READINGS = (
    Reading(
        name="always",
        meaning="each subscriber always holds its ten subscriptions: one that ends is replaced",
        settings={"joining": "always"},
    ),
    Reading(
        name="spread",
        meaning="each subscriber makes ten subscriptions in the whole run, at random times",
        settings={"joining": "spread"},
    ),
)

FIGURES = (
    Figure(
        name="3a-hit-ratio",
        title="Figure 3(a): hit ratio",
        axis="objects served from the cache (share)",
        series=(Series(metric="hit_ratio"),),
        one_scale=True,
        bound="hit_ratio",
    ),
    Figure(
        name="3b-hit-bytes",
        title="Figure 3(b): hit bytes",
        axis="served from the cache (GB)",
        unit=1e9,
        series=(Series(metric="hit_bytes"),),
        bound="hit_bytes",
    ),
    Figure(
        name="3c-miss-bytes",
        title="Figure 3(c): miss bytes",
        axis="fetched because of misses (GB)",
        unit=1e9,
        series=(Series(metric="miss_bytes"),),
        bound="miss_bytes",
    ),
    Figure(
        name="4a-fetched-bytes",
        title="Figure 4(a): bytes fetched from the data cluster",
        axis="fetched in all (GB)",
        unit=1e9,
        series=(
            Series(metric="fetched_bytes"),
            Series(metric="volume_bytes", label="Vol", dash="dashed", pooled=True),
        ),
        bound="fetched_bytes",
    ),
    Figure(
        name="4b-latency",
        title="Figure 4(b): mean latency of a subscriber's get",
        axis="latency (s)",
        series=(Series(metric="latency_mean_s"),),
        one_scale=True,
        bound="latency_mean_s",
    ),
    Figure(
        name="4c-holding-time",
        title="Figure 4(c): how long objects are held",
        axis="mean holding time (s)",
        series=(Series(metric="holding_mean_s"),),
    ),
    Figure(
        name="5a-cache-size",
        title="Figure 5(a): cache size against the allowed size",
        axis="cache size (MB)",
        unit=1e6,
        series=(
            Series(metric="cache_mean_bytes", label="mean", policies=PAPERS),
            Series(metric="cache_max_bytes", label="maximum", dash="dotted", policies=PAPERS),
            Series(metric="rho_t_bytes", label="Σρ·T", dash="dashed", policies=("ttl",)),
        ),
        allowed=True,
    ),
    Figure(
        name="5b-ttl-and-holding",
        title="Figure 5(b): TTL values and holding times",
        axis="seconds",
        series=(
            Series(metric="ttl_mean_s", label="TTL value", dash="dashed", policies=("ttl", "lsc")),
            Series(metric="holding_mean_s", label="held", policies=("ttl", "lsc")),
        ),
    ),
    Figure(
        name="hit-ratio-against-lru",
        title="Hit ratio, difference to LRU over the same seeds",
        axis="hit ratio above LRU's",
        series=(Series(metric="hit_ratio", against="lru", policies=CLOSE),),
        bound="hit_ratio",
    ),
    Figure(
        name="latency-against-lru",
        title="Mean latency, difference to LRU over the same seeds",
        axis="latency above LRU's (ms)",
        unit=1e-3,
        series=(Series(metric="latency_mean_s", against="lru", policies=CLOSE),),
        bound="latency_mean_s",
    ),
)

BETTER = {"hit_ratio": True, "hit_bytes": True, "latency_mean_s": False, "fetched_bytes": False}
GENERALLY = "Generally, whichever scheme has the higher hit ratio results in "
GROWING = "as we increase the total cache sizes, "
EVERY_SIZE = "at every size, over paired seeds"
AGREEING = "of the pairs of policies that differ in both, nine of ten agree, at every size"

CLAIMS = (
    Claim(
        name="hit-ratio-grows",
        says=GROWING + "the hit ratio … increase in all schemes",
        where="3(a)",
        rule="each step to a larger size raises it, for each of the paper's policies",
        check=changes_along("hit_ratio", PAPERS, rises=True),
    ),
    Claim(
        name="hit-bytes-grow",
        says=GROWING + "the … hit byte increase in all schemes",
        where="3(b)",
        rule="each step to a larger size raises it, for each of the paper's policies",
        check=changes_along("hit_bytes", PAPERS, rises=True),
    ),
    Claim(
        name="latency-falls",
        says=GROWING + "… subscriber latency … decreases",
        where="4(b)",
        rule="each step to a larger size lowers it, for each of the paper's policies",
        check=changes_along("latency_mean_s", PAPERS, rises=False),
    ),
    Claim(
        name="fetch-falls",
        says=GROWING + "… the amount of data fetched from the data cluster decreases",
        where="4(a)",
        rule="each step to a larger size lowers it, for each of the paper's policies",
        check=changes_along("fetched_bytes", PAPERS, rises=False),
    ),
    Claim(
        name="ttl-highest-hit-ratio",
        says="TTL has the highest hit ratio",
        where="3(a)",
        rule=f"above each of the paper's other policies {EVERY_SIZE}",
        check=beats("ttl", EVICTING, {"hit_ratio": True}),
    ),
    Claim(
        name="lsc-above-lru",
        says="LSC has higher hit ratio than LRU",
        where="3(a)",
        rule=f"above {EVERY_SIZE}",
        check=beats("lsc", ("lru",), {"hit_ratio": True}),
    ),
    Claim(
        name="exp-lowest-hit-ratio",
        says="EXP has the lowest hit ratio",
        where="3(a)",
        rule=f"below each of the paper's other policies {EVERY_SIZE}",
        check=beats("exp", PAPERS, {"hit_ratio": False}),
    ),
    Claim(
        name="lscz-like-lsd",
        says="LSCz and LSD have very similar hit ratio results",
        where="3(a)",
        rule="the difference, with its interval, is within ± 0.01 at every size",
        check=similar("hit_ratio", "lscz", "lsd", 0.01),
    ),
    Claim(
        name="exp-below-ttl",
        says="eviction version of TTL caching, that is, EXP does not perform well",
        where="3, 4",
        rule=f"worse than TTL in hit ratio, hit bytes, latency and fetched bytes {EVERY_SIZE}",
        check=beats("ttl", ("exp",), BETTER),
    ),
    Claim(
        name="hit-ratio-with-hit-bytes",
        says=GENERALLY + "higher hit byte",
        where="3(a), 3(b)",
        rule=AGREEING,
        check=goes_with("hit_ratio", "hit_bytes", PAPERS, rises=True),
    ),
    Claim(
        name="hit-ratio-with-miss-bytes",
        says=GENERALLY + "… lower miss byte",
        where="3(a), 3(c)",
        rule=AGREEING,
        check=goes_with("hit_ratio", "miss_bytes", PAPERS, rises=False),
    ),
    Claim(
        name="hit-ratio-with-latency",
        says=GENERALLY + "… lower subscriber latency",
        where="3(a), 4(b)",
        rule=AGREEING,
        check=goes_with("hit_ratio", "latency_mean_s", PAPERS, rises=False),
    ),
    Claim(
        name="hit-ratio-with-fetch",
        says=GENERALLY + "… lower fetch",
        where="3(a), 4(a)",
        rule=AGREEING,
        check=goes_with("hit_ratio", "fetched_bytes", PAPERS, rises=False),
    ),
    Claim(
        name="vol-and-misses",
        says="[Vol] is the base amount that the broker needs to pull from the data cluster "
        "(irrespective of caching policy used) … The additional fetches are attributed to cache "
        "misses",
        where="4(a)",
        rule="fetched = Vol + miss bytes to the byte in every point, Vol the same for all policies",
        check=adds_up("fetched_bytes", ("volume_bytes", "miss_bytes"), PAPERS),
    ),
    Claim(
        name="latency-order",
        says="TTL scheme offers the lowest subscriber latency followed by LSC and then LRU",
        where="4(b)",
        rule=f"TTL below all of the paper's others, and TTL < LSC < LRU, {EVERY_SIZE}",
        check=both(
            beats("ttl", EVICTING, {"latency_mean_s": False}),
            ordered("latency_mean_s", ("ttl", "lsc", "lru"), falling=False),
        ),
    ),
    Claim(
        name="ttl-holds-longest",
        says="the TTL cache holds objects for longer duration than other schemes",
        where="4(c)",
        rule=f"above each of the paper's other policies {EVERY_SIZE}",
        check=beats("ttl", EVICTING, {"holding_mean_s": True}),
    ),
    Claim(
        name="exp-holds-shortest",
        says="EXP holds for the shortest duration. This is why EXP performs worse than other "
        "schemes",
        where="4(c)",
        rule=f"below each of the paper's other policies {EVERY_SIZE}",
        check=beats("exp", PAPERS, {"holding_mean_s": False}),
    ),
    Claim(
        name="exp-worse-than-all",
        says="EXP performs worse than other schemes",
        where="3, 4",
        rule=f"worst in hit ratio, hit bytes, latency and fetched bytes {EVERY_SIZE}",
        check=beats("exp", PAPERS, {metric: not more for metric, more in BETTER.items()}),
    ),
    Claim(
        name="ttl-superior",
        says="TTL-based caching has superior performance than eviction-based techniques",
        where="3, 4",
        rule=f"best of the paper's in hit ratio, hit bytes, latency, fetched bytes {EVERY_SIZE}",
        check=beats("ttl", EVICTING, BETTER),
    ),
    Claim(
        name="ttl-larger-cache",
        says="This is achieved, however, at an additional cost of … higher total cache size",
        where="5(a)",
        rule=f"TTL's time-averaged size is above that of each eviction policy {EVERY_SIZE}",
        check=beats("ttl", EVICTING, {"cache_mean_bytes": True}),
    ),
    Claim(
        name="ttl-slightly-larger",
        says="… slightly higher total cache size",
        where="5(a)",
        rule="TTL's time-averaged size is between 1 and 1.1 times the allowed one at every size",
        check=ratio("cache_mean_bytes", AXIS, ("ttl",), low=1.0, high=1.1),
    ),
    Claim(
        name="eviction-within-limit",
        says="eviction-based schemes limit themselves within the allowed sizes",
        where="5(a)",
        rule="the largest size ever is at most the allowed one, in every point",
        check=ratio("cache_max_bytes", AXIS, EVICTING, high=1.0, every_seed=True),
    ),
    Claim(
        name="ttl-exceeds-limit",
        says="on some occasions, the caches may grow beyond the allowed cache size … TTL cache "
        "indeed exceeds the limit",
        where="5(a)",
        rule="TTL's largest size is above the allowed one in every seed, at every size",
        check=ratio("cache_max_bytes", AXIS, ("ttl",), low=1.0 + 1e-9, every_seed=True),
    ),
    Claim(
        name="rho-t-fits",
        says="Σρ_iT_i … fits almost exactly the allowed size (as per (5))",
        where="5(a)",
        rule="TTL's mean Σρ_iT_i, with its interval, is within 5 % of the allowed size at every "
        "size",
        check=ratio("rho_t_bytes", AXIS, ("ttl",), low=0.95, high=1.05),
    ),
    Claim(
        name="holding-matches-ttl",
        says="if holding times match with TTL values. Intuitively, these two values should match "
        "closely in TTL caches, which we in fact see",
        where="5(b)",
        rule="mean holding time is within 10 % of the mean TTL at every size",
        check=ratio("holding_mean_s", "ttl_mean_s", ("ttl",), low=0.9, high=1.1),
    ),
    Claim(
        name="holding-nearer-than-lsc",
        says="… match closely in TTL caches … compared to the same for LSC scheme",
        where="5(b)",
        rule=f"holding time / TTL is nearer to 1 for TTL than for LSC {EVERY_SIZE}",
        check=nearer_to_one("holding_mean_s", "ttl_mean_s", "ttl", "lsc"),
    ),
    Claim(
        name="holding-below-ttl",
        says="the holding time can be less than TTL value as objects can be dropped when consumed",
        where="5(b)",
        rule="TTL's mean holding time is at most its mean TTL, in every seed, at every size",
        check=ratio("holding_mean_s", "ttl_mean_s", ("ttl",), high=1.0, every_seed=True),
    ),
    Claim(
        name="homing-hit-ratio",
        says="homing has a higher hit ratio than every other policy",
        where="3(a)",
        rule=f"above each of the others {EVERY_SIZE}",
        check=beats(OURS, None, {"hit_ratio": True}),
        own=True,
    ),
    Claim(
        name="homing-latency",
        says="homing has a lower latency than every other policy",
        where="4(b)",
        rule=f"below each of the others {EVERY_SIZE}",
        check=beats(OURS, None, {"latency_mean_s": False}),
        own=True,
    ),
    Claim(
        name="bound-hit-ratio",
        says="no policy that keeps its budget passes the bound on the hit ratio",
        where="3(a)",
        rule="at most the bound, in every point that has one",
        check=within_bound("hit_ratio", more=True, spent="cache_max_bytes"),
        own=True,
    ),
    Claim(
        name="bound-latency",
        says="no policy that keeps its budget passes the bound on latency",
        where="4(b)",
        rule="at least the bound, in every point that has one",
        check=within_bound("latency_mean_s", more=False, spent="cache_max_bytes"),
        own=True,
    ),
)

EXPERIMENT = Experiment(
    name="edge-caching",
    purpose="which policy and how large a cache a broker needs (BAD, Figures 3 to 5)",
    source="BAD, section V, Table II and Figures 3 to 5",
    subject=RESULT_CACHE,
    axis=CACHE_SIZES,
    readings=READINGS,
    policies=(*PAPERS, "fifo", "gdsf", OURS),
    full=Extent(values=tuple(range(50_000_000, 500_000_001, 50_000_000)), seeds=10, bound_seeds=1),
    # A tenth of the people, of the backend subscriptions and so of the cache: the same load on it.
    quick=Extent(
        values=(5_000_000, 20_000_000, 50_000_000),
        seeds=3,
        bound_seeds=1,
        settings={"subscribers": 1_000, "backends": 100, "hours": 1.0},
    ),
    figures=FIGURES,
    claims=CLAIMS,
    means={"hit_ratio": "Hit ratio", "latency_mean_s": "Mean latency (s)"},
)
