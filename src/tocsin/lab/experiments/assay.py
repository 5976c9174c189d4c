"""Does `assay` win where it was not designed? Held-out seeds, every F and SQ, and other β, cache
sizes and ways in which requests cluster, each under few and under many notifications."""

from __future__ import annotations

from tocsin.lab.declaring.checks import beats, within_bound
from tocsin.lab.declaring.claims import Claim
from tocsin.lab.declaring.experiment import Experiment, Extent, Reading
from tocsin.lab.declaring.figures import Figure, Series
from tocsin.lab.experiments.page_delivery import DC, FEWER, HUG, OURS, SG1, SHARES
from tocsin.lab.experiments.page_delivery import EXPERIMENT as PAGE_DELIVERY
from tocsin.lab.subjects.pages import BASELINE, ODT

HELD_OUT = 1001  # design and tests use small seeds
RIVALS = (SG1, HUG, DC, ODT)
CHANGES: dict[str, tuple[str, dict[str, float]]] = {
    "β = 3": ("β = 3 for all that have one", {"beta": 3.0}),
    "β = 0.7": ("β = 0.7 for all that have one", {"beta": 0.7}),
    "2 %": ("caches of 2 %", {"share": 0.02}),
    "10 %": ("caches of 10 %", {"share": 0.1}),
    "age^−0.8": ("requests fall with age more slowly", {"age_exponent": 0.8}),
    "age^−2.2": ("requests fall with age faster", {"age_exponent": 2.2}),
    "Zipf 1.2": ("interest is more even", {"zipf": 1.2}),
    "30 servers": ("fewer servers, each with more requests", {"servers": 30}),
}
OTHERS = tuple(
    Reading(
        name=f"{name}, F = {share:g}",
        meaning=f"{meaning}; {share:g} of the accesses are led by notifications",
        settings={"notified": share, **settings},
    )
    for name, (meaning, settings) in CHANGES.items()
    for share in (0.25, 1.0)
)

EXPERIMENT = Experiment(
    name="assay",
    purpose="does assay, our own policy of page caches, win where it was not designed?",
    source="our own",
    subject=PAGE_DELIVERY.subject,
    axis=PAGE_DELIVERY.axis,
    readings=(*SHARES, *OTHERS),
    policies=(BASELINE, *RIVALS, OURS),
    full=Extent(values=PAGE_DELIVERY.full.values, seeds=10, first_seed=HELD_OUT, bound_seeds=10),
    quick=Extent(
        values=(10, 100),
        seeds=2,
        first_seed=HELD_OUT,
        bound_seeds=1,
        settings=PAGE_DELIVERY.quick.settings,
    ),
    figures=(
        Figure(
            name="misses-against-assay",
            title="Miss ratio, difference to assay over the same seeds (above 0: assay is better)",
            axis="miss ratio above assay's (points)",
            series=(Series(metric="miss_ratio", against=OURS, policies=RIVALS),),
            unit=0.01,
            bound="miss_ratio",
        ),
    ),
    claims=(
        Claim(
            name="assay",
            says="assay misses less than SG1, HUG, DC and ODT",
            where="misses-against-assay",
            rule="fewer misses than each of them at every SQ, over paired seeds",
            check=beats(OURS, RIVALS, FEWER),
            own=True,
        ),
        Claim(
            name="bound-miss-ratio",
            says="no policy passes the bound",
            where="misses-against-assay",
            rule="in every point that has one",
            check=within_bound("miss_ratio", more=False),
            own=True,
        ),
    ),
    means={"miss_ratio": "Miss ratio", "gain": "Part of GD*'s misses that is spared"},
)
