"""The simulated broker of BAD V, Figures 3 to 5, and every sentence that claims something."""

from __future__ import annotations

from tocsin.lab.spec.axis import CACHE_SIZES
from tocsin.lab.spec.checks import (
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
from tocsin.lab.spec.claims import Claim
from tocsin.lab.spec.experiment import Experiment, Extent, variants_of
from tocsin.lab.spec.figures import Figure, Series, curves
from tocsin.lab.studies.result_cache import RESULT_CACHE

EVICTING = ("lru", "lsc", "lscz", "lsd", "exp")
PAPERS = (*EVICTING, "ttl")
OURS = "return-rate"
CLOSE = ("lsc", "exp", "ttl", "fifo", OURS)  # so near to each other that only pairs tell

VARIANTS = variants_of(
    {
        "always": (
            "each subscriber always holds its ten subscriptions: one that ends is replaced",
            {"joining": "always"},
        ),
        "spread": (
            "each subscriber makes ten subscriptions in the whole run, at random times",
            {"joining": "spread"},
        ),
    }
)

FIGURES = (
    curves(
        "3a-hit-ratio",
        "Figure 3(a): hit ratio",
        "objects served from the cache (share)",
        "hit_ratio",
        one_scale=True,
        bound="hit_ratio",
    ),
    curves(
        "3b-hit-bytes",
        "Figure 3(b): hit bytes",
        "served from the cache (GB)",
        "hit_bytes",
        unit=1e9,
        bound="hit_bytes",
    ),
    curves(
        "3c-miss-bytes",
        "Figure 3(c): miss bytes",
        "fetched because of misses (GB)",
        "miss_bytes",
        unit=1e9,
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
    curves(
        "4b-latency",
        "Figure 4(b): mean latency of a subscriber's get",
        "latency (s)",
        "latency_mean_s",
        one_scale=True,
        bound="latency_mean_s",
    ),
    curves(
        "4c-holding-time",
        "Figure 4(c): how long objects are held",
        "mean holding time (s)",
        "holding_mean_s",
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
    curves(
        "hit-ratio-against-lru",
        "Hit ratio, difference to LRU over the same seeds",
        "hit ratio above LRU's",
        "hit_ratio",
        policies=CLOSE,
        against="lru",
        bound="hit_ratio",
    ),
    curves(
        "latency-against-lru",
        "Mean latency, difference to LRU over the same seeds",
        "latency above LRU's (ms)",
        "latency_mean_s",
        policies=CLOSE,
        against="lru",
        unit=1e-3,
        bound="latency_mean_s",
    ),
)

BETTER = {"hit_ratio": True, "hit_bytes": True, "latency_mean_s": False, "fetched_bytes": False}
GENERALLY = "Generally, whichever scheme has the higher hit ratio results in "
GROWING = "as we increase the total cache sizes, "
HIT_RATIO_GROWS = "the hit ratio … increase in all schemes"
HIT_BYTES_GROW = "the … hit byte increase in all schemes"
LATENCY_FALLS = "… subscriber latency … decreases"
FETCH_FALLS = "… the amount of data fetched from the data cluster decreases"
EVERY_SIZE = "at every size, over paired seeds"
AGREEING = "of the pairs of policies that differ in both, nine of ten agree, at every size"

CLAIMS = (
    *(
        Claim(
            name=name,
            says=GROWING + says,
            where=where,
            rule=f"each step to a larger size {'raises' if rises else 'lowers'} it, for each of "
            "the paper's policies",
            check=changes_along(metric, PAPERS, rises=rises),
        )
        for name, where, metric, rises, says in (
            ("hit-ratio-grows", "3(a)", "hit_ratio", True, HIT_RATIO_GROWS),
            ("hit-bytes-grow", "3(b)", "hit_bytes", True, HIT_BYTES_GROW),
            ("latency-falls", "4(b)", "latency_mean_s", False, LATENCY_FALLS),
            ("fetch-falls", "4(a)", "fetched_bytes", False, FETCH_FALLS),
        )
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
    *(
        Claim(
            name=f"hit-ratio-with-{name}",
            says=GENERALLY + says,
            where=f"3(a), {where}",
            rule=AGREEING,
            check=goes_with("hit_ratio", metric, PAPERS, rises=rises),
        )
        for name, where, metric, rises, says in (
            ("hit-bytes", "3(b)", "hit_bytes", True, "higher hit byte"),
            ("miss-bytes", "3(c)", "miss_bytes", False, "… lower miss byte"),
            ("latency", "4(b)", "latency_mean_s", False, "… lower subscriber latency"),
            ("fetch", "4(a)", "fetched_bytes", False, "… lower fetch"),
        )
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
        name="return-rate-hit-ratio",
        says="return-rate has a higher hit ratio than every other policy",
        where="3(a)",
        rule=f"above each of the others {EVERY_SIZE}",
        check=beats(OURS, None, {"hit_ratio": True}),
        own=True,
    ),
    Claim(
        name="return-rate-latency",
        says="return-rate has a lower latency than every other policy",
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
    source="BAD V, Table II and Figures 3 to 5",
    study=RESULT_CACHE,
    axis=CACHE_SIZES,
    variants=VARIANTS,
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
