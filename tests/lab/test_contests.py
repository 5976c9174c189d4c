"""Cell by cell: a win is over everybody, a loss to anybody is a loss, and the nearest is named."""

from __future__ import annotations

import msgspec
import pytest

from lab.made_up import Value, table
from tocsin.lab.experiments.return_rate import CLAIMS
from tocsin.lab.reports.contests import LOST, TIED, WON, contests, winners
from tocsin.lab.spec.axis import CACHE_SIZES
from tocsin.lab.spec.claims import Claim, Judged, judge
from tocsin.lab.spec.experiment import Winners

OTHERS = {"lru": -0.3, "lsc": -0.1}


def judged(apart: dict[str, float], *, noisy: bool = False, seeds: int = 3) -> list[Judged]:
    """Everybody's hit ratio and latency, by how far each is above return-rate's."""

    def value(policy: str, size: int, seed: int) -> float:
        wobble = 1.0 * (-1) ** seed if noisy and policy == "lsc" else 0.0
        return 2.0 + apart.get(policy, 0.0) + wobble + seed * 0.5

    values: dict[str, Value] = {"hit_ratio": value, "latency_mean_s": value}
    names = ("return-rate", *apart)
    points = table(values, policies=names, seeds=seeds, variants=("always", "town"))
    return judge(CLAIMS, points, CACHE_SIZES)


def cell(found: list[Judged], claim: int = 0) -> str:
    """Of the first variant and size."""
    return contests(found)[claim].rows[0][1]


def test_rows_are_variants_and_columns_sizes() -> None:
    hits, latency = contests(judged(OTHERS))
    assert hits.columns == latency.columns == ["variant", "50 MB", "100 MB"]
    assert [row[0] for row in hits.rows] == ["always", "town"]
    assert (hits.says, latency.says) == (CLAIMS[0].says, CLAIMS[1].says)


def test_a_win_is_over_everybody_and_names_the_nearest() -> None:
    assert cell(judged(OTHERS)) == f"{WON} lsc +0.1000 [+0.1000, +0.1000]"


def test_one_rival_ahead_is_a_loss_and_the_furthest_is_named() -> None:
    assert cell(judged({"lru": 0.1, "lsc": -0.3, "ttl": 0.2})).startswith(f"{LOST} ttl −0.2000 [")


@pytest.mark.parametrize("seeds", [2, 4])
def test_what_the_seeds_do_not_tell_is_a_tie(seeds: int) -> None:
    assert cell(judged(OTHERS, noisy=True, seeds=seeds)).startswith(f"{TIED} lsc +0.1000 [−")


def test_less_latency_wins() -> None:
    assert cell(judged({"lru": 0.3, "lsc": 0.1}), claim=1).startswith(f"{WON} lsc −0.1000 [")
    assert cell(judged(OTHERS), claim=1).startswith(f"{LOST} lru +0.3000 [")
    assert cell(judged({"lsc": 0.005}), claim=1) == f"{WON} lsc −5.000 [−5.000, −5.000] ms"


def test_a_policy_of_several_families_keeps_its_whole_name() -> None:
    assert cell(judged({"admit=mean(3) evict=lsc": -0.1})).startswith(
        f"{WON} admit=mean(3) evict=lsc +0.1000"
    )


def test_only_our_own_contests_are_shown() -> None:
    theirs = [msgspec.structs.replace(one, claim=_theirs(one)) for one in judged(OTHERS)]
    assert contests(theirs) == []


def _theirs(one: Judged) -> Claim:
    return msgspec.structs.replace(one.claim, own=False)


def test_one_seed_is_taken_at_its_word() -> None:
    assert cell(judged(OTHERS, seeds=1)) == f"{WON} lsc +0.1000"


@pytest.mark.parametrize(
    ("more", "wobble", "winner"),
    [
        (True, 0.0, "lsc"),
        (False, 0.0, "lru"),
        (True, 1.0, "lsc or lru"),  # one seed says this, the next one that
        (False, 1.0, "lru or lsc"),
    ],
)
def test_the_winner_is_named_and_those_that_seeds_do_not_tell_from_it(
    more: bool, wobble: float, winner: str
) -> None:
    def value(policy: str, size: int, seed: int) -> float:
        return float(seed + {"lru": 0.1, "lsc": 0.2 + wobble * (-1) ** seed, "exp": 0.15}[policy])

    points = table({"hit_ratio": value}, policies=("lru", "lsc", "exp"), seeds=4)
    asked = Winners(title="winners", policies=("lsc", "lru"), metric="hit_ratio", more=more)
    found = winners(asked, points, CACHE_SIZES)
    assert found.columns == ["variant", "50 MB", "100 MB"]
    assert [row[1:] for row in found.rows] == [[winner, winner]] * len(found.rows)
