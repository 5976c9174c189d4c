"""Does `learned-demand` win where it was not designed? Held-out seeds, every F, SQ, other β, cache
sizes and ways in which requests cluster, each under few and under many notifications."""

from __future__ import annotations

from tocsin.lab.experiments.page_delivery import DC, FEWER, HUG, OURS, SG1, SHARES
from tocsin.lab.experiments.page_delivery import EXPERIMENT as PAGE_DELIVERY
from tocsin.lab.spec.checks import beats, within_bound
from tocsin.lab.spec.claims import Claim
from tocsin.lab.spec.experiment import Experiment, Extent, Variant
from tocsin.lab.spec.figures import curves
from tocsin.lab.studies.pages import BASELINE, ODT

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
    Variant(
        name=f"{name}, F = {share:g}",
        meaning=f"{meaning}; {share:g} of the accesses are led by notifications",
        settings={"notified": share, **settings},
    )
    for name, (meaning, settings) in CHANGES.items()
    for share in (0.25, 1.0)
)

EXPERIMENT = Experiment(
    name="learned-demand",
    purpose="does learned-demand, our own policy of page caches, win where it was not designed?",
    source="our own",
    study=PAGE_DELIVERY.study,
    axis=PAGE_DELIVERY.axis,
    variants=(*SHARES, *OTHERS),
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
        curves(
            "misses-against-learned-demand",
            "Miss ratio, difference to learned-demand (above 0: it is better; same seeds)",
            "miss ratio above learned-demand's (points)",
            "miss_ratio",
            policies=RIVALS,
            against=OURS,
            unit=0.01,
            bound="miss_ratio",
        ),
    ),
    claims=(
        Claim(
            name="learned-demand",
            says="learned-demand misses less than SG1, HUG, DC and ODT",
            where="misses-against-learned-demand",
            rule="fewer misses than each of them at every SQ, over paired seeds",
            check=beats(OURS, RIVALS, FEWER),
            own=True,
        ),
        Claim(
            name="bound-miss-ratio",
            says="no policy passes the bound",
            where="misses-against-learned-demand",
            rule="in every point that has one",
            check=within_bound("miss_ratio", more=False),
            own=True,
        ),
    ),
    means={"miss_ratio": "Miss ratio", "gain": "Part of GD*'s misses that is spared"},
)
