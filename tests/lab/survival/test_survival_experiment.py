"""The experiment `survival`: what it plans, what a point has, and that claims find numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tocsin.errors import InvalidInput
from tocsin.lab.experiments import experiment_named
from tocsin.lab.experiments.survival.variants import AXIS, FULL, POLICIES, SLOTS, VARIANTS
from tocsin.lab.reports.curves import panels
from tocsin.lab.spec.claims import View, judge
from tocsin.lab.spec.levels import on_a_line
from tocsin.lab.spec.plan import Options, plan
from tocsin.lab.studies.message_cache import (
    MESSAGE_CACHE,
    Observation,
    SweptLoad,
    at,
    load,
    make,
    play,
)

EXPERIMENT = experiment_named("survival")


def point(policy: str = "sel-sub-prt", value: int = 4, **given: Any) -> dict[str, Any]:
    swept = at(SweptLoad(**{"slots": 4, **given}), value)
    return play(make(swept, 1), policy, value, Observation(messages=400))


def test_variants_go_along_axes_of_their_own() -> None:
    made = plan(EXPERIMENT, Options())
    assert made.points == 1960
    assert made.values["brokers"] == (2, 3, 4, 5, 6)
    assert "brokers (5 numbers of brokers)" in made.summary
    assert AXIS.of("load").in_words(500) == "0.5 clients"
    one = plan(EXPERIMENT, Options(variants=["load"], values=[2000, 500]))
    assert one.values == {"load": (500, 2000)}
    assert one.summary.startswith("80 points: 4 policies × 2 loads × 10 seeds × variants load")
    with pytest.raises(InvalidInput, match="several axes"):
        plan(EXPERIMENT, Options(values=[5]))


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda one: one.name)
def test_a_value_of_the_axis_changes_what_the_variant_varies(variant: Any) -> None:
    settings = plan(EXPERIMENT, Options()).configs[variant.name].workload
    value = FULL.of(variant.name)[-1]
    then = at(settings, value)
    changed = {
        name for name in then.__struct_fields__ if getattr(then, name) != getattr(settings, name)
    }
    classes = {"unpopular_share", "unpopular_rate"}
    assert (
        changed
        == {
            "slots": {"slots"},
            "brokers": {"brokers"},
            "client_load": {"client_load"},
            "publication_rate": {"publication_rate"},
            "unpopular": classes,
            "popular": classes | {"client_rate", "client_load"},
        }[settings.varies]
    )
    if settings.varies in ("unpopular", "popular"):
        assert then.client_rate / then.unpopular_rate == pytest.approx(value)
        assert then.departure_rate == pytest.approx(settings.departure_rate)


def test_a_point_has_the_simulation_and_the_models() -> None:
    one = point(brokers=1)
    assert one["exact_mst"] == pytest.approx(4.0)
    assert one["reduced_off"] < 0.01
    several = point(brokers=2)
    assert several["balanced_error"] < several["multi_error"] + 0.1
    assert 4.0 <= several["mst_little"] <= 8.0
    classes = point(varies="unpopular")
    assert classes["popular_mst"] > classes["unpopular_mst"]
    assert "multi_mst" not in classes
    assert "multi_mst" not in point(brokers=9, slots=9, varies="client_load", value=2000)


def test_a_load_is_kept_for_tasks(tmp_path: Path) -> None:
    made = make(SweptLoad(slots=7, copying="first"), 3)
    made.save(tmp_path)
    assert load(tmp_path) == made
    assert MESSAGE_CACHE.functions("sel-sub-prt")


def test_every_claim_and_figure_finds_its_points() -> None:
    columns = {
        name for row in (point(brokers=1), point(), point(varies="unpopular")) for name in row
    }
    random = np.random.default_rng(1)
    points = pd.DataFrame(
        [
            {
                "kind": "simulation",
                "variant": variant.name,
                "policy": policy,
                AXIS.column: value,
                "seed": seed,
                **{name: random.uniform(1, 2) for name in sorted(columns)},
            }
            for variant in VARIANTS
            for policy in POLICIES
            for value in FULL.of(variant.name)
            for seed in (1, 2)
        ]
    )
    judged = judge(EXPERIMENT.claims, points, EXPERIMENT.axis)
    assert {one.claim.name for one in judged} == {one.name for one in EXPERIMENT.claims}
    assert not [one.claim.name for one in judged if one.finding.verdict == "not tested"]
    for figure in EXPERIMENT.figures:
        drawn = panels(figure, points, EXPERIMENT.axis)
        assert [panel.variant for panel in drawn] == list(figure.variants or ())
        assert all(panel.axis is EXPERIMENT.axis.of(panel.variant) for panel in drawn)


def test_a_line_is_straight_within_its_tolerance() -> None:
    def view_of(bend: float) -> pd.DataFrame:
        return pd.DataFrame(
            [
                {"kind": "simulation", "variant": "slots", "policy": "p", "seed": seed}
                | {SLOTS.column: value, "m": 3.0 * value + 2.0 + bend * (value == 2)}
                for value in (1, 2, 3)
                for seed in (1, 2)
            ]
        )

    check = on_a_line("m", ("p",), 0.02)
    assert check(View(view_of(0.0), "slots", SLOTS)).verdict == "reproduced"
    assert check(View(view_of(1.0), "slots", SLOTS)).verdict == "not reproduced"
    short = view_of(0.0)
    assert check(View(short[short[SLOTS.column] < 3], "slots", SLOTS)).missing
