"""The evaluation of delivery 4, Figures 1 to 5 and Table 1, over F and SQ.

A variant is an F (the part of the accesses that notifications lead to), the axis is SQ (how many of
those that are told of a page read it). Its workload is not printed whole; `docs/papers/delivery.md`
completes it. More variants show where the winners change: other β, cache sizes and ways in which
requests cluster.
"""

from __future__ import annotations

from tocsin.lab.spec.axis import Axis
from tocsin.lab.spec.checks import beats, both, changes_along, only_at, similar, within_bound
from tocsin.lab.spec.claims import Claim
from tocsin.lab.spec.experiment import Experiment, Extent, Variant, Winners, variants_of
from tocsin.lab.spec.figures import Figure, curves
from tocsin.lab.studies.pages import BASELINE, ODT, PAGES

SG1, RSG2, HUG, DC, DC_TA, OURS = "sg1", "rsg2", "hug", "dc", "dc-ta", "learned-demand"
POLICIES = (BASELINE, SG1, RSG2, HUG, DC, DC_TA, ODT, OURS)
COMPARED = (SG1, HUG, DC)  # of delivery, Table 1
GAIN = "gain"
FEWER = {"miss_ratio": False}
LOW, HIGH = (10, 25, 50), (75, 100)
PAPERS = tuple(f"F = {share:g}" for share in (1, 0.75, 0.5, 0.25))
OFTEN = PAPERS[:3]

SHARES = (
    *(
        Variant(
            name=name,
            meaning=f"{name.removeprefix('F = ')} of the accesses are led by notifications",
            settings={"notified": float(name.removeprefix("F = "))},
        )
        for name in PAPERS
    ),
)
HALF = {"notified": 0.5}
OTHERS = variants_of(
    {
        "β = 2": (
            "F = 0.5, and all policies with β = 2: recency counts for more",
            {**HALF, "beta": 2.0},
        ),
        "β = 0.5": (
            "F = 0.5, and all policies with β = 0.5: popularity counts for more",
            {**HALF, "beta": 0.5},
        ),
        "small cache": ("F = 0.5, and caches of 1 % instead of 5 %", {**HALF, "share": 0.01}),
        "large cache": ("F = 0.5, and caches of 20 % instead of 5 %", {**HALF, "share": 0.2}),
        "weak clustering": (
            "F = 0.5, and requests come at any age alike",
            {**HALF, "age_exponent": 0.0},
        ),
        "strong clustering": (
            "F = 0.5, and requests fall with the third power of a page's age",
            {**HALF, "age_exponent": 3.0},
        ),
        "even interest": (
            "F = 0.5, and Zipf's law with exponent 1 instead of 1.5",
            {**HALF, "zipf": 1.0},
        ),
        "ranked pages": (
            "F = 0.5, and Zipf's law holds for pages instead of stories",
            {**HALF, "ranked": "pages"},
        ),
    }
)
VARIANTS = (*SHARES, *OTHERS)


def _figure(name: str, title: str, policies: tuple[str, ...]) -> Figure:
    return curves(
        name,
        title,
        "of GD*'s misses spared (%)",
        GAIN,
        policies=(*policies, OURS),
        unit=0.01,
        one_scale=True,
        bound=GAIN,
    )


def _wins(winner: str) -> tuple[str, ...]:
    return tuple(policy for policy in COMPARED if policy != winner)


OWN = (
    Claim(
        name="learned-demand",
        says="learned-demand misses less than SG1, HUG, DC and ODT",
        where="6-learned-demand",
        rule="fewer misses than each of them at every SQ, over paired seeds",
        check=beats(OURS, (SG1, HUG, DC, ODT), FEWER),
        own=True,
    ),
    Claim(
        name="bound-miss-ratio",
        says="no policy passes the bound",
        where="all figures",
        rule="in every point that has one",
        check=within_bound("miss_ratio", more=False),
        own=True,
    ),
)

CLAIMS = (
    Claim(
        name="all-beat-gdstar",
        says="all of the three approaches reduce the miss ratio over GD* under all settings",
        where="5-sg1-hug-dc",
        rule="SG1, HUG and DC miss less than GD* at every SQ, over paired seeds",
        check=both(*(beats(policy, (BASELINE,), FEWER) for policy in COMPARED)),
    ),
    Claim(
        name="hug-beats-rsg2",
        says="the superiority of HUG to RSG2 in most cases",
        where="1-rsg2-hug",
        rule="HUG misses less than RSG2 at every SQ (F = 1 makes them the same)",
        check=beats(HUG, (RSG2,), FEWER),
        variants=PAPERS[1:],
    ),
    Claim(
        name="same-if-all-are-notified",
        says="the two approaches are same when F is 1",
        where="1-rsg2-hug",
        rule="RSG2 and HUG have the same miss ratio",
        check=similar("miss_ratio", HUG, RSG2, 1e-12),
        variants=PAPERS[:1],
    ),
    Claim(
        name="quality-does-not-always-help",
        says="when F is 0.25, the performances of RSG2 and HUG degrade with SQ",
        where="1-rsg2-hug",
        rule="their gains fall at every step of SQ",
        check=changes_along(GAIN, (RSG2, HUG), rises=False),
        variants=PAPERS[3:],
    ),
    Claim(
        name="dc-beats-dc-ta",
        says="under any setting of F and SQ, DC yields higher gains than DC-TA",
        where="2-dc-dc-ta",
        rule="DC misses less than DC-TA at every SQ, over paired seeds",
        check=beats(DC, (DC_TA,), FEWER),
        variants=PAPERS,
    ),
    Claim(
        name="best-share-helps",
        says="a dramatic improvement using the optimum partition",
        where="3-dc-ta-odt",
        rule="ODT misses less than DC-TA at every SQ",
        check=beats(ODT, (DC_TA,), FEWER),
        variants=PAPERS,
    ),
    Claim(
        name="table-1-dc",
        says="DC is the winner for most settings when either F or SQ is low",
        where="5-sg1-hug-dc",
        rule="DC misses less than SG1 and HUG at SQ = 0.1, 0.25 and 0.5",
        check=only_at(LOW, beats(DC, _wins(DC), FEWER)),
    ),
    Claim(
        name="table-1-hug",
        says="when both F and SQ are high, HUG yields the highest gains",
        where="5-sg1-hug-dc",
        rule="HUG misses less than SG1 and DC at SQ = 0.75 and 1",
        check=only_at(HIGH, beats(HUG, _wins(HUG), FEWER)),
        variants=(*OFTEN, *(variant.name for variant in OTHERS)),
    ),
    Claim(
        name="table-1-sg1",
        says="SG1 wins at F = 0.25 and SQ = 1",
        where="5-sg1-hug-dc",
        rule="SG1 misses less than HUG and DC there",
        check=only_at((100,), beats(SG1, _wins(SG1), FEWER)),
        variants=PAPERS[3:],
    ),
    *OWN,
)

EXPERIMENT = Experiment(
    name="page-delivery",
    purpose="page caches that know the subscriptions (delivery, Figures 1 to 5, Table 1)",
    source="delivery 4",
    study=PAGES,
    axis=Axis(column="quality", label="SQ", plural="qualities", suffix="", unit=100.0),
    variants=VARIANTS,
    policies=POLICIES,
    full=Extent(values=(10, 25, 50, 75, 100), seeds=10, bound_seeds=10),
    quick=Extent(
        values=(10, 50, 100),
        seeds=4,
        bound_seeds=1,
        settings={"servers": 20, "requests": 40_000},
    ),
    figures=(
        _figure("1-rsg2-hug", "RSG2 and HUG (Figure 1)", (RSG2, HUG)),
        _figure("2-dc-dc-ta", "DC and DC-TA (Figure 2)", (DC, DC_TA)),
        _figure("3-dc-ta-odt", "DC-TA with a fixed and the best share (Figure 3)", (DC_TA, ODT)),
        _figure("4-dc-odt", "DC and ODT (Figure 4)", (DC, ODT)),
        _figure("5-sg1-hug-dc", "SG1, HUG and DC (Figure 5)", COMPARED),
        _figure("6-learned-demand", "The best of the paper's, and learned-demand", (HUG, DC, ODT)),
    ),
    claims=CLAIMS,
    winners=(
        Winners(title="Table 1: winners", policies=COMPARED, metric="miss_ratio", more=False),
        Winners(
            title="Winners of all but learned-demand",
            policies=(SG1, RSG2, HUG, DC, ODT),
            metric="miss_ratio",
            more=False,
        ),
    ),
    means={
        GAIN: "Part of GD*'s misses that is spared",
        "miss_ratio": "Miss ratio",
        "phi": "ODT's share for subscribers",
    },
)
