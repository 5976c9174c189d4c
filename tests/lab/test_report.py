"""Figures, claims and report come from the table of points alone, whatever it has."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from lab.made_up import POLICIES, Value, ranked, table, with_bounds
from tocsin.errors import TocsinError
from tocsin.lab.experiments import return_rate
from tocsin.lab.experiments.edge_caching import EXPERIMENT, FIGURES
from tocsin.lab.reports.curves import panels
from tocsin.lab.reports.report import write_report
from tocsin.lab.spec.axis import CACHE_SIZES
from tocsin.lab.spec.figures import Figure, Series
from tocsin.lab.spec.plan import Options, plan
from tocsin.lab.sweeps.points import write_points

HIT = ranked(POLICIES, 0.05)
METRICS = """hit_ratio hit_bytes miss_bytes volume_bytes fetched_bytes latency_mean_s
    holding_mean_s ttl_mean_s cache_mean_bytes cache_max_bytes rho_t_bytes"""
VALUES: dict[str, Value] = dict.fromkeys(METRICS.split(), HIT)
BOUNDS: dict[str, Value] = {"hit_ratio": lambda *_: 5.0, "latency_mean_s": lambda *_: 0.1}


def saved(directory: Path, points: pd.DataFrame, **options: Any) -> Path:
    rows: list[dict[str, Any]] = [
        {str(name): value for name, value in row.items() if value == value}
        for row in points.to_dict("records")
    ]
    write_points(directory, rows, plan(EXPERIMENT, Options(**options)).conditions)
    return directory


def figure(**fields: Any) -> Figure:
    return Figure(name="one", title="One", axis="share", **fields)


def test_everything_is_made_from_the_table_alone(tmp_path: Path) -> None:
    points = with_bounds(table(VALUES, variants=("always", "spread")), BOUNDS)
    saved(tmp_path, points, settings={"skew": "0.8"})
    made = write_report(tmp_path)
    assert made.points == len(points)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "claims.md",
        "claims.parquet",
        "figures",
        "points.parquet",
        "report.html",
        "report.md",
    ]
    for one in FIGURES:
        image = (tmp_path / "figures" / f"{one.name}.png").read_bytes()
        assert image.startswith(b"\x89PNG")
    still = (tmp_path / "report.md").read_text()
    assert "skew=0.8" in still
    assert all(f"figures/{one.name}.png" in still for one in FIGURES)
    claims = (tmp_path / "claims.md").read_text()
    for claim in EXPERIMENT.claims:
        assert claim.says.split("|")[0] in claims
        assert claim.rule in claims
    cases = pd.read_parquet(tmp_path / "claims.parquet")
    assert set(cases["claim"]) == {claim.name for claim in EXPERIMENT.claims}
    assert {"variant", "verdict", "value", "low", "high", "holds", "at"} <= set(cases)


def test_page_needs_no_network(tmp_path: Path) -> None:
    write_report(saved(tmp_path, table(VALUES)))
    page = (tmp_path / "report.html").read_text()
    assert "<script src=" not in page
    assert "<link" not in page.split("<body>")[0].replace(page.split("<script>")[1], "")
    assert page.count("Plotly.newPlot(") >= len(FIGURES)
    assert all(f'id="figure-{one.name}"' in page for one in FIGURES)


def test_one_seed_and_few_policies_still_make_a_report(tmp_path: Path) -> None:
    made = write_report(saved(tmp_path, table(VALUES, policies=("lsc", "mine<b>"), seeds=1)))
    verdicts = {one.claim.name: one.finding.verdict for one in made.judged}
    assert verdicts["ttl-highest-hit-ratio"] == "not tested"
    assert "no points of ttl" in (tmp_path / "claims.md").read_text()
    assert "mine<b>" not in (tmp_path / "report.html").read_text().split("<h2>Hit ratio</h2>")[1]


def test_where_our_own_claim_fails_is_listed_in_full(tmp_path: Path) -> None:
    write_report(saved(tmp_path, table(VALUES)))  # return-rate is the last of all here
    claims = (tmp_path / "claims.md").read_text()
    section = claims.split("### return-rate-hit-ratio, variant always: does not hold")[1]
    section = section.split("###")[0]
    for rival in POLICIES[:-1]:
        for size in ("50 MB", "100 MB"):
            assert f"return-rate − {rival} hit_ratio at {size} −" in section


def test_claims_are_counted_for_each_variant(tmp_path: Path) -> None:
    made = write_report(saved(tmp_path, table(VALUES, variants=("always", "spread"))))
    words = [
        one.finding.verdict
        for one in made.judged
        if one.variant == "spread" and not one.claim.own and one.finding.verdict == "reproduced"
    ]
    told = f"Of the paper's claims, variant “spread”: {len(words)} reproduced, "
    for name in ("claims.md", "report.md", "report.html"):
        assert told in (tmp_path / name).read_text().replace("&#x27;", "'"), name


def test_many_variants_stand_in_rows_of_three(tmp_path: Path) -> None:
    variants = [variant.name for variant in return_rate.EXPERIMENT.variants]
    conditions = plan(return_rate.EXPERIMENT, Options()).conditions
    rows: list[dict[str, Any]] = table(VALUES, variants=variants).to_dict("records")  # type: ignore[assignment]
    write_points(tmp_path, rows, conditions)
    write_report(tmp_path)
    wide, high = struct.unpack(
        ">II", (tmp_path / "figures" / "latency-against-return-rate.png").read_bytes()[16:24]
    )
    assert 1.0 < wide / high < 2.0  # 8 panels in one row would be 8 times as wide as high
    page = (tmp_path / "report.html").read_text()
    assert all(f"variant: {name}" in page for name in variants)
    for text in (page, (tmp_path / "report.md").read_text()):
        assert "Cell by cell: return-rate has a higher hit ratio than every other policy" in text


def test_points_of_an_experiment_that_is_gone_are_refused(tmp_path: Path) -> None:
    conditions = plan(EXPERIMENT, Options()).conditions
    rows: list[dict[str, Any]] = table(VALUES).to_dict("records")  # type: ignore[assignment]
    write_points(tmp_path, rows, type(conditions)(
        experiment="older", quick=False, axis="size_bytes", variants={}
    ))  # fmt: skip
    with pytest.raises(TocsinError, match="older"):
        write_report(tmp_path)


def test_curve_is_the_mean_over_seeds_with_its_band() -> None:
    points = table({"hit_ratio": lambda policy, size, seed: seed / 10}, policies=("lru",))
    ((curve,),) = (panel.curves for panel in panels(_hits(), points, CACHE_SIZES))
    assert curve.xs == [50, 100]
    assert curve.mean == pytest.approx([0.2, 0.2])
    assert curve.high[0] - curve.mean[0] == pytest.approx(0.1 * 4.3027 / 3**0.5, rel=1e-4)


def test_pooled_curve_takes_seeds_not_policies_as_samples() -> None:
    points = table({"volume_bytes": lambda policy, size, seed: seed * 1e9})
    shown = figure(series=(Series(metric="volume_bytes", label="Vol", pooled=True),), unit=1e9)
    ((curve,),) = (panel.curves for panel in panels(shown, points, CACHE_SIZES))
    assert curve.label == "Vol"
    assert curve.mean == pytest.approx([2, 2])
    assert curve.high[0] - 2 == pytest.approx(4.3027 / 3**0.5, rel=1e-4)


def test_difference_is_paired() -> None:
    points = table(
        {"hit_ratio": lambda policy, size, seed: seed + (0.1 if policy == "lsc" else 0.0)},
        policies=("lru", "lsc"),
    )
    shown = figure(series=(Series(metric="hit_ratio", against="lru"),), bound="hit_ratio")
    bounded = with_bounds(points, {"hit_ratio": lambda *_: 1.5})
    (panel,) = panels(shown, bounded, CACHE_SIZES)
    (curve,) = panel.curves
    assert curve.policy == "lsc"
    assert curve.high == pytest.approx([0.1, 0.1])
    assert panel.bound is not None
    assert panel.bound.best == pytest.approx([0.5, 0.5])  # seed 1 has 1.0


def test_bound_in_the_table_of_means_is_moved_too(tmp_path: Path) -> None:
    values: dict[str, Value] = {"hit_ratio": lambda policy, size, seed: seed / 10}
    points = with_bounds(table(values), {"hit_ratio": lambda *_: 0.15})
    write_report(saved(tmp_path, points))
    assert "| always | (bound) | 0.2500 | 0.2500 |" in (tmp_path / "report.md").read_text()


def test_bound_of_a_few_seeds_is_moved_to_the_mean_of_all() -> None:
    points = with_bounds(table({"hit_ratio": lambda policy, size, seed: seed / 10}), {
        "hit_ratio": lambda *_: 0.15
    })  # fmt: skip
    (panel,) = panels(_hits(), points, CACHE_SIZES)
    assert panel.bound is not None
    assert panel.bound.best == pytest.approx([0.25, 0.25])  # seed 1 is 0.1 below the mean


def test_variant_without_the_metric_has_no_panel() -> None:
    assert panels(figure(series=(Series(metric="nothing"),)), table(VALUES), CACHE_SIZES) == []


def _hits() -> Figure:
    return figure(series=(Series(metric="hit_ratio"),), bound="hit_ratio")
