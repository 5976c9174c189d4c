"""What is admitted and copied (kafka, Figures 8 to 9). It depends on no costs."""

from __future__ import annotations

from itertools import combinations

from tocsin.lab.experiments.kafka_admission.policies import BUFFER, FIVE, MEAN, NOVEL, THRESHOLD
from tocsin.lab.spec.checks import beats, both, goes_with, ordered, similar
from tocsin.lab.spec.claims import Check, Claim
from tocsin.lab.spec.levels import between, moves_with, spread_falls, steady

EVERYWHERE = "at every number of records, over paired seeds"
AGREEING = "of the pairs of the five policies that differ in both, nine of ten agree"
AROUND_0_8 = "This policy maintains an average cache hit rate around 0.8"
ABOUT_0_3 = "threshold policy has a hit rate of about 0.3"
AROUND_0_5 = "the metric for mean policy lies around 0.5"


def _alike(metric: str) -> Check:
    """Each pair of the three novel policies."""
    return both(*(similar(metric, *pair, 0.1) for pair in combinations(NOVEL, 2)))


CLAIMS = (
    Claim(
        name="all-highest-hit-rate",
        says="the cache hit rate is best when the policy is set to unlimited caching",
        where="8",
        rule=f"above each of the other four {EVERYWHERE}",
        check=beats("all", FIVE, {"hit_rate": True}),
    ),
    Claim(
        name="buffer-best-novel",
        says="the best novel policy is unanimously buffer caching",
        where="8",
        rule=f"a higher hit rate than threshold and mean {EVERYWHERE}",
        check=beats(BUFFER, (THRESHOLD, MEAN), {"hit_rate": True}),
    ),
    *(
        Claim(
            name=name,
            says=says,
            where="8",
            rule=f"the mean, with its interval, lies in {low} to {high} at every number of records",
            check=between("hit_rate", (policy,), low, high),
        )
        for name, says, policy, low, high in (
            ("buffer-around-0.8", AROUND_0_8, BUFFER, 0.75, 0.85),
            ("buffer-close-to-0.7", "for buffer policy it is close to 0.7", BUFFER, 0.65, 0.75),
            ("threshold-about-0.3", ABOUT_0_3, THRESHOLD, 0.25, 0.35),
            ("mean-around-0.5", AROUND_0_5, MEAN, 0.45, 0.55),
        )
    ),
    Claim(
        name="ends-of-hit-rate",
        says="no caching has a hit rate of 0 and unlimited caching has a hit rate of 1 as expected",
        where="8",
        rule="exactly, in every point",
        check=both(
            between("hit_rate", ("none",), 0.0, 0.0, every_seed=True),
            between("hit_rate", ("all",), 1.0, 1.0, every_seed=True),
        ),
    ),
    Claim(
        name="hit-rate-constant",
        says="cache hit rate remains nearly constant for each individual policy across different "
        "benchmarks",
        where="8",
        rule="within ± 0.03 of its mean over all numbers of records, for each of the five",
        check=steady("hit_rate", FIVE, 0.03),
    ),
    Claim(
        name="hit-rate-is-content",
        says="more hit rate means more cache content and hence, more cache size",
        where="8",
        rule=f"{AGREEING}, of hit rate and bytes written by admissions, {EVERYWHERE}",
        check=goes_with("hit_rate", "admitted_bytes", FIVE, rises=True),
    ),
    Claim(
        name="mean-and-threshold-duplicate-alike",
        says="two policies are about equivalent when strictly analyzing duplication factors … mean "
        "caching and threshold caching",
        where="9",
        rule="the difference, with its interval, is within ± 0.1 at every number of records",
        check=similar("duplication_factor", MEAN, THRESHOLD, 0.1),
    ),
    Claim(
        name="close-to-two",
        says="Both of these novel policies have duplication factors very close to the maximum of "
        "2.0",
        where="9",
        rule="the mean, with its interval, lies in 1.9 to 2 at every number of records",
        check=between("duplication_factor", (MEAN, THRESHOLD), 1.9, 2.0),
    ),
    Claim(
        name="duplication-settles",
        says="The duplication factor fluctuates for lower benchmarks values (till 2000) and then "
        "remains nearly constant throughout till 10000",
        where="9",
        rule="the deviation over seeds falls at each step, for all and for the three novel ones",
        check=spread_falls("duplication_factor", ("all", *NOVEL)),
    ),
    Claim(
        name="duplication-range",
        says="duplication factor can range between 1 (record kept only once) and 2",
        where="9",
        rule="in 1 to 2, in every point of the five",
        check=between("duplication_factor", FIVE, 1.0, 2.0, every_seed=True),
    ),
    Claim(
        name="duplication-of-nothing",
        says="Duplication factor of no caching is 1 by definition",
        where="9",
        rule="exactly, in every point",
        check=between("duplication_factor", ("none",), 1.0, 1.0, every_seed=True),
    ),
    Claim(
        name="all-duplicates-least",
        says="duplication factor for unlimited caching is significantly lower than the remaining "
        "three policies",
        where="9",
        rule=f"below each of the three {EVERYWHERE}",
        check=beats("all", NOVEL, {"duplication_factor": False}),
    ),
    Claim(
        name="all-duplicates-1.7",
        says="publications that have shared subscribers constitute 70% … and hence, duplication "
        "factor becomes (1*0.3 + 2*0.7)/1.0 = 1.7",
        where="9",
        rule="the mean, with its interval, lies in 1.65 to 1.75 at every number of records",
        check=between("duplication_factor", ("all",), 1.65, 1.75),
    ),
    Claim(
        name="three-duplicate-alike",
        says="For the other three policies that we designed, the duplication factor is high and "
        "nearly same",
        where="9",
        rule="each pair differs by at most 0.1, with its interval, at every number of records",
        check=_alike("duplication_factor"),
    ),
    Claim(
        name="order-of-shared",
        says="the fraction of shared records cached increases and follows the order: buffer policy "
        "> mean policy > threshold policy",
        where="9",
        rule=f"of the shared records, the admitted part, in that order {EVERYWHERE}",
        check=ordered("shared_hit_rate", (BUFFER, MEAN, THRESHOLD), falling=True),
    ),
    Claim(
        name="shared-content-equal",
        says="for fraction of shared publications cached (cache hit rate * duplication factor) the "
        "value is almost equal for the three",
        where="8, 9",
        rule="each pair differs by at most 0.1, with its interval, at every number of records",
        check=_alike("copies_per_record"),
    ),
    Claim(
        name="shared-explains-duplication",
        says="The fluctuation can be explained in terms of the fraction of shared publications … "
        "If the fraction is high, the duplication factor is high",
        where="9",
        rule="over seeds, the two correlate with at least 0.9 for all, at every number of records",
        check=moves_with("duplication_factor", "shared_records", ("all",), 0.9),
    ),
    Claim(
        name="threshold-fewest-and-most-shared",
        says="threshold policy performed better than mean policy which in turn was more effective "
        "than buffer policy in terms of fraction of content cached … & its sharing value",
        where="8, 9",
        rule=f"hit rates rise and duplication factors fall in that order {EVERYWHERE}",
        check=both(
            ordered("hit_rate", NOVEL, falling=False),
            ordered("duplication_factor", NOVEL, falling=True),
        ),
    ),
)
