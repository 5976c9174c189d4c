"""Live points are planned, kept, predicted and reported; a simulated player stands for the live
one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from lab.admission.as_seen import SimulatedPlayer
from tocsin.errors import InvalidInput
from tocsin.lab.experiments import experiment_named
from tocsin.lab.experiments.kafka_admission import EXPERIMENT
from tocsin.lab.experiments.kafka_admission.policies import FIVE
from tocsin.lab.live.consumer_logs import form
from tocsin.lab.live.consumer_logs.player import OfferPlayer
from tocsin.lab.reports.curves import panels
from tocsin.lab.reports.kinds import label_kinds
from tocsin.lab.running import Done, run_experiment
from tocsin.lab.simulators.consumer_logs import Logs
from tocsin.lab.spec.plan import Options, Plan, plan
from tocsin.lab.spec.study import BrokenPromise
from tocsin.lab.sweeps.points import Store
from tocsin.lab.sweeps.tasks import Place, perform, tasks_of
from tocsin.lab.workloads.offers import PaperSettings, paper_offers
from tocsin.policies import parse_admission

AUTHORS = Path(__file__).parents[2] / "policies" / "data" / "cs237_test1000_1.csv"


class Quiet:
    def begin(self, what: str, total: int) -> None: ...

    def advance(self, count: int) -> None: ...


def planned(**options: Any) -> Plan:
    return plan(EXPERIMENT, Options(**({"live": True} | options)))


@pytest.fixture
def player(monkeypatch: pytest.MonkeyPatch) -> SimulatedPlayer:
    one = SimulatedPlayer()

    @contextmanager
    def staged(*_: Any, **how: Any) -> Iterator[SimulatedPlayer]:
        assert how["mark_s"] == form.MARK_S
        yield one

    monkeypatch.setattr(form, "staged", staged)
    return one


def run(made: Plan, directory: Path) -> Done:
    return run_experiment(EXPERIMENT, made, directory, Quiet())


def test_studies_of_parameters_are_played_at_their_one_number_of_records() -> None:
    made = planned()
    tasks = tasks_of(made)
    assert len(tasks) == made.points == 5 * 4 + 18
    assert {task.kind for task in tasks} == {"live"}
    assert {task.value for task in tasks if task.policy not in FIVE} == {1000}
    assert "38 live points" in made.summary
    assert planned(policies=["mean(20)"]).points == 4  # who asks for it gets it everywhere
    assert planned(data=AUTHORS, variants=["data"]).points == 23
    assert planned(quick=True).points == 5 * 2 + 18
    assert planned(variants=["half", "printed"], seeds=2).points == 4 * 38


def test_only_what_has_a_live_form_is_played_live() -> None:
    with pytest.raises(InvalidInput, match="edge-caching is not played live"):
        plan(experiment_named("edge-caching"), Options(live=True))


def test_finished_points_are_kept_and_every_point_is_predicted(
    player: SimulatedPlayer, tmp_path: Path
) -> None:
    few = planned(policies=["all", "none", "mean(50)"], values=[500])
    assert run(few, tmp_path).there == 3
    assert player.played == [(policy, 500) for policy in ("all", "none", "mean(50)")]
    more = planned(policies=["all", "none", "mean(50)"], values=[500, 600])
    done = run(more, tmp_path)
    assert (done.there, done.computed, done.failures) == (6, 3, [])
    assert [records for _, records in player.played] == [500] * 3 + [600] * 3
    points = pd.read_parquet(tmp_path / "points.parquet")
    assert points["kind"].value_counts().to_dict() == {"live": 6, "prediction": 6}
    for _, cell in points.groupby(["policy", "records"]):
        assert cell["hit_rate"].nunique() == cell["duplication_factor"].nunique() == 1
    assert points.loc[points["kind"] == "prediction", "cost_mark_s"].unique() == [form.MARK_S]
    run(more, tmp_path)
    assert len(player.played) == 6


def test_recorded_offers_are_played_live(player: SimulatedPlayer, tmp_path: Path) -> None:
    made = planned(data=AUTHORS, variants=["data"], policies=["threshold(0.3,0.2)"])
    run(made, tmp_path)
    points = pd.read_parquet(tmp_path / "points.parquet")
    assert points["hit_rate"].tolist() == [0.309, 0.309]  # kafka, Figure 8, the authors' file
    run(made, tmp_path)
    assert len(player.played) == 1


def test_a_broken_promise_is_told_and_the_others_go_on(
    player: SimulatedPlayer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = player.play

    def breaks(offers: Any, policy: Any, logs: Any) -> Any:
        if policy.text == "none":
            raise BrokenPromise("consumer 1 got 3 records instead of 4: the first 3 are right")
        return play(offers, policy, logs)

    monkeypatch.setattr(player, "play", breaks)
    done = run(planned(policies=["none", "all"], values=[500]), tmp_path)
    assert done.failures == [
        "none: consumer 1 got 3 records instead of 4: the first 3 are right (1 points)"
    ]
    assert (done.there, player.played) == (1, [("all", 500)])


def test_ctrl_c_keeps_what_was_played(
    player: SimulatedPlayer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    play = player.play

    def interrupted(offers: Any, policy: Any, logs: Any) -> Any:
        if len(player.played) == 1:
            raise KeyboardInterrupt
        return play(offers, policy, logs)

    monkeypatch.setattr(player, "play", interrupted)
    made = planned(policies=["none", "all"], values=[500])
    done = run(made, tmp_path)
    assert (done.there, done.interrupted) == (1, True)
    monkeypatch.setattr(player, "play", play)
    assert run(made, tmp_path).there == 2
    assert player.played == [("none", 500), ("all", 500)]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Done]]:
    """Simulated and live points of one directory."""
    directory = tmp_path_factory.mktemp("both")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(form, "staged", _simulated)
        asked: Any = {"quick": True, "values": [500, 1000]}
        simulated = plan(EXPERIMENT, Options(**asked, seeds=1, variants=["half"]))
        _sweep_without_spark(simulated, directory)
        yield directory, run(planned(quick=True), directory)


@contextmanager
def _simulated(*_: Any, **__: Any) -> Iterator[SimulatedPlayer]:
    yield SimulatedPlayer()


def _sweep_without_spark(made: Plan, directory: Path) -> None:
    with Store(directory, made.conditions) as store:
        place = Place.at(store.directory / "workloads")
        store.add([perform(task, place) for task in tasks_of(made)])


def test_claims_are_judged_on_live_points_too(both: tuple[Path, Done]) -> None:
    directory, done = both
    assert done.report is not None
    assert done.report.points == 23 * 2 + 2 * 28
    verdicts = {(one.claim.name, one.variant): one.finding.verdict for one in done.report.judged}
    assert {variant for _, variant in verdicts} == {"half", "half, live", "half, predicted"}
    for variant in ("half", "half, live", "half, predicted"):
        assert verdicts["ends-of-hit-rate", variant] == "reproduced"
        assert verdicts["first-batch-cached", variant] == "reproduced"
    assert "half, live" in (directory / "claims.md").read_text()
    about = (directory / "report.md").read_text()
    assert "46 simulations, 28 live points, 0 bounds; 1 seeds" in about
    assert "half of the records are shared" in about
    assert "were played through the whole system" in about
    assert "turn_s=" in about


def test_figures_show_live_points_solid_and_predictions_dashed_beside_them(
    both: tuple[Path, Done],
) -> None:
    directory, _ = both
    points = label_kinds(pd.read_parquet(directory / "points.parquet"))
    by_number = {figure.name.split("-")[0]: figure for figure in EXPERIMENT.figures}
    simulated, live = panels(by_number["10"], points, EXPERIMENT.axis)
    assert (simulated.variant, live.variant) == ("half", "half, live")
    assert [curve.dash for curve in live.curves] == ["solid"] * 5 + ["dashed"] * 5
    assert [curve.label for curve in live.curves[5:]] == [
        f"{curve.label} predicted" for curve in live.curves[:5]
    ]
    _, study = panels(by_number["13"], points, EXPERIMENT.axis)
    assert [curve.dash for curve in study.curves] == ["solid", "dashed"]
    assert study.names == ["20", "30", "50", "100", "200", "500"]


@pytest.mark.parametrize(
    ("logs", "field"),
    [
        (Logs(layout="shared"), "layout"),
        (Logs(notice="number"), "notice"),
        (Logs(retention_bytes=100), "retention_bytes"),
    ],
)
def test_logs_that_cannot_be_played_live_are_refused(logs: Logs, field: str) -> None:
    offers = paper_offers(PaperSettings(records=5), 1)
    with pytest.raises(InvalidInput) as told:
        OfferPlayer.play(None, offers, parse_admission("all"), logs)  # type: ignore[arg-type]
    assert told.value.field == field
