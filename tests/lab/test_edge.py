"""The simulated day is that of BAD, Table II: seeded, with the moments it names."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tocsin.errors import SettingError
from tocsin.lab.workloads.edge import EdgeSettings, edge_workload
from tocsin.lab.workloads.workload import OFFLINE, ONLINE, PUBLISH, SUBSCRIBE, UNSUBSCRIBE, Workload

TINY = EdgeSettings(subscribers=20, subscriptions_each=3, backends=5, hours=0.5)


def lasted_s(workload: Workload, begin: int, end: int) -> NDArray[np.float64]:
    """How long it took from each beginning to its end, without what the run cut off."""
    rows = np.flatnonzero((workload.kind == begin) | (workload.kind == end))
    rows = rows[np.argsort(workload.subject[rows], kind="stable")]
    subject, begins, at = workload.subject[rows], workload.kind[rows] == begin, workload.at[rows]
    whole = begins[:-1] & (subject[1:] == subject[:-1]) & (at[:-1] > 0)
    lasted: NDArray[np.float64] = np.diff(at)[whole]
    return lasted


def test_defaults_are_table_2() -> None:
    assert EdgeSettings() == EdgeSettings(
        subscribers=10_000,
        subscriptions_each=10,
        backends=1_000,
        hours=6.0,
        subscription_minutes=(1.0, 2.0),
        size_bytes=(1_000, 500_000),
        interval_s=(10.0, 60.0),
        on_minutes=(1.753, 1.425),
        off_minutes=(2.415, 1.11),
    )


@pytest.mark.parametrize("joining", ["always", "spread"])
def test_the_same_seed_gives_the_same_day_and_another_another(joining: Any) -> None:
    settings = EdgeSettings(subscribers=20, backends=5, hours=0.5, joining=joining)
    one, same, other = (edge_workload(settings, seed).check() for seed in (1, 1, 2))
    for name in ("at", "kind", "subject", "value", "owners"):
        np.testing.assert_array_equal(getattr(one, name), getattr(same, name))
    assert len(one) != len(other) or (one.at != other.at).any()


def test_one_setting_moves_one_part() -> None:
    """Who is there when stays the same if what is published changes, and the other way round."""
    usual = edge_workload(TINY, 1)
    louder = edge_workload(
        EdgeSettings(
            subscribers=20, subscriptions_each=3, backends=5, hours=0.5, interval_s=(1.0, 2.0)
        ),
        1,
    )
    for kind in (ONLINE, OFFLINE, SUBSCRIBE, UNSUBSCRIBE):
        np.testing.assert_array_equal(usual.at[usual.kind == kind], louder.at[louder.kind == kind])
    assert (louder.kind == PUBLISH).sum() > 5 * (usual.kind == PUBLISH).sum()


@pytest.mark.parametrize(
    ("begin", "end", "mean", "deviation"),
    [
        (ONLINE, OFFLINE, 1.753, 1.425),
        (OFFLINE, ONLINE, 2.415, 1.11),
        (SUBSCRIBE, UNSUBSCRIBE, 1.0, 2.0),
    ],
)
def test_periods_are_lognormal_in_minutes(
    begin: int, end: int, mean: float, deviation: float
) -> None:
    """e^(μ + σ²/2): 15.9, 20.7 and 20.1 minutes, not the 20 and 30 that the paper's text says."""
    long_run = EdgeSettings(subscribers=100, subscriptions_each=1, backends=1, hours=300.0)
    minutes = lasted_s(edge_workload(long_run, 1), begin, end) / 60
    assert len(minutes) > 40_000
    assert np.log(minutes).mean() == pytest.approx(mean, abs=0.03)
    assert np.log(minutes).std() == pytest.approx(deviation, abs=0.03)
    assert minutes.mean() == pytest.approx(np.exp(mean + deviation**2 / 2), rel=0.05)


def test_sizes_and_rates_are_uniform() -> None:
    settings = EdgeSettings(subscribers=1, subscriptions_each=1)
    day = edge_workload(settings, 1)
    published = day.kind == PUBLISH
    sizes = day.value[published]
    assert sizes.min() >= 1_000
    assert sizes.max() <= 500_000
    assert sizes.mean() == pytest.approx(250_500, rel=0.005)
    assert sizes.std() == pytest.approx(499_000 / 12**0.5, rel=0.005)
    intervals_s = 6 * 3600 / np.bincount(day.subject[published], minlength=1_000)
    assert intervals_s.mean() == pytest.approx(35, rel=0.03)
    assert intervals_s.std() == pytest.approx(50 / 12**0.5, rel=0.05)
    between_s = np.diff(day.at[published & (day.subject == 0)])
    assert between_s.std() == pytest.approx(between_s.mean(), rel=0.15)  # a Poisson process


def test_both_ends_of_a_range_of_sizes_occur() -> None:
    day = edge_workload(EdgeSettings(subscribers=1, backends=5, hours=1.0, size_bytes=(3, 4)), 1)
    assert set(day.value[day.kind == PUBLISH]) == {3, 4}


def test_the_right_part_is_connected_all_the_time() -> None:
    # 15.9 / (15.9 + 20.7) = 0.434
    day = edge_workload(EdgeSettings(subscribers=4_000, subscriptions_each=1, backends=1), 1)
    presence = (day.kind == ONLINE) | (day.kind == OFFLINE)
    online = np.cumsum(np.where(day.kind[presence] == ONLINE, 1, -1)) / 4_000
    for hour in (0, 1, 3, 6):
        now = np.searchsorted(day.at[presence], hour * 3600, side="right") - 1
        assert online[now] == pytest.approx(0.434, abs=0.04)


def test_always_keeps_everybody_at_their_number_of_subscriptions() -> None:
    day = edge_workload(TINY, 1)
    begun, ended = day.kind == SUBSCRIBE, day.kind == UNSUBSCRIBE
    held = np.cumsum(begun.astype(int) - ended.astype(int))
    assert (day.at[begun][:60] == 0).all()
    moments = np.flatnonzero(np.diff(day.at, append=np.inf) > 0)
    assert (held[moments] == 60).all()
    assert ended.sum() > 0


def test_spread_makes_each_subscription_once() -> None:
    settings = EdgeSettings(
        subscribers=400, subscriptions_each=3, backends=5, hours=6.0, joining="spread"
    )
    day = edge_workload(settings, 1).check()
    begun = day.kind == SUBSCRIBE
    assert sorted(day.subject[begun]) == list(range(1_200))
    assert day.at[begun].mean() == pytest.approx(3 * 3600, rel=0.05)
    assert (day.owners[day.subject[begun]] == day.subject[begun] // 3).all()


@pytest.mark.parametrize(("skew", "most"), [(0.0, 0.1), (1.0, 0.341), (2.0, 0.645)])
def test_interest_follows_zipf(skew: float, most: float) -> None:
    # Of 10: 1 / Σ 1/k = 0.341, 1 / Σ 1/k² = 0.645.
    settings = EdgeSettings(subscribers=2_000, backends=10, hours=0.1, skew=skew)
    day = edge_workload(settings, 1)
    chosen = np.bincount(day.value[day.kind == SUBSCRIBE], minlength=10)
    assert chosen.max() / chosen.sum() == pytest.approx(most, abs=0.01)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("subscribers", 0),
        ("subscriptions_each", -1),
        ("backends", 0),
        ("hours", 0.0),
        ("hours", float("nan")),
        ("hours", float("inf")),
        ("subscription_minutes", (1.0, -1.0)),
        ("subscription_minutes", (float("nan"), 1.0)),
        ("on_minutes", (1.0, 10.0)),
        ("off_minutes", (20.0, 1.0)),
        ("size_bytes", (0, 10)),
        ("size_bytes", (10, 9)),
        ("size_bytes", (1, 2**31)),
        ("interval_s", (0.0, 1.0)),
        ("interval_s", (2.0, 1.0)),
        ("interval_s", (1.0, float("inf"))),
        ("joining", "never"),
        ("skew", -0.1),
        ("skew", float("nan")),
    ],
)
def test_a_setting_without_sense_is_refused(name: str, value: object) -> None:
    with pytest.raises(SettingError) as refused:
        EdgeSettings(**{name: value})  # type: ignore[arg-type]
    assert refused.value.field == name
    assert refused.value.hint
