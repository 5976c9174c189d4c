"""What the paper says of the policies (survival 3, 7.3 and 8)."""

from __future__ import annotations

from tocsin.lab.experiments.survival.variants import (
    CLASSES,
    FLOODING,
    FULL,
    LOADS,
    MULTI,
    PAPERS,
    PLAIN,
    POLICIES,
    RATIOS,
    YARDSTICK,
)
from tocsin.lab.spec.checks import (
    beats,
    both,
    changes_along,
    gap_grows,
    only_at,
    ratio,
    similar,
    times,
)
from tocsin.lab.spec.claims import Claim
from tocsin.lab.spec.levels import at_most, between

SELECTIVE = (PAPERS, FLOODING, PLAIN)
HIGHER = {"mst_little": True}
EVERYWHERE = "at every value, over paired seeds"
LOW_LOADS, HIGH_LOADS = LOADS[:2], LOADS[-2:]

CLAIMS = (
    Claim(
        name="yardstick-loses-nothing",
        says="The only policy which guarantees … P_loss = 0 is the all-fld-nop policy",
        where="6",
        rule="none of its messages was lost, in any point",
        variants=MULTI,
        check=between("p_loss", (YARDSTICK,), 0.0, 0.0, every_seed=True),
    ),
    Claim(
        name="selective-loses",
        says="The pub/sub caching mechanism proposed bears always a number of messages with zero "
        "survival time … The rest of the policies behave similarly",
        where="6",
        rule="P_loss of the three differs by at most 0.005, with the interval",
        variants=("load", "brokers"),
        check=both(*(similar("p_loss", PAPERS, other, 0.005) for other in (FLOODING, PLAIN))),
    ),
    Claim(
        name="loss-small-from-two-clients",
        says="P_loss is quite small when ρc > 2",
        where="6",
        rule="at most 0.01 at 2 clients and more",
        variants=("load",),
        check=only_at([load for load in LOADS if load >= 2000], at_most("p_loss", SELECTIVE, 0.01)),
    ),
    Claim(
        name="loss-small-from-four-brokers",
        says="or n > 3 in the shown examples",
        where="6",
        rule="at most 0.01 with 4 brokers and more",
        variants=("brokers",),
        check=only_at(
            [brokers for brokers in FULL.of("brokers") if brokers > 3],
            at_most("p_loss", SELECTIVE, 0.01),
        ),
    ),
    Claim(
        name="yardstick-worst",
        says="the all-fld-nop policy performs strictly worse in almost all settings",
        where="6",
        rule=f"each of the three others is above it {EVERYWHERE}",
        variants=MULTI,
        check=both(*(beats(policy, (YARDSTICK,), HIGHER) for policy in SELECTIVE)),
    ),
    Claim(
        name="priority-gains",
        says="the gain from using priority (compare prt policies with nop) is evident in most "
        "cases",
        where="6",
        rule=f"sel-sub-prt is at least 2 % above sel-sub-nop {EVERYWHERE}",
        variants=MULTI,
        check=times("mst_little", PAPERS, (PLAIN,), low=1.02),
    ),
    Claim(
        name="priority-gains-with-brokers",
        says="priority gain increases importantly when n increases",
        where="6",
        rule="sel-sub-prt − sel-sub-nop grows at each step",
        variants=("brokers",),
        check=gap_grows("mst_little", PAPERS, PLAIN),
    ),
    Claim(
        name="priority-gains-with-slots",
        says="and slowly when k increases",
        where="6",
        rule="sel-sub-prt − sel-sub-nop grows at each step",
        variants=("slots",),
        check=gap_grows("mst_little", PAPERS, PLAIN),
    ),
    Claim(
        name="few-clients-priority",
        says="for small ρc, a case of interest, the priority gain is very small",
        where="6",
        rule="at 0.25 and 0.5 clients, sel-sub-prt / sel-sub-nop is at most 1.05",
        variants=("load",),
        check=only_at(LOW_LOADS, times("mst_little", PAPERS, (PLAIN,), high=1.05)),
    ),
    Claim(
        name="few-clients-selection",
        says="while the gain from selective caching is very large",
        where="6",
        rule="at 0.25 and 0.5 clients, sel-sub-nop / all-fld-nop is at least 1.5",
        variants=("load",),
        check=only_at(LOW_LOADS, times("mst_little", PLAIN, (YARDSTICK,), low=1.5)),
    ),
    Claim(
        name="many-clients-priority",
        says="for large ρc, a priority gain is retained",
        where="6",
        rule="at 3 and 4 clients, sel-sub-prt / sel-sub-nop is at least 1.05",
        variants=("load",),
        check=only_at(HIGH_LOADS, times("mst_little", PAPERS, (PLAIN,), low=1.05)),
    ),
    Claim(
        name="many-clients-selection",
        says="while selective caching does not offer that much",
        where="6",
        rule="at 3 and 4 clients, sel-sub-nop / all-fld-nop is at most 1.1",
        variants=("load",),
        check=only_at(HIGH_LOADS, times("mst_little", PLAIN, (YARDSTICK,), high=1.1)),
    ),
    Claim(
        name="flooding-replicates",
        says="the copying rate is higher, leading to higher replication degree",
        where="3 (section)",
        rule=f"sel-fld-prt has more copies of a message than sel-sub-prt {EVERYWHERE}",
        variants=MULTI,
        check=beats(FLOODING, (PAPERS,), {"replicas": True}),
    ),
    Claim(
        name="flooding-shortens",
        says="less messages in the system and smaller MST",
        where="3 (section)",
        rule=f"sel-fld-prt is below sel-sub-prt {EVERYWHERE}",
        variants=MULTI,
        check=beats(FLOODING, (PAPERS,), {"mst_little": False}),
    ),
    Claim(
        name="most-efficient",
        says="we propose the sel-sub-prt policy which … yields the most efficient results",
        where="8 (section)",
        rule=f"above each of the three others {EVERYWHERE}",
        variants=MULTI,
        check=beats(PAPERS, POLICIES, HIGHER),
    ),
    Claim(
        name="classes-differ",
        says="the system promotes the differentiation of the classes by reducing significantly the "
        "unpopular messages survival time",
        where="7",
        rule="at ratios from 2, popular / unpopular is at least 1.5 under sel-sub-prt",
        variants=CLASSES,
        check=only_at(RATIOS[1:], ratio("popular_mst", "unpopular_mst", (PAPERS,), low=1.5)),
    ),
    Claim(
        name="popular-gain-room",
        says="and allowing the use of cache space by the popular ones",
        where="7",
        rule="the survival time of popular messages rises with the ratio, under sel-sub-prt",
        variants=CLASSES,
        check=changes_along("popular_mst", (PAPERS,), rises=True),
    ),
    Claim(
        name="selection-differentiates",
        says="selective caching provides an important tool for differentiating",
        where="7",
        rule="at ratios from 2, popular / unpopular is at least 1.2 under sel-sub-nop",
        variants=CLASSES,
        check=only_at(RATIOS[1:], ratio("popular_mst", "unpopular_mst", (PLAIN,), low=1.2)),
    ),
    Claim(
        name="forty-percent",
        says="prioritization in the cache has a significant effect (up to 40% of improvement for "
        "ratio of 2)",
        where="7",
        rule="at a ratio of 2, sel-sub-prt / sel-sub-nop of popular messages lies in 1.3 to 1.5",
        variants=CLASSES,
        check=only_at([2], times("popular_mst", PAPERS, (PLAIN,), low=1.3, high=1.5)),
    ),
)
