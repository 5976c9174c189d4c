"""The *delivery* paper's evaluation: Figures 1 to 5 and Table 1, over F and SQ.

A reading is an F (the part of the accesses that notifications lead to), the axis is SQ (how many of
those that are told of a page read it). Its workload is not printed whole; NOTES fills it. More
readings show where Table 1 flips: other β, cache sizes and ways in which requests cluster.
"""

from __future__ import annotations

from tocsin.lab.declaring.axis import Axis
from tocsin.lab.declaring.checks import beats, both, changes_along, only_at, similar, within_bound
from tocsin.lab.declaring.claims import Claim
from tocsin.lab.declaring.experiment import Experiment, Extent, Reading, Winners
from tocsin.lab.declaring.figures import Figure, Series
from tocsin.lab.subjects.pages import BASELINE, ODT, PAGES

SG1, RSG2, HUG, DC, DC_TA, OURS = "sg1", "rsg2", "hug", "dc", "dc-ta", "assay"
POLICIES = (BASELINE, SG1, RSG2, HUG, DC, DC_TA, ODT, OURS)
COMPARED = (SG1, HUG, DC)  # of Table 1
GAIN = "gain"
FEWER = {"miss_ratio": False}
LOW, HIGH = (10, 25, 50), (75, 100)
PAPERS = tuple(f"F = {share:g}" for share in (1, 0.75, 0.5, 0.25))
OFTEN = PAPERS[:3]

SHARES = (
    *(
        Reading(
            name=name,
            meaning=f"{name.removeprefix('F = ')} of the accesses are led by notifications",
            settings={"notified": float(name.removeprefix("F = "))},
        )
        for name in PAPERS
    ),
)
HALF = {"notified": 0.5}
OTHERS = (
    Reading(
        name="β = 2",
        meaning="F = 0.5, and all policies with β = 2: recency counts for more",
        settings={**HALF, "beta": 2.0},
    ),
    Reading(
        name="β = 0.5",
        meaning="F = 0.5, and all policies with β = 0.5: popularity counts for more",
        settings={**HALF, "beta": 0.5},
    ),
    Reading(
        name="small cache",
        meaning="F = 0.5, and caches of 1 % instead of 5 %",
        settings={**HALF, "share": 0.01},
    ),
    Reading(
        name="large cache",
        meaning="F = 0.5, and caches of 20 % instead of 5 %",
        settings={**HALF, "share": 0.2},
    ),
    Reading(
        name="weak clustering",
        meaning="F = 0.5, and requests come at any age alike",
        settings={**HALF, "age_exponent": 0.0},
    ),
    Reading(
        name="strong clustering",
        meaning="F = 0.5, and requests fall with the third power of a page's age",
        settings={**HALF, "age_exponent": 3.0},
    ),
    Reading(
        name="even interest",
        meaning="F = 0.5, and Zipf's law with exponent 1 instead of 1.5",
        settings={**HALF, "zipf": 1.0},
    ),
    Reading(
        name="ranked pages",
        meaning="F = 0.5, and Zipf's law holds for pages instead of stories",
        settings={**HALF, "ranked": "pages"},
    ),
)
READINGS = (*SHARES, *OTHERS)


def _figure(name: str, title: str, policies: tuple[str, ...]) -> Figure:
    return Figure(
        name=name,
        title=title,
        axis="of GD*'s misses spared (%)",
        series=(Series(metric=GAIN, policies=(*policies, OURS)),),
        unit=0.01,
        one_scale=True,
        bound=GAIN,
    )


def _wins(winner: str) -> tuple[str, ...]:
    return tuple(policy for policy in COMPARED if policy != winner)


OWN = (
    Claim(
        name="assay",
        says="assay misses less than SG1, HUG, DC and ODT",
        where="6-assay",
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
        readings=PAPERS[1:],
    ),
    Claim(
        name="same-if-all-are-notified",
        says="the two approaches are same when F is 1",
        where="1-rsg2-hug",
        rule="RSG2 and HUG have the same miss ratio",
        check=similar("miss_ratio", HUG, RSG2, 1e-12),
        readings=PAPERS[:1],
    ),
    Claim(
        name="quality-does-not-always-help",
        says="when F is 0.25, the performances of RSG2 and HUG degrade with SQ",
        where="1-rsg2-hug",
        rule="their gains fall at every step of SQ",
        check=changes_along(GAIN, (RSG2, HUG), rises=False),
        readings=PAPERS[3:],
    ),
    Claim(
        name="dc-beats-dc-ta",
        says="under any setting of F and SQ, DC yields higher gains than DC-TA",
        where="2-dc-dc-ta",
        rule="DC misses less than DC-TA at every SQ, over paired seeds",
        check=beats(DC, (DC_TA,), FEWER),
        readings=PAPERS,
    ),
    Claim(
        name="best-share-helps",
        says="a dramatic improvement using the optimum partition",
        where="3-dc-ta-odt",
        rule="ODT misses less than DC-TA at every SQ",
        check=beats(ODT, (DC_TA,), FEWER),
        readings=PAPERS,
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
        readings=(*OFTEN, *(one.name for one in OTHERS)),
    ),
    Claim(
        name="table-1-sg1",
        says="SG1 wins at F = 0.25 and SQ = 1",
        where="5-sg1-hug-dc",
        rule="SG1 misses less than HUG and DC there",
        check=only_at((100,), beats(SG1, _wins(SG1), FEWER)),
        readings=PAPERS[3:],
    ),
    *OWN,
)

EXPERIMENT = Experiment(
    name="page-delivery",
    purpose="page caches that know the subscriptions (delivery, Figures 1–5, Table 1)",
    source="delivery, section 4",
    subject=PAGES,
    axis=Axis(column="quality", label="SQ", plural="qualities", suffix="", unit=100.0),
    readings=READINGS,
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
        _figure("6-assay", "The best of the paper's, and assay", (HUG, DC, ODT)),
    ),
    claims=CLAIMS,
    winners=(
        Winners(title="Table 1: winners", policies=COMPARED, metric="miss_ratio", more=False),
        Winners(
            title="Winners of all but assay",
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
