"""The delivery paper's experiment has all that its figures and claims look at."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from tocsin.errors import SettingError
from tocsin.lab.experiments import experiment_named
from tocsin.lab.experiments.page_delivery import EXPERIMENT
from tocsin.lab.spec.claims import judge
from tocsin.lab.spec.plan import Options, plan
from tocsin.lab.studies.pages import PAGES, Caches, bound, play
from tocsin.lab.sweeps.tasks import Place, perform, tasks_of
from tocsin.lab.workloads.pages.news import News, NewsSettings, news

SMALL = NewsSettings(servers=3, requests=3_000, notified=1.0, quality=1.0)


def test_points_have_what_figures_and_claims_look_at(tmp_path: Path) -> None:
    assert experiment_named("page-delivery") is EXPERIMENT
    small = {"servers": "2", "requests": "500", "pages": "300", "stories": "60"}
    made = plan(EXPERIMENT, Options(quick=True, seeds=2, settings=small))
    place = Place.at(tmp_path)
    points = pd.DataFrame([perform(task, place) for task in tasks_of(made)])
    for figure in EXPERIMENT.figures:
        assert all(series.metric in points for series in figure.series)
    assert set(EXPERIMENT.means) <= set(points)
    judged = judge(EXPERIMENT.claims, points, EXPERIMENT.axis)
    # The quick look leaves out some qualities, none of the claims.
    assert "not tested" not in {one.finding.verdict for one in judged}


def test_bound_and_our_policy_stand_in_every_figure_and_nobody_passes_it() -> None:
    for figure in EXPERIMENT.figures:
        assert figure.bound == "gain"
        assert "learned-demand" in (figure.series[0].policies or ())
    made = news(SMALL, 1)
    best = bound(made, 100, Caches())
    for policy in EXPERIMENT.policies:
        found = play(made, policy, 100, Caches())
        assert found["miss_ratio"] >= best["best_miss_ratio"]
        assert found["gain"] <= best["best_gain"]
    assert best["reached_gain"] <= best["best_gain"] < 1
    assert best["reached_hit_ratio"] == pytest.approx(1 - best["reached_miss_ratio"])
    base = play(made, "gdstar", 100, Caches())["miss_ratio"]
    assert best["best_gain"] == pytest.approx(1 - best["best_miss_ratio"] / base)


def test_held_out_seeds_are_others_than_those_of_the_paper() -> None:
    ours = experiment_named("learned-demand")
    assert ours.full.first_seed > EXPERIMENT.full.first_seed + EXPERIMENT.full.seeds
    assert plan(ours, Options()).points > 5000
    papers = {one.name: one.settings for one in EXPERIMENT.variants}
    assert all(papers[one.name] == one.settings for one in ours.variants if one.name in papers)


@pytest.mark.parametrize(("notified", "quality"), [(1.0, 1.0), (1.0, 0.1), (0.25, 0.1)])
def test_learned_demand_learns_how_far_subscriptions_can_be_trusted(
    notified: float, quality: float
) -> None:
    """Where all are trusted HUG is good, where few are DC: this is at least as good as either."""
    made = news(NewsSettings(servers=4, requests=8_000, notified=notified, quality=quality), 5)
    found = {p: play(made, p, 100, Caches())["miss_ratio"] for p in ("hug", "dc", "learned-demand")}
    assert found["learned-demand"] <= min(found["hug"], found["dc"]) + 0.001


def test_gain_is_the_part_of_gdstars_misses_that_is_spared() -> None:
    made = news(SMALL, 1)
    base, hug = (play(made, policy, 100, Caches()) for policy in ("gdstar", "hug"))
    assert base["gain"] == 0
    assert hug["gain"] == pytest.approx(1 - hug["miss_ratio"] / base["miss_ratio"])
    assert hug["gain"] == play(made, "rsg2", 100, Caches())["gain"]  # F = 1: they are the same


def test_odt_is_the_best_of_the_shares() -> None:
    made = news(SMALL, 1)
    found = play(made, "odt", 100, Caches())
    gains = {phi: play(made, f"dc-ta({phi})", 100, Caches())["gain"] for phi in (0, 0.5, 1)}
    assert found["gain"] >= max(gains.values())
    assert found["phi"] in (0, 0.25, 0.5, 0.75, 1)


def test_beta_of_the_surroundings_is_every_policys() -> None:
    made = news(SMALL, 1)
    for policy, same in (("gdstar", "gdstar(2)"), ("dc", "dc(2)"), ("dc-ta", "dc-ta(0.5,2)")):
        by_caches = play(made, policy, 100, Caches(beta=2.0))
        assert by_caches["miss_ratio"] == play(made, same, 100, Caches())["miss_ratio"]


def test_workloads_are_kept(tmp_path: Path) -> None:
    made = news(SMALL, 1)
    made.save(tmp_path)
    again = News.load(tmp_path)
    assert play(again, "dc", 100, Caches())["hits"] == play(made, "dc", 100, Caches())["hits"]


def test_unknown_policies_are_refused() -> None:
    with pytest.raises(SettingError):
        PAGES.functions("best")
