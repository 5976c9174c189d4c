"""Experiments are found by themselves, loudly; options make a plan of one, or say what is wrong."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import msgspec
import pytest

from tocsin.errors import InvalidInput, NotFound, TocsinError
from tocsin.lab.experiments import experiment_named, experiments, gathered, return_rate
from tocsin.lab.experiments.edge_caching import EXPERIMENT
from tocsin.lab.spec.experiment import Experiment
from tocsin.lab.spec.plan import Options, Plan, plan
from tocsin.lab.sweeps.tasks import tasks_of
from tocsin.lab.workloads.edge import EdgeSettings


def module(name: str, **content: Any) -> ModuleType:
    made = ModuleType(name)
    vars(made).update(content)
    return made


def changed(**fields: Any) -> Experiment:
    return msgspec.structs.replace(EXPERIMENT, **fields)


def planned(**options: Any) -> Plan:
    return plan(EXPERIMENT, Options(**options))


def test_every_file_is_found_under_its_name() -> None:
    assert experiments()["edge-caching"] is EXPERIMENT
    assert experiment_named("edge-caching") is EXPERIMENT
    assert experiment_named("return-rate") is return_rate.EXPERIMENT
    with pytest.raises(NotFound, match="'homing' is called 'return-rate' now"):
        experiment_named("homing")


def test_two_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match="'edge-caching': first and second"):
        gathered([module("first", EXPERIMENT=EXPERIMENT), module("second", EXPERIMENT=EXPERIMENT)])


def test_file_without_an_experiment_is_refused() -> None:
    with pytest.raises(TypeError, match="empty declares no EXPERIMENT"):
        gathered([module("empty")])


@pytest.mark.parametrize("what", ["variants", "figures", "claims", "policies"])
def test_name_given_twice_inside_an_experiment_is_refused(what: str) -> None:
    one = getattr(EXPERIMENT, what)[0]
    twice = changed(**{what: (one, one)})
    with pytest.raises(ValueError, match=f"{what} named twice"):
        gathered([module("twice", EXPERIMENT=twice)])


def test_unknown_experiment_names_the_known_ones() -> None:
    with pytest.raises(NotFound) as told:
        experiment_named("edge-cashing")
    assert "edge-caching" in str(told.value)


def test_plan_takes_what_the_experiment_declares() -> None:
    full = planned()
    assert full.points == 2 * 10 * (9 * 10 + EXPERIMENT.full.bound_seeds)
    assert full.configs["spread"].workload.joining == "spread"
    assert full.configs["always"].workload.subscribers == 10_000
    quick = planned(quick=True)
    assert quick.configs["always"].workload.subscribers < 10_000
    assert quick.points < full.points / 5


def test_held_out_seeds_begin_where_the_experiment_says() -> None:
    made = plan(return_rate.EXPERIMENT, Options(seeds=2, bound_seeds=1))
    tasks = tasks_of(made)
    assert {task.seed for task in tasks} == {1001, 1002}
    assert {task.seed for task in tasks if task.kind == "bound"} == {1001}
    assert len(tasks) == made.points


def test_each_other_circumstance_changes_the_papers_day_in_one_way() -> None:
    made = plan(return_rate.EXPERIMENT, Options())
    days = made.conditions.variants
    paper = days["always"]
    assert made.configs["always"].workload == EdgeSettings()
    for variant in (*return_rate.OTHERS, EXPERIMENT.variants[1]):
        other = days[variant.name]
        changes = {name for name, value in other.items() if value != paper[name]}
        assert changes == set(variant.settings)


def test_options_narrow_the_plan() -> None:
    made = planned(
        policies=["lru", "lru", "admit=threshold(0.2,0.8) evict=lsc"],
        values=[3_000_000, 1_000_000],
        variants=["spread"],
        seeds=2,
        bound_seeds=0,
        settings={"skew": "0.8", "size_bytes": "10,20", "cluster_rtt_s": "0.1"},
    )
    assert made.policies == ("lru", "admit=threshold(0.2,0.8) evict=lsc")
    assert made.values == {"spread": (1_000_000, 3_000_000)}
    assert made.points == 1 * 2 * 2 * 2
    here = made.configs["spread"]
    assert (here.workload.skew, here.workload.size_bytes) == (0.8, (10, 20))
    assert here.environment.cluster_rtt_s == 0.1


@pytest.mark.parametrize(
    ("options", "field", "told"),
    [
        ({"policies": ["magic"]}, "policies", "magic"),
        ({"values": [-5]}, "sizes", "-5"),
        ({"seeds": 0}, "seeds", "0"),
        ({"bound_seeds": -1}, "bound-seeds", "-1"),
        ({"variants": ["never"]}, "variants", "one of always, spread"),
        ({"settings": {"people": "5"}}, "set", "one of subscribers"),
        ({"settings": {"joining": "spread"}}, "set", "--variants"),
        ({"settings": {"hours": "long"}}, "set", "hours"),
        ({"settings": {"hours": "-1"}}, "hours", "-1"),
        ({"settings": {"size_bytes": "10"}}, "set", "size_bytes"),
        ({"settings": {"cluster_bytes_per_s": "0"}}, "cluster_bytes_per_s", "more than 0"),
    ],
)
def test_wrong_option_is_named_with_its_field(
    options: dict[str, Any], field: str, told: str
) -> None:
    with pytest.raises(InvalidInput) as error:
        planned(**options)
    assert isinstance(error.value, TocsinError)
    assert error.value.field == field
    assert told in str(error.value)
