"""What the *kafka* paper could not ask: thousands of consumers and contents, logs of limited size.

Where does each of its policies break, and how far is it from the best admission with the same
bytes?
"""

from __future__ import annotations

from tocsin.lab.spec.axis import Axis
from tocsin.lab.spec.checks import beats, both, only_in, ordered, times, within_bound
from tocsin.lab.spec.claims import Claim
from tocsin.lab.spec.experiment import Experiment, Extent, Variant
from tocsin.lab.spec.figures import curves
from tocsin.lab.spec.levels import between
from tocsin.lab.studies.consumer_logs import CROWDS_LOGS

SET_POINTS = {"threshold(0.3,0.2)": 0.4, "threshold(0.2,0.8)": 0.8}
STUCK = "threshold(0.3,0)"  # it only ever rises
ALWAYS = "threshold(0,0.2)"  # it never rises
MEAN, LONG_MEAN, BUFFER = "mean(50)", "mean(1000)", "buffer(0.5,0.5)"
CHOOSING = (*SET_POINTS, MEAN, LONG_MEAN, BUFFER)
POLICIES = ("all", *CHOOSING, STUCK, ALWAYS, "none")
LARGEST = 100_000

AXIS = Axis(
    column="retention_bytes",
    label="room in each consumer's log (KB)",
    plural="sizes of logs",
    suffix="KB",
    unit=1e3,
    logarithmic=True,
)

VARIANTS = (
    Variant(
        name="steady",
        meaning="restaurants publish independently of each other",
        settings={"campaign_every": 0, "layout": "each"},
    ),
    Variant(
        name="campaigns",
        meaning="of each 1,000 records, the first 200 are of one restaurant that many want",
        settings={"campaign_every": 1_000, "layout": "each"},
    ),
    Variant(
        name="shared",
        meaning="as steady, but records are kept once in a shared log, with references to them",
        settings={"campaign_every": 0, "layout": "shared"},
        bounded=False,
    ),
)

FIGURES = (
    curves(
        "hits",
        "Deliveries found in the log",
        "hits (share of deliveries)",
        "delivery_hit_rate",
        one_scale=True,
        bound="delivery_hit_rate",
    ),
    curves(
        "part-of-best",
        "Deliveries saved, of the most that as many bytes could save (logs without end)",
        "part of the best",
        "part_of_best",
        policies=(*CHOOSING, "all"),
        one_scale=True,
        at=LARGEST,
    ),
    curves(
        "longest-refused",
        "The longest run of records that were all refused",
        "records",
        "longest_refused",
        policies=CHOOSING,
        one_scale=True,
        at=LARGEST,
    ),
    curves(
        "response",
        "From a consumer's read to the record",
        "mean response time (ms)",
        "response_mean_s",
        unit=1e-3,
        one_scale=True,
    ),
    curves(
        "bytes-in-logs",
        "Bytes in all logs, mean over the run",
        "MB",
        "stored_mean_bytes",
        unit=1e6,
        one_scale=True,
    ),
    curves(
        "fetches",
        "Queries to the database",
        "queries (thousands)",
        "database_fetches",
        unit=1e3,
        one_scale=True,
    ),
)

EVERY_SIZE = "at every size, over paired seeds"

CLAIMS = (
    Claim(
        name="threshold-set-point",
        says="threshold admits mu / (lambda + mu) of the deliveries, whatever is published",
        where="part-of-best",
        rule="the admitted part of deliveries is within ± 0.01 of it",
        check=both(
            *(
                between("admitted_share", (policy,), point - 0.01, point + 0.01)
                for policy, point in SET_POINTS.items()
            )
        ),
        own=True,
    ),
    Claim(
        name="threshold-drifts-to-nothing",
        says="with mu = 0, threshold ends up admitting nothing",
        where="longest-refused",
        rule="at most 1 % of records are admitted, in every point",
        check=between("hit_rate", (STUCK,), 0.0, 0.01, every_seed=True),
        own=True,
    ),
    Claim(
        name="threshold-drifts-to-everything",
        says="with lambda = 0, threshold admits everything",
        where="longest-refused",
        rule="all records are admitted, in every point",
        check=between("hit_rate", (ALWAYS,), 1.0, 1.0, every_seed=True),
        own=True,
    ),
    Claim(
        name="buffer-tosses-a-coin",
        says="buffer admits what is no less wanted than the record before: about half",
        where="part-of-best",
        rule="the hit rate, with its interval, lies in 0.5 to 0.55",
        check=between("hit_rate", (BUFFER,), 0.5, 0.55),
        own=True,
    ),
    Claim(
        name="mean-follows-bursts",
        says="after a campaign, mean refuses a whole batch",
        where="longest-refused",
        rule="its longest run of refusals is at least a batch, in every point",
        check=only_in(
            ["campaigns"], between("longest_refused", (MEAN,), 50, float("inf"), every_seed=True)
        ),
        own=True,
    ),
    Claim(
        name="number-of-subscribers-buys-nothing",
        says="in logs of limited size no policy that looks at the number of subscribers has more "
        "hits than one that admits everything",
        where="hits",
        rule=f"all is above each of the others {EVERY_SIZE}",
        check=beats("all", CHOOSING, {"delivery_hit_rate": True}),
        own=True,
    ),
    Claim(
        name="far-from-best",
        says="with the bytes that a policy writes, the best choice saves far more deliveries",
        where="part-of-best",
        rule="for each policy that chooses, at most 0.9 of the best, with its interval",
        check=between("part_of_best", CHOOSING, 0.0, 0.9),
        own=True,
    ),
    Claim(
        name="refusing-saves-no-room",
        says="refusing records saves hardly any room: they come into the logs from the database",
        where="bytes-in-logs",
        rule="the bytes in logs under none are at least 0.9 of those under all, at every size",
        check=times("stored_mean_bytes", "none", ("all",), low=0.9),
        own=True,
    ),
    Claim(
        name="less-waits-longer",
        says="who admits less lets consumers wait longer",
        where="response",
        rule=f"response times fall from none to threshold(0.3,0.2) to buffer to all {EVERY_SIZE}",
        check=ordered(
            "response_mean_s", ("none", "threshold(0.3,0.2)", BUFFER, "all"), falling=True
        ),
        own=True,
    ),
    Claim(
        name="bound-on-hits",
        says="no policy passes the bound on hits",
        where="hits",
        rule="at most the bound, in every point that has one",
        check=within_bound("delivery_hit_rate", more=True),
        own=True,
    ),
)

EXPERIMENT = Experiment(
    name="crowd-admission",
    purpose="the kafka paper's policies with thousands of consumers, and how far from the best",
    source="Tocsin, docs/lab/admission.md",
    study=CROWDS_LOGS,
    axis=AXIS,
    variants=VARIANTS,
    policies=POLICIES,
    full=Extent(values=(2_000, 5_000, 10_000, 20_000, 50_000, LARGEST), seeds=10, bound_seeds=2),
    # A tenth of the consumers and records, with logs that fill as much.
    quick=Extent(
        values=(5_000, 20_000, LARGEST),
        seeds=3,
        bound_seeds=1,
        settings={"records": 4_000, "consumers": 400},
    ),
    figures=FIGURES,
    claims=CLAIMS,
    means={
        "delivery_hit_rate": "Hits (share of deliveries)",
        "hit_rate": "Admitted records (share)",
        "part_of_best": "Part of the best for as many bytes",
        "response_mean_s": "Mean response time (s)",
        "stored_mean_bytes": "Bytes in all logs",
    },
    settings={"notice": "number", "database_write_s": 0.0},
)
