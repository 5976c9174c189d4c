"""The overlay's experiments: run together, each with all that its figures and claims look at."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from tocsin.errors import InvalidInput, NotFound
from tocsin.lab.experiments import experiment_named, experiments_named
from tocsin.lab.experiments.overlay import CACHE_SIZE, DYNAMICS
from tocsin.lab.experiments.overlay import EXPERIMENTS as SIMULATED
from tocsin.lab.experiments.overlay_testbed import EXPERIMENTS as TESTBED
from tocsin.lab.experiments.overlay_testbed import TIMES
from tocsin.lab.spec.claims import judge
from tocsin.lab.spec.experiment import Experiment
from tocsin.lab.spec.plan import Options, plan
from tocsin.lab.studies.tree import of_brokers, of_load, of_slots
from tocsin.lab.sweeps.tasks import Place, perform, tasks_of
from tocsin.lab.workloads.tree import TreeLoad

EXPERIMENTS = (*SIMULATED, *TESTBED)


def test_they_are_run_together_and_one_by_one() -> None:
    assert {one.name for one in experiments_named("overlay")} == {one.name for one in EXPERIMENTS}
    assert experiments_named("overlay-slots") == [CACHE_SIZE]
    assert [one.name for one in experiments_named("return-rate")] == ["return-rate"]
    with pytest.raises(NotFound):
        experiments_named("over")
    with pytest.raises(NotFound):
        experiment_named("overlay")


def test_what_a_value_of_the_axis_means() -> None:
    load = TreeLoad(messages=20)
    assert of_load(load, 45).client_load == 0.45
    assert [of_slots(load, percent).slots for percent in (1, 5, 30, 100)] == [1, 1, 6, 20]
    assert of_brokers(load, 31).brokers == 31
    assert DYNAMICS.axis.in_words(45) == "0.45"


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda one: one.name)
def test_points_have_what_figures_and_claims_look_at(
    experiment: Experiment, tmp_path: Path
) -> None:
    small = {"runs": "3", "messages": "4"}
    variants = [experiment.variants[0].name]
    made = plan(experiment, Options(quick=True, seeds=2, settings=small, variants=variants))
    place = Place.at(tmp_path)
    points = pd.DataFrame([perform(task, place) for task in tasks_of(made)])
    for figure in experiment.figures:
        if figure.variants is None:  # others are of live points
            assert all(series.metric in points for series in figure.series)
    assert set(experiment.means) - set(TIMES) <= set(points)
    verdicts = {one.finding.verdict for one in judge(experiment.claims, points, experiment.axis)}
    assert "not tested" not in verdicts
    # The same task is the same point.
    task = tasks_of(made)[0]
    once, again = perform(task, place), perform(task, place)
    assert once["absorption_time"] == again["absorption_time"]


def test_another_policy_is_refused_before_anything_runs() -> None:
    with pytest.raises(InvalidInput, match="no policy of message caches is called 'lru'"):
        plan(CACHE_SIZE, Options(policies=["lru"]))
