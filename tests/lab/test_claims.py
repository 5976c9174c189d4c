"""A claim is judged by paired differences: it holds, holds partly, fails, or cannot be tested."""

from __future__ import annotations

import pandas as pd
import pytest

from lab.made_up import SIZES, Value, ranked, table
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
)
from tocsin.lab.spec.claims import Check, Finding, View
from tocsin.lab.spec.statistics import estimate

SMALL, LARGE = SIZES
UP = ("ttl", "lsc", "lru", "exp")


def judged(check: Check, points: pd.DataFrame) -> Finding:
    return check(View(points, "always", CACHE_SIZES))


def one(policy_values: dict[str, float]) -> Value:
    """A constant for each policy, plus what all policies of a seed share."""
    return lambda policy, size, seed: policy_values.get(policy, 0.0) + seed * 0.1


def test_interval_is_students() -> None:
    found = estimate([1.0, 2.0, 3.0])
    assert found.mean == pytest.approx(2.0)
    assert found.high - found.mean == pytest.approx(4.3027 / 3**0.5, rel=1e-4)
    assert estimate([1.0]).certain is False
    assert estimate([float("nan")]).seeds == 0


def test_one_seed_is_judged_by_its_value() -> None:
    points = table({"hit_ratio": one({"ttl": 0.2, "lsc": 0.1})}, seeds=1)
    assert judged(beats("ttl", ["lsc"], {"hit_ratio": True}), points).verdict == "reproduced"
    assert judged(beats("lsc", ["ttl"], {"hit_ratio": True}), points).verdict == "not reproduced"


def test_differences_are_paired_by_seed() -> None:
    """Seeds differ by 0.1, the policies by 0.01: only pairs can tell."""
    points = table({"hit_ratio": one({"ttl": 0.01})})
    finding = judged(beats("ttl", ["lsc"], {"hit_ratio": True}), points)
    assert finding.verdict == "reproduced"
    assert finding.cases[0].value.mean == pytest.approx(0.01)
    points = points.sample(frac=1, random_state=1)  # in whatever order the points came
    assert judged(beats("ttl", ["lsc"], {"hit_ratio": True}), points) == finding


def test_undecided_difference_does_not_hold() -> None:
    def noisy(policy: str, size: int, seed: int) -> float:
        return 0.5 + (0.01 if policy == "ttl" else 0.0) * (-2 if seed == 1 else 2)

    finding = judged(beats("ttl", ["lsc"], {"hit_ratio": True}), table({"hit_ratio": noisy}))
    assert finding.cases[0].value.mean > 0
    assert finding.verdict == "not reproduced"


def test_partly_names_the_sizes_where_all_cases_hold() -> None:
    def crossing(policy: str, size: int, seed: int) -> float:
        return 0.5 + (0.1 if (policy == "ttl") == (size == SMALL) else 0.0) + seed * 0.1

    finding = judged(
        beats("ttl", ["lsc", "lru"], {"hit_ratio": True}), table({"hit_ratio": crossing})
    )
    assert finding.verdict == "partly"
    assert finding.groups == {"50 MB": True, "100 MB": False}


def test_winner_must_beat_every_rival_in_every_metric() -> None:
    better = {"hit_ratio": True, "latency_mean_s": False}
    values = {"hit_ratio": ranked(UP, 0.1), "latency_mean_s": ranked(UP[::-1], 0.1)}
    assert judged(beats("ttl", ["lsc", "exp"], better), table(values)).verdict == "reproduced"
    values["latency_mean_s"] = ranked(UP, 0.1)
    assert judged(beats("ttl", ["lsc", "exp"], better), table(values)).verdict == "not reproduced"


def test_rivals_of_ours_are_all_that_were_run() -> None:
    points = table(
        {"hit_ratio": ranked(("return-rate", "mine"), 0.1)}, policies=("mine", "return-rate", "lru")
    )
    finding = judged(beats("return-rate", None, {"hit_ratio": True}), points)
    assert {case.compared for case in finding.cases} == {"return-rate − mine", "return-rate − lru"}


@pytest.mark.parametrize(("rises", "verdict"), [(True, "reproduced"), (False, "not reproduced")])
def test_growth_is_asked_of_each_step(rises: bool, verdict: str) -> None:
    points = table({"hit_ratio": ranked(UP, 0.1)})
    finding = judged(changes_along("hit_ratio", UP, rises=rises), points)
    assert finding.verdict == verdict
    assert set(finding.groups) == set(UP)


def test_growth_needs_two_sizes() -> None:
    points = table({"hit_ratio": ranked(UP, 0.1)}, sizes=(SMALL,))
    finding = judged(changes_along("hit_ratio", UP, rises=True), points)
    assert finding.verdict == "not tested"
    assert "two sizes" in finding.missing


def test_order_compares_neighbours() -> None:
    points = table({"latency_mean_s": ranked(UP, 0.1)})
    assert judged(ordered("latency_mean_s", UP, falling=True), points).verdict == "reproduced"
    assert judged(ordered("latency_mean_s", UP, falling=False), points).verdict == "not reproduced"
    swapped = ("lsc", "ttl", "lru")
    assert judged(ordered("latency_mean_s", swapped, falling=True), points).verdict == (
        "not reproduced"
    )


@pytest.mark.parametrize(("apart", "verdict"), [(0.009, "reproduced"), (0.011, "not reproduced")])
def test_similar_is_within_the_tolerance(apart: float, verdict: str) -> None:
    points = table({"hit_ratio": one({"lscz": apart})})
    assert judged(similar("hit_ratio", "lscz", "lsd", 0.01), points).verdict == verdict


def test_metrics_go_with_each_other_in_nine_of_ten_pairs() -> None:
    values = {"hit_ratio": ranked(UP, 0.1), "miss_bytes": ranked(UP[::-1], 0.1)}
    assert judged(goes_with("hit_ratio", "miss_bytes", UP, rises=False), table(values)).verdict == (
        "reproduced"
    )
    values["miss_bytes"] = ranked(("exp", "lru", "ttl", "lsc"), 0.1)  # one of six pairs is wrong
    finding = judged(goes_with("hit_ratio", "miss_bytes", UP, rises=False), table(values))
    assert finding.verdict == "not reproduced"
    assert finding.cases[0].value.mean == pytest.approx(5 / 6)


def test_ratio_to_the_allowed_size() -> None:
    points = table(
        {"cache_max_bytes": lambda policy, size, seed: size * (1.2 if policy == "ttl" else 1)}
    )
    within = ratio("cache_max_bytes", AXIS, ("lru", "lsc"), high=1.0, every_seed=True)
    assert judged(within, points).verdict == "reproduced"
    within = ratio("cache_max_bytes", AXIS, ("ttl",), high=1.0, every_seed=True)
    assert judged(within, points).verdict == "not reproduced"


def test_every_seed_means_every_seed() -> None:
    def once_over(policy: str, size: int, seed: int) -> float:
        return size * (1.001 if seed == 2 else 0.5)

    points = table({"cache_max_bytes": once_over})
    strict = ratio("cache_max_bytes", AXIS, ("lru",), high=1.0, every_seed=True)
    assert judged(strict, points).verdict == "not reproduced"


def test_nearer_to_one_looks_at_both_sides() -> None:
    def held(policy: str, size: int, seed: int) -> float:
        return {"ttl": 1.2, "lsc": 0.5}.get(policy, 1.0) + seed * 0.001

    values: dict[str, Value] = {"holding_mean_s": held, "ttl_mean_s": lambda *_: 1.0}
    nearer = nearer_to_one("holding_mean_s", "ttl_mean_s", "ttl", "lsc")
    assert judged(nearer, table(values)).verdict == "reproduced"
    nearer = nearer_to_one("holding_mean_s", "ttl_mean_s", "lsc", "ttl")
    assert judged(nearer, table(values)).verdict == "not reproduced"


def test_parts_add_up_to_the_byte_and_the_base_is_everybodys() -> None:
    values: dict[str, Value] = {
        "volume_bytes": lambda policy, size, seed: 1e9 + seed,
        "miss_bytes": lambda policy, size, seed: 7.0,
        "fetched_bytes": lambda policy, size, seed: 1e9 + seed + 7,
    }
    check = adds_up("fetched_bytes", ("volume_bytes", "miss_bytes"), ("lru", "lsc"))
    assert judged(check, table(values)).verdict == "reproduced"
    off_by_one = values | {"miss_bytes": lambda policy, size, seed: 8.0}
    assert judged(check, table(off_by_one)).verdict == "not reproduced"
    own_base = values | {
        "volume_bytes": lambda policy, size, seed: 1e9 + len(policy + "x"),
        "fetched_bytes": lambda policy, size, seed: 1e9 + len(policy + "x") + 7,
    }
    other = adds_up("fetched_bytes", ("volume_bytes", "miss_bytes"), ("lru", "lscz"))
    assert judged(other, table(own_base)).verdict == "not reproduced"


def test_what_the_table_lacks_is_named() -> None:
    points = table({"hit_ratio": ranked(UP, 0.1)}, policies=("lru", "lsc"))
    finding = judged(beats("ttl", ["lru"], {"hit_ratio": True}), points)
    assert (finding.verdict, finding.missing) == ("not tested", "no points of ttl")
    finding = judged(beats("lru", ["lsc"], {"latency_mean_s": True}), points)
    assert (finding.verdict, finding.missing) == ("not tested", "no column latency_mean_s")
    joined = both(
        beats("lsc", ["lru"], {"hit_ratio": True}), beats("ttl", ["lru"], {"hit_ratio": True})
    )
    assert judged(joined, points).verdict == "not tested"


def test_sizes_that_one_policy_was_not_run_at_are_left_out() -> None:
    points = table({"hit_ratio": ranked(UP, 0.1)})
    points = points[(points["policy"] != "lru") | (points["size_bytes"] == SMALL)]
    finding = judged(beats("lsc", ["lru"], {"hit_ratio": True}), points)
    assert finding.groups == {"50 MB": True}
