"""Finished points survive anything, and are never mixed with points of other settings or code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from tocsin.errors import Conflict, InvalidInput, TocsinError
from tocsin.lab.experiments.edge_caching import EXPERIMENT
from tocsin.lab.spec.plan import Options, Plan, plan
from tocsin.lab.spec.study import Row
from tocsin.lab.sweeps.points import Store, read_points
from tocsin.lab.sweeps.tasks import Task, tasks_of


def planned(**options: Any) -> Plan:
    given: dict[str, Any] = {"quick": True, "seeds": 2, "bound_seeds": 0}
    return plan(EXPERIMENT, Options(**(given | {"policies": ["lru", "lsc"]} | options)))


def row(task: Task, **values: float) -> Row:
    return task.row({"hit_ratio": 0.5, **values})


def codes(plan: Plan) -> set[tuple[str, str, str]]:
    return {(task.kind, task.policy, task.sources) for task in tasks_of(plan)}


def test_added_points_are_there_after_a_crash(tmp_path: Path) -> None:
    made = planned()
    tasks = tasks_of(made)
    with Store(tmp_path, made.conditions) as store:
        store.add([row(tasks[0]), row(tasks[1])])
        store.add([row(tasks[2])])
    with Store(tmp_path, made.conditions) as again:  # nothing was folded
        assert [again.has(task) for task in tasks[:4]] == [True, True, True, False]
        again.add([row(tasks[3])])
    with Store(tmp_path, made.conditions) as again:
        assert sum(again.has(task) for task in tasks) == 4


def test_fold_makes_a_table_in_order_and_empties_the_batches(tmp_path: Path) -> None:
    made = planned()
    tasks = tasks_of(made)
    with Store(tmp_path, made.conditions) as store:
        for task in reversed(tasks):
            store.add([row(task)])
        assert store.fold(codes(made), ["lru", "lsc"]) == len(tasks)
    assert list((tmp_path / "finished").iterdir()) == []
    points, conditions = read_points(tmp_path)
    assert conditions == made.conditions
    assert list(dict.fromkeys(points["policy"])) == ["lru", "lsc"]
    assert points.groupby(["variant", "policy"])["size_bytes"].is_monotonic_increasing.all()
    with Store(tmp_path, made.conditions) as again:
        assert all(again.has(task) for task in tasks)


def test_later_runs_add_to_the_table(tmp_path: Path) -> None:
    first, second = planned(policies=["lru"]), planned(policies=["lsc"])
    for made in (first, second):
        with Store(tmp_path, made.conditions) as store:
            store.add([row(task) for task in tasks_of(made)])
            store.fold(codes(first) | codes(second), ["lru", "lsc"])
    assert set(read_points(tmp_path)[0]["policy"]) == {"lru", "lsc"}


def test_points_of_changed_code_are_computed_again(tmp_path: Path) -> None:
    made = planned(policies=["lru", "lsc"])
    tasks = tasks_of(made)
    with Store(tmp_path, made.conditions) as store:
        store.add([row(task) | {"sources": "older"} for task in tasks if task.policy == "lru"])
        store.add([row(task) for task in tasks if task.policy == "lsc"])
        assert not any(store.has(task) for task in tasks if task.policy == "lru")
        store.fold(codes(made), ["lru", "lsc"])
    assert set(read_points(tmp_path)[0]["policy"]) == {"lsc"}


def test_directory_of_other_settings_is_refused_and_kept(tmp_path: Path) -> None:
    made, other = planned(), planned(settings={"skew": "0.8"})
    with Store(tmp_path, made.conditions) as store:
        store.add([row(tasks_of(made)[0])])
    with pytest.raises(Conflict) as told, Store(tmp_path, other.conditions):
        pass
    assert "skew=0.0 there, 0.8 here" in str(told.value)
    assert told.value.field == "out"
    with Store(tmp_path, made.conditions) as store:
        assert store.has(tasks_of(made)[0])


def test_directory_of_another_experiment_is_refused(tmp_path: Path) -> None:
    made = planned()
    (tmp_path / "conditions.json").write_text(
        '{"experiment":"other","quick":false,"axis":"size_bytes","variants":{}}'
    )
    with pytest.raises(Conflict, match="experiment other, not edge-caching"):
        Store(tmp_path, made.conditions).__enter__()


def test_table_alone_also_tells_its_conditions(tmp_path: Path) -> None:
    made = planned()
    with Store(tmp_path, made.conditions) as store:
        store.add([row(task) for task in tasks_of(made)])
        store.fold(codes(made), [])
    (tmp_path / "conditions.json").unlink()
    with pytest.raises(Conflict):
        Store(tmp_path, planned(quick=False).conditions).__enter__()


def test_one_run_at_a_time(tmp_path: Path) -> None:
    made = planned()
    with Store(tmp_path, made.conditions), pytest.raises(Conflict, match="another run is at work"):
        Store(tmp_path, made.conditions).__enter__()
    Store(tmp_path, made.conditions).__enter__()


def test_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InvalidInput) as told:
        Store(tmp_path / "file" / "below", planned().conditions).__enter__()
    assert told.value.field == "out"


def broken_table(directory: Path) -> None:
    (directory / "points.parquet").write_bytes(b"PAR1 and then nothing")


def foreign_table(directory: Path) -> None:
    pd.DataFrame({"x": [1]}).to_parquet(directory / "points.parquet")


def broken_batch(directory: Path) -> None:
    (directory / "finished").mkdir()
    (directory / "finished" / "000000.json").write_text('[{"kind": "simul')


@pytest.mark.parametrize("damage", [broken_table, broken_batch])
def test_damaged_file_is_named_with_what_to_do(tmp_path: Path, damage: Any) -> None:
    damage(tmp_path)
    with pytest.raises(InvalidInput) as told:
        Store(tmp_path, planned().conditions).__enter__()
    assert "points.parquet" in str(told.value) or "000000.json" in str(told.value)
    assert "remove it" in str(told.value)


@pytest.mark.parametrize("damage", [broken_table, foreign_table, lambda directory: None])
def test_report_needs_a_table_of_points(tmp_path: Path, damage: Any) -> None:
    damage(tmp_path)
    with pytest.raises(TocsinError) as told:
        read_points(tmp_path)
    assert "points.parquet" in str(told.value)
