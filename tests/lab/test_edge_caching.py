"""The claims of BAD, Figures 3 to 5 recognise a day as the paper tells it, and its opposite."""

from __future__ import annotations

import pytest

from lab.made_up import Value, ranked, table, with_bounds
from tocsin.lab.experiments.edge_caching import CLAIMS, EVICTING, EXPERIMENT, FIGURES
from tocsin.lab.spec.axis import CACHE_SIZES
from tocsin.lab.spec.claims import Claim, judge

ORDER = ("return-rate", "ttl", "lsc", "lru", "lscz", "lsd", "fifo", "gdsf", "exp")
HIT = ranked(ORDER, 0.05)


def near(value: Value) -> Value:
    """LSCz and LSD alike."""
    return lambda policy, size, seed: value("lsd" if policy == "lscz" else policy, size, seed)


def turned(value: Value) -> Value:
    return lambda policy, size, seed: 10 - value(policy, size, seed)


AS_TOLD: dict[str, Value] = {
    "hit_ratio": near(HIT),
    "hit_bytes": near(HIT),
    "miss_bytes": lambda *point: round(1e9 * turned(near(HIT))(*point)),
    "volume_bytes": lambda policy, size, seed: 1e9 + seed,
    "fetched_bytes": lambda policy, size, seed: (
        1e9 + seed + round(1e9 * turned(near(HIT))(policy, size, seed))
    ),
    "latency_mean_s": turned(near(HIT)),
    "holding_mean_s": ranked(("ttl", "lsc", "lru", "lscz", "lsd", "fifo", "gdsf", "exp"), 1.0, 90),
    "ttl_mean_s": lambda policy, size, seed: 100.0 if policy == "ttl" else 500.0,
    "cache_mean_bytes": lambda policy, size, seed: size * (1.05 if policy == "ttl" else 0.99),
    "cache_max_bytes": lambda policy, size, seed: size * (1.5 if policy == "ttl" else 1.0),
    "rho_t_bytes": lambda policy, size, seed: size * 0.99,
}
OPPOSITE: dict[str, Value] = {
    "hit_ratio": turned(HIT),
    "hit_bytes": turned(HIT),
    "miss_bytes": turned(HIT),
    "volume_bytes": lambda policy, size, seed: 1e9 + ORDER.index(policy),
    "fetched_bytes": lambda policy, size, seed: 3e9 - 1e8 * turned(HIT)(policy, size, seed),
    "latency_mean_s": HIT,
    "holding_mean_s": ranked(("exp", "lsd", "lscz", "lru", "lsc", "ttl"), 1.0, 900),
    "ttl_mean_s": lambda policy, size, seed: 100.0 if policy == "ttl" else 900.0,
    "cache_mean_bytes": lambda policy, size, seed: size * (0.5 if policy == "ttl" else 0.99),
    "cache_max_bytes": lambda policy, size, seed: size * (1.1 if policy in EVICTING else 0.9),
    "rho_t_bytes": lambda policy, size, seed: size * 0.5,
}
TENDENCIES = tuple(claim for claim in CLAIMS if claim.name.startswith("hit-ratio-with-"))
"""They may well hold on the opposite day: turn one metric alone to see them fail."""


def far(_: str, __: int, ___: int) -> float:
    return 20.0


def near_zero(_: str, __: int, ___: int) -> float:
    return 0.001


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_claim_holds_on_a_day_as_the_paper_tells_it(claim: Claim) -> None:
    points = with_bounds(table(AS_TOLD), {"hit_ratio": far, "latency_mean_s": near_zero})
    (judged,) = judge([claim], points, CACHE_SIZES)
    assert judged.finding.verdict == "reproduced", judged.finding


@pytest.mark.parametrize(
    "claim", [one for one in CLAIMS if one not in TENDENCIES], ids=lambda claim: claim.name
)
def test_claim_fails_on_the_opposite_day(claim: Claim) -> None:
    points = with_bounds(table(OPPOSITE), {"hit_ratio": near_zero, "latency_mean_s": far})
    (judged,) = judge([claim], points, CACHE_SIZES)
    assert judged.finding.verdict == "not reproduced", judged.finding


@pytest.mark.parametrize("claim", TENDENCIES, ids=lambda claim: claim.name)
def test_tendency_fails_where_the_hit_ratio_is_turned_alone(claim: Claim) -> None:
    assert len(TENDENCIES) == 4
    (judged,) = judge([claim], table(AS_TOLD | {"hit_ratio": turned(HIT)}), CACHE_SIZES)
    assert judged.finding.verdict == "not reproduced", judged.finding


def test_claims_are_judged_for_each_variant_alone() -> None:
    points = table(AS_TOLD, variants=("always", "spread"))
    points = points[(points["variant"] == "always") | (points["policy"] != "exp")]
    (claim,) = (claim for claim in CLAIMS if claim.name == "exp-lowest-hit-ratio")
    verdicts = {one.variant: one.finding.verdict for one in judge([claim], points, CACHE_SIZES)}
    assert verdicts == {"always": "reproduced", "spread": "not tested"}


def test_a_case_that_two_parts_of_a_claim_share_counts_once() -> None:
    (claim,) = (claim for claim in CLAIMS if claim.name == "latency-order")
    (judged,) = judge([claim], table(OPPOSITE), CACHE_SIZES)
    told = [(case.compared, case.at) for case in judged.finding.cases]
    assert len(told) == len(set(told)) == 2 * (len(EVICTING) + 1)


def test_every_figure_of_the_paper_is_there() -> None:
    panels = {figure.name.split("-")[0] for figure in FIGURES}
    assert {"3a", "3b", "3c", "4a", "4b", "4c", "5a", "5b"} <= panels


def test_the_full_extent_is_the_papers() -> None:
    assert EXPERIMENT.full.values[0] == 50_000_000
    assert EXPERIMENT.full.values[-1] == 500_000_000
    assert 6 * len(EXPERIMENT.full.values) * EXPERIMENT.full.seeds == 600
    assert {*EVICTING, "ttl"} <= set(EXPERIMENT.policies)
    assert [variant.settings["joining"] for variant in EXPERIMENT.variants] == ["always", "spread"]
