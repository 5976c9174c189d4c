"""Points of the overlay paper's testbed on live brokers are planned, kept, predicted and reported;
the core itself stands for the brokers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tocsin.lab.experiments.overlay_testbed import LOADS, SIZES
from tocsin.lab.live.brokers import form
from tocsin.lab.live.brokers.player import Played
from tocsin.lab.reports.curves import panels
from tocsin.lab.reports.kinds import label_kinds
from tocsin.lab.running import Done, run_experiment
from tocsin.lab.simulators.overlay.visits import Foretold
from tocsin.lab.spec.plan import Options, Plan, plan
from tocsin.lab.spec.study import BrokenPromise
from tocsin.lab.workloads.visits import Visits

HERE_S, HOP_S = 0.001, 0.004


class Quiet:
    def begin(self, what: str, total: int) -> None: ...

    def advance(self, count: int) -> None: ...


class CorePlayer:
    """Answers as foretold, after a time for each hop."""

    def __init__(self) -> None:
        self.played: list[tuple[str, int, float]] = []

    def play(self, visits: Visits, policy: Any, foretold: Foretold, *, speed: float) -> Played:
        if visits.load.messages != form.WARM_UP["messages"]:
            self.played.append((policy.text, visits.load.slots, speed))
        hops = foretold.answers.hops
        took_s = np.where(foretold.answers.answered, HERE_S + HOP_S * hops, np.nan)
        return Played(answers=foretold.answers, took_s=took_s, late_s=np.zeros(len(hops)))


@pytest.fixture
def player(monkeypatch: pytest.MonkeyPatch) -> CorePlayer:
    one = CorePlayer()

    @contextmanager
    def staged(_: Any, brokers: int) -> Iterator[CorePlayer]:
        assert brokers == 7
        yield one

    monkeypatch.setattr(form, "staged", staged)
    return one


def planned(experiment: Any = LOADS, **options: Any) -> Plan:
    return plan(experiment, Options(live=True, **options))


def run(made: Plan, directory: Path, experiment: Any = LOADS) -> Done:
    return run_experiment(experiment, made, directory, Quiet())


def test_a_quick_look_is_a_few_points_of_the_shorter_runs() -> None:
    made = planned(quick=True)
    assert (made.points, made.variants) == (4, ("100 s",))
    load, runs = made.configs["100 s"].workload, made.configs["100 s"].environment
    assert (load.messages, load.slots, load.duration_s, runs.speed) == (10, 3, 100.0, 2.0)
    assert planned(variants=["350 s"], quick=True).variants == ("350 s",)
    assert planned().points == 18


def test_points_are_kept_predicted_and_judged(player: CorePlayer, tmp_path: Path) -> None:
    run(planned(values=[60], quick=True), tmp_path)
    done = run(planned(quick=True), tmp_path)
    assert (done.there, done.computed, done.failures) == (4, 2, [])
    assert player.played == [("sel-sub-fifo", 3, 2.0), ("leaf-sub-fifo", 3, 2.0)] * 2
    points = pd.read_parquet(tmp_path / "points.parquet")
    assert points["kind"].value_counts().to_dict() == {"live": 4, "prediction": 4}
    for _, cell in points.groupby(["policy", "load"]):
        for measure in ("delivery_ratio", "responses", "hops", "absorption_time"):
            assert cell[measure].nunique() == 1
        assert np.ptp(cell["delay_s"]) == pytest.approx(0.0, abs=1e-9)
    predicted = points[points["kind"] == "prediction"]
    assert predicted["cost_hop_s"].to_numpy() == pytest.approx(HOP_S)
    assert predicted["cost_here_s"].to_numpy() == pytest.approx(HERE_S)
    live = points[points["kind"] == "live"]
    assert (live["as_foretold"] == 1.0).all()
    assert live["hop_s"].to_numpy() == pytest.approx(HOP_S)
    assert done.report is not None
    verdicts = {(one.claim.name, one.variant): one.finding.verdict for one in done.report.judged}
    for claim in (
        *("basic-is-always-faster", "basic-answers-sooner", "leaf-responds-less"),
        *("delay-is-hops", "live-delivery-ratio-as-simulated", "live-responses-as-simulated"),
    ):
        assert verdicts[claim, "100 s, live"] == "reproduced", claim
    assert verdicts["basic-answers-sooner", "100 s, predicted"] == "reproduced"
    assert "hop_s=0.004" in (tmp_path / "report.md").read_text()
    figure = next(one for one in LOADS.figures if one.name == "6-delay-live")
    (panel,) = panels(figure, label_kinds(points), LOADS.axis)
    assert [curve.dash for curve in panel.curves] == ["solid"] * 2 + ["dashed"] * 2


def test_caches_of_live_brokers_are_as_large_as_the_axis_says(
    player: CorePlayer, tmp_path: Path
) -> None:
    run(planned(SIZES, quick=True, policies=["basic"]), tmp_path, SIZES)
    assert [slots for _, slots, _ in player.played] == [1, 10]


def test_ctrl_c_keeps_what_was_played_and_a_broken_promise_is_told(
    player: CorePlayer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = player.play

    def stops(*given: Any, **how: Any) -> Played:
        if len(player.played) == 1:
            raise KeyboardInterrupt
        return play(*given, **how)

    monkeypatch.setattr(player, "play", stops)
    made = planned(values=[20], quick=True)
    done = run(made, tmp_path)
    assert (done.there, done.interrupted) == (1, True)

    def breaks(visits: Visits, policy: Any, *given: Any, **how: Any) -> Played:
        if policy.text == "leaf-sub-fifo":
            raise BrokenPromise("messages cached: 3 instead of 4")
        return play(visits, policy, *given, **how)

    monkeypatch.setattr(player, "play", breaks)
    done = run(made, tmp_path)
    assert done.failures == ["leaf: messages cached: 3 instead of 4 (1 points)"]
    monkeypatch.setattr(player, "play", play)
    assert run(made, tmp_path).there == 2
    assert len(player.played) == 2


def test_a_hop_costs_nothing_where_all_is_found_at_one_distance() -> None:
    assert form.hop_costs([1, 1], [0.002, 0.004]) == pytest.approx((0.003, 0.0))
    assert form.hop_costs([], []) == (0.0, 0.0)
