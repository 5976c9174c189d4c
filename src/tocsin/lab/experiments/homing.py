"""Does `homing` win where it was not designed? The paper's day and six others, held-out seeds."""

from __future__ import annotations

from tocsin.lab.declaring.checks import AXIS, beats, ratio, within_bound
from tocsin.lab.declaring.claims import Claim
from tocsin.lab.declaring.experiment import Experiment, Extent, Reading
from tocsin.lab.declaring.figures import Figure, Series
from tocsin.lab.experiments.edge_caching import EXPERIMENT as EDGE_CACHING
from tocsin.lab.experiments.edge_caching import OURS

HELD_OUT = 1001  # design and tests use small seeds
NEAR = ("lru", "lsc", "exp", "ttl", "fifo")  # the others are far below, and only in the tables

# Each of the others changes one thing of the paper's day (reading "always"). The mean absence stays
# what it is, about 21 minutes.
OTHERS = (
    Reading(
        name="uneven",
        meaning="interest is uneven: Zipf with exponent 0.8",
        settings={"skew": 0.8},
    ),
    Reading(
        name="heavy-absences",
        meaning="most absences are short, few very long: lognormal(1.03, 2)",
        settings={"off_minutes": (1.03, 2.0)},
    ),
    Reading(
        name="steady-absences",
        meaning="all absences are about as long: lognormal(3.01, 0.2)",
        settings={"off_minutes": (3.01, 0.2)},
    ),
    Reading(
        name="equal-sizes",
        meaning="all results have 250 kB",
        settings={"size_bytes": (250_000, 250_000)},
    ),
    Reading(
        name="long-subscriptions",
        meaning="subscriptions last for hours: lognormal(5, 1), 4 hours on average",
        settings={"subscription_minutes": (5.0, 1.0)},
    ),
    Reading(
        name="town",
        meaning="a fifth of the people and of what they ask for: each byte of cache is worth five",
        settings={"subscribers": 2_000, "backends": 200},
    ),
)

FIGURES = (
    Figure(
        name="hit-ratio-against-homing",
        title="Hit ratio, difference to homing over the same seeds (below 0: homing is better)",
        axis="hit ratio above homing's",
        series=(Series(metric="hit_ratio", against=OURS, policies=NEAR),),
        bound="hit_ratio",
    ),
    Figure(
        name="latency-against-homing",
        title="Mean latency, difference to homing over the same seeds (above 0: homing is better)",
        axis="latency above homing's (ms)",
        unit=1e-3,
        series=(Series(metric="latency_mean_s", against=OURS, policies=NEAR),),
        bound="latency_mean_s",
    ),
)

EVERY_SIZE = "the others at every size, over paired seeds"

CLAIMS = (
    Claim(
        name="homing-hit-ratio",
        says="homing has a higher hit ratio than every other policy",
        where="hit ratio",
        rule=f"above each of {EVERY_SIZE}",
        check=beats(OURS, None, {"hit_ratio": True}),
        own=True,
    ),
    Claim(
        name="homing-latency",
        says="homing has a lower latency than every other policy",
        where="latency",
        rule=f"below each of {EVERY_SIZE}",
        check=beats(OURS, None, {"latency_mean_s": False}),
        own=True,
    ),
    Claim(
        name="homing-within-limit",
        says="homing never exceeds its budget",
        where="latency",
        rule="the largest size ever is at most the allowed one, in every point",
        check=ratio("cache_max_bytes", AXIS, (OURS,), high=1.0, every_seed=True),
        own=True,
    ),
    Claim(
        name="bound-hit-ratio",
        says="no policy that keeps its budget passes the bound on the hit ratio",
        where="hit ratio",
        rule="at most the bound, in every point that has one",
        check=within_bound("hit_ratio", more=True, spent="cache_max_bytes"),
        own=True,
    ),
)

EXPERIMENT = Experiment(
    name="homing",
    purpose="where homing wins, ties and loses: held-out seeds, other circumstances",
    source="Tocsin, docs/lab/homing.md",
    subject=EDGE_CACHING.subject,
    axis=EDGE_CACHING.axis,
    readings=(*EDGE_CACHING.readings, *OTHERS),
    policies=EDGE_CACHING.policies,
    full=Extent(
        values=tuple(size * 1_000_000 for size in (20, 50, 100, 200, 500, 1000)),
        seeds=10,
        first_seed=HELD_OUT,
        bound_seeds=1,
    ),
    quick=Extent(
        values=(50_000_000, 500_000_000),
        seeds=2,
        first_seed=HELD_OUT,
        settings={"hours": 1.0},
    ),
    figures=FIGURES,
    claims=CLAIMS,
    means=EDGE_CACHING.means,
)
