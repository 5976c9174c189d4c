"""The kafka paper's experiment: its claims on a small run, the authors' file as a variant."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pytest

from tocsin.errors import InvalidInput
from tocsin.lab.experiments import experiment_named
from tocsin.lab.experiments.kafka_admission import EXPERIMENT
from tocsin.lab.reports.report import write_report
from tocsin.lab.spec.claims import Judged, judge
from tocsin.lab.spec.plan import Options, Plan, plan
from tocsin.lab.spec.study import Row
from tocsin.lab.sweeps.points import Store, read_points
from tocsin.lab.sweeps.tasks import Place, perform, tasks_of

AUTHORS = Path(__file__).parents[2] / "policies" / "data" / "cs237_test1000_1.csv"


def planned(**options: Any) -> Plan:
    given: dict[str, Any] = {"values": [500, 1_000], "seeds": 3, "variants": ["half"]}
    return plan(EXPERIMENT, Options(**(given | options)))


def computed(made: Plan, directory: Path) -> list[Row]:
    place = Place.at(directory)
    return [perform(task, place) for task in tasks_of(made)]


@cache
def verdicts(directory: Path) -> dict[tuple[str, str], Judged]:
    rows = computed(planned(data=AUTHORS, variants=["half", "data"]), directory)
    judged = judge(EXPERIMENT.claims, pd.DataFrame(rows), EXPERIMENT.axis)
    return {(one.claim.name, one.variant): one for one in judged}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Judged]:
    return verdicts(tmp_path_factory.mktemp("workloads"))


def test_every_claim_has_the_points_it_needs(found: dict[tuple[str, str], Judged]) -> None:
    tested = {name for (name, _), one in found.items() if one.finding.verdict != "not tested"}
    assert tested == {claim.name for claim in EXPERIMENT.claims}
    assert len(tested) > 45


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        ("ends-of-hit-rate", "reproduced"),
        ("threshold-about-0.3", "reproduced"),
        ("all-duplicates-1.7", "not reproduced"),
        ("three-duplicate-alike", "not reproduced"),
        ("shared-content-equal", "not reproduced"),
        ("order-of-shared", "not reproduced"),
        ("latency-order", "reproduced"),
        ("threshold-worst-parameters", "not reproduced"),
        ("batches-lower-latency", "reproduced"),
        ("buffer-1-0-always-hits", "reproduced"),
        ("buffer-local-minimum", "not reproduced"),
        ("threshold-set-point", "reproduced"),
        ("buffer-is-no-less-than-before", "reproduced"),
    ],
)
def test_verdicts_that_chance_does_not_move(
    found: dict[tuple[str, str], Judged], claim: str, verdict: str
) -> None:
    for variant in ("half", "data"):
        assert found[claim, variant].finding.verdict == verdict


def test_authors_file_is_a_variant_of_its_own(tmp_path: Path) -> None:
    made = planned(data=AUTHORS, variants=["data"])
    assert (made.variants, len(made.recordings), made.points) == ((), 1, 23)
    rows = {row["policy"]: row for row in computed(made, tmp_path)}
    assert {(row["variant"], row["records"], row["seed"]) for row in rows.values()} == {
        ("data", 1_000, 1)
    }
    rates = {name: row["hit_rate"] for name, row in rows.items()}
    assert rates["threshold(0.3,0.2)"] == 0.309
    assert rates["mean(50)"] == 0.549
    assert rates["buffer(0.5,0.5)"] == 0.754
    assert rows["all"]["duplication_factor"] == 1.527


def test_files_of_one_length_count_as_seeds(tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv", "c.txt"):
        (tmp_path / name).write_bytes(AUTHORS.read_bytes())
    (tmp_path / "short.csv").write_text("1,10001\n0,00110\n")
    made = planned(data=tmp_path, policies=["all"])
    recorded = [task for task in tasks_of(made) if task.variant == "data"]
    assert [(task.value, task.seed) for task in recorded] == [(2, 1), (1_000, 1), (1_000, 2)]
    assert made.points == 2 * 3 + 3
    assert "3 recordings" in made.summary


def test_changed_file_is_computed_again_and_replaces_the_older(tmp_path: Path) -> None:
    file, out = tmp_path / "some.csv", tmp_path / "out"
    file.write_text("1,10001\n0,00110\n")
    options: dict[str, Any] = {"data": file, "variants": ["data"], "policies": ["all", "none"]}
    first = planned(**options)
    with Store(out, first.conditions) as store:
        store.add(computed(first, tmp_path / "workloads"))
        assert all(store.has(task) for task in tasks_of(first))
    file.write_text("1,10001\n0,10001\n")
    second = planned(**options)
    with Store(out, second.conditions) as store:
        assert not any(store.has(task) for task in tasks_of(second))
        store.add(computed(second, tmp_path / "workloads"))
        current = {(t.kind, t.policy, t.sources.split("-")[0]) for t in tasks_of(second)}
        assert store.fold(current, list(EXPERIMENT.policies)) == 2
    points, _ = read_points(out)
    assert points.loc[points["policy"] == "all", "copies"].tolist() == [4]


def test_file_that_changes_while_it_runs_is_found_out(tmp_path: Path) -> None:
    file = tmp_path / "some.csv"
    file.write_text("1,10001\n0,00110\n")
    made = planned(data=file, variants=["data"], policies=["all"])
    file.write_text("1,10001\n0,10001\n")
    with pytest.raises(InvalidInput, match="changed meanwhile"):
        computed(made, tmp_path / "workloads")


def test_run_without_data_keeps_the_points_of_data(tmp_path: Path) -> None:
    with_data = planned(data=AUTHORS, policies=["all"], values=[500], seeds=1)
    without = planned(policies=["all"], values=[500], seeds=1)
    assert with_data.conditions == without.conditions
    with Store(tmp_path / "out", without.conditions) as store:
        store.add(computed(with_data, tmp_path / "workloads"))
        current = {(t.kind, t.policy, t.sources.split("-")[0]) for t in tasks_of(without)}
        assert store.fold(current, ["all"]) == 2


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"data": Path("nowhere")}, "nowhere cannot be read"),
        ({"variants": ["data"]}, "has no variant 'data'"),
        ({"settings": {"shared": "0.3"}}, "choose with --variants"),
        ({"policies": ["lru"]}, "no admission policy is called 'lru'"),
        ({"values": [0]}, "0 is none of the numbers of records"),
        ({"bound_seeds": 1}, "kafka-admission has no bounds"),
        ({"settings": {"subscriptions": "10"}}, "'10' has 2 bits, not 5"),
    ],
)
def test_wrong_option_is_told(options: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInput) as error:
        planned(**({"variants": None} | options))
    assert told in str(error.value)


def test_experiment_without_recordings_takes_no_data() -> None:
    with pytest.raises(InvalidInput, match="edge-caching plays no recordings"):
        plan(experiment_named("edge-caching"), Options(data=AUTHORS))


def test_directory_without_files_is_told(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"has no files \*\.csv"):
        planned(data=tmp_path)


def test_report_shows_figures_with_policies_side_by_side(tmp_path: Path) -> None:
    made = planned(data=AUTHORS, variants=["half", "data"], seeds=2)
    with Store(tmp_path, made.conditions) as store:
        store.add(computed(made, tmp_path / "workloads"))
        store.fold({(t.kind, t.policy, t.sources.split("-")[0]) for t in tasks_of(made)}, [])
    report = write_report(tmp_path)
    assert report.points == made.points
    for figure in EXPERIMENT.figures:
        assert (tmp_path / "figures" / f"{figure.name}.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "report.html").read_text()
    assert '"0.9, 0.1"' in page  # buffers by their numbers
    assert "what was recorded" in (tmp_path / "report.md").read_text()
    settings = msgspec.json.decode((tmp_path / "conditions.json").read_bytes())
    assert settings["variants"]["half"]["shared"] == 0.5
