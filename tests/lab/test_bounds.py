"""The certified intervals: nothing feasible beats a limit, and what is said to be reached is."""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.all_schedules import best_schedule, story, tiny_workloads
from lab.workloads import workloads
from tocsin.errors import SettingError
from tocsin.lab.bounds import GOALS, certify, certify_sizes
from tocsin.lab.bounds.demand import Floats, demand_of
from tocsin.lab.bounds.dual import Relaxation
from tocsin.lab.bounds.goals import goal_of
from tocsin.lab.bounds.prices import Priced, best_prices
from tocsin.lab.bounds.replay import replay
from tocsin.lab.simulators.result_cache.simulator import Outcome, simulate
from tocsin.lab.workloads.edge import EdgeSettings, edge_workload
from tocsin.lab.workloads.network import Network
from tocsin.lab.workloads.workload import OFFLINE, ONLINE, PUBLISH, SUBSCRIBE, Workload
from tocsin.policies import parse_policy

NETWORK = Network(
    cluster_rtt_s=3.0, cluster_bytes_per_s=2.0, subscriber_rtt_s=0.5, subscriber_bytes_per_s=8.0
)
EVICTING = ("lsc", "fifo", "none")
BUDGETS = st.integers(0, 30)
PRICES = st.sampled_from([0.0, 0.01, 0.03, 0.1, 0.2, 0.5, 1.0])


def optimum(workload: Workload, budget_bytes: int) -> tuple[float, float, float]:
    """Most hits, most bytes hit, least latency of all gets together."""
    saved_s = best_schedule(
        workload, (0, 1 / NETWORK.cluster_bytes_per_s), NETWORK.cluster_rtt_s, budget_bytes
    )
    return (
        best_schedule(workload, (1, 0), 0, budget_bytes),
        best_schedule(workload, (0, 1), 0, budget_bytes),
        uncached_s(workload) - saved_s,
    )


def uncached_s(workload: Workload) -> float:
    """Of all gets together, if everything is missed."""
    sizes: list[list[int]] = [[] for _ in range(workload.backends)]
    total = 0.0
    for step in story(workload):
        if len(step) == 2:
            total += one_get_s(sum(sizes[step[0]][step[1] :]))
        else:
            sizes[step[0]].append(step[1])
            total += step[2] * one_get_s(step[1])
    return total


def one_get_s(size_bytes: int) -> float:
    return (
        NETWORK.subscriber_rtt_s
        + size_bytes / NETWORK.subscriber_bytes_per_s
        + NETWORK.fetch_s(size_bytes)
    )


@settings(max_examples=60, deadline=None)
@given(tiny_workloads(), BUDGETS)
def test_the_optimum_lies_between_what_is_reached_and_the_limit(
    workload: Workload, budget_bytes: int
) -> None:
    told = certify(workload, budget_bytes, NETWORK)
    hits, hit_bytes, seconds = optimum(workload, budget_bytes)
    latency = told.latency_mean_s
    assert told.hits.reached <= hits <= told.hits.limit
    assert told.hit_bytes.reached <= hit_bytes <= told.hit_bytes.limit
    gets = max(told.gets, 1)
    assert latency.limit * (1 - 1e-9) <= seconds / gets <= latency.reached * (1 + 1e-9)


@settings(max_examples=40, deadline=None)
@given(workloads(), st.integers(0, 400))
def test_no_policy_that_keeps_the_budget_beats_a_limit(
    workload: Workload, budget_bytes: int
) -> None:
    told = certify(workload, budget_bytes, NETWORK)
    objects = demand_of(workload).objects
    for name in EVICTING:
        done = simulate(workload, parse_policy(name), budget_bytes, NETWORK)
        assert done.volume_objects == objects
        assert (done.requests, done.gets) == (told.requests, told.gets)
        assert done.hits <= told.hits.limit
        assert done.hit_bytes <= told.hit_bytes.limit
        assert done.latency_mean_s >= told.latency_mean_s.limit * (1 - 1e-9)


class Watched(Relaxation):
    """Remembers every bound that was tried."""

    tried: list[float]

    def bound(self, price: Floats) -> float:
        self.tried.append(super().bound(price))
        return self.tried[-1]


@settings(max_examples=40, deadline=None)
@given(workloads(), st.integers(1, 200))
def test_the_best_prices_tried_are_kept_and_finer_bins_never_loosen_the_bound(
    workload: Workload, budget_bytes: int
) -> None:
    demand = demand_of(workload)
    before = np.inf
    for bins in (1, 16, 128):
        relaxation = Watched(demand, goal_of("hits", demand, NETWORK), budget_bytes)
        relaxation.tried = []
        found = best_prices(relaxation, bins=bins)
        assert found.bound == min(relaxation.tried) <= before
        assert relaxation.bound(found.price) == found.bound
        assert (relaxation.selected == found.selected).all()
        before = found.bound


@settings(max_examples=150, deadline=None)
@given(
    tiny_workloads(backends=2, publications=12),
    st.sampled_from([8, 30]),
    st.lists(PRICES, min_size=12, max_size=12),
)
def test_at_any_prices_the_best_of_all_schedules_is_bought(
    workload: Workload, budget_bytes: int, prices: list[float]
) -> None:
    demand = demand_of(workload)
    relaxation = Relaxation(demand, goal_of("latency", demand, NETWORK), budget_bytes)
    price = np.array(prices[: demand.objects])
    worth, bonus = (0, 1 / NETWORK.cluster_bytes_per_s), NETWORK.cluster_rtt_s
    bought = best_schedule(workload, worth, bonus, budget_bytes, prices)
    bound = relaxation.bound(price)
    assert bound == pytest.approx(bought + budget_bytes * price.sum(), abs=1e-9)


@settings(max_examples=150, deadline=None)
@given(
    tiny_workloads(backends=2, publications=40),
    st.sampled_from([8, 30]),
    st.integers(0, 99),
    st.sampled_from([0.01, 0.03, 0.1]),
)
def test_a_plan_is_worth_what_the_bound_says_and_holds_what_it_says(
    workload: Workload, budget_bytes: int, seed: int, highest: float
) -> None:
    """value − payment + budget · Σ price, told again from the plan alone."""
    demand = demand_of(workload)
    relaxation = Relaxation(demand, goal_of("hits", demand, NETWORK), budget_bytes)
    price = np.random.default_rng(seed).uniform(0, highest, demand.objects)
    bound = relaxation.bound(price)
    held = np.zeros(demand.objects)
    value = 0
    for backend in range(workload.backends):
        first_object, first_get = demand.first_object[backend], demand.first_get[backend]
        end = 0
        for item in range(first_object, demand.first_object[backend + 1]):
            rank, low, leave = demand.rank[item], demand.next_get[item], relaxation.selected[item]
            assert leave >= low - 2
            older_end, end = end, rank + (leave - (low - 2))
            if leave >= low:
                end = demand.arrivals_before[first_get + leave]
                marks = demand.mark[first_get + low : first_get + leave + 1]
                value += int((marks <= item - first_object).sum())
            if leave >= low - 1:
                assert demand.size_bytes[item] <= budget_bytes
                value += demand.online[item]
            assert older_end <= end  # the newest suffix
            held[rank:end] += demand.size_bytes[item]
    assert np.allclose(held, relaxation.held_bytes)
    assert np.isclose(bound, value - held @ price + budget_bytes * price.sum())


@settings(max_examples=150, deadline=None)
@given(tiny_workloads(), BUDGETS, st.integers(0, 99))
def test_a_run_keeps_to_the_rules_whatever_its_plan(
    workload: Workload, budget_bytes: int, seed: int
) -> None:
    demand = demand_of(workload)
    random = np.random.default_rng(seed)
    price = random.choice([0.0, 0.1, 1.0], demand.objects)
    selected = random.integers(demand.next_get - 2, demand.last_get + 1).astype(np.int32)
    done = replay(demand, goal_of("hits", demand, NETWORK), budget_bytes, price, selected)
    assert done.cache_max_bytes <= budget_bytes
    assert done.hits <= best_schedule(workload, (1, 0), 0, budget_bytes)


def test_with_one_cache_the_schedule_is_what_any_evicting_policy_does() -> None:
    """Nothing to choose: the simulator and the clairvoyant run must agree to the byte."""
    random = np.random.default_rng(4)
    events = [(0.0, SUBSCRIBE, slot, 0) for slot in range(4)]
    online: set[int] = set()
    for at in range(1, 400):
        if random.random() < 0.5:
            events.append((float(at), PUBLISH, 0, int(random.integers(1, 40))))
        else:
            who = int(random.integers(4))
            events.append((float(at), OFFLINE if who in online else ONLINE, who, 0))
            online ^= {who}
    events += [(400.0, ONLINE, who, 0) for who in range(4) if who not in online]
    workload = Workload.of(events, [0, 1, 2, 3], 1, 4)
    demand = demand_of(workload)
    free = np.zeros(demand.objects)
    for budget_bytes in (0, 30, 100, 300, 10_000):
        expected = simulate(workload, parse_policy("lsc"), budget_bytes)
        for name in GOALS:
            goal = goal_of(name, demand, NETWORK)
            done = replay(demand, goal, budget_bytes, free, demand.last_get)
            assert done.hits == expected.hits
            assert done.hit_bytes == expected.hit_bytes
            assert done.whole_gets == expected.gets - expected.gets_with_miss
            assert done.cache_max_bytes == expected.cache_max_bytes


@cache
def small_day() -> Workload:
    settings = EdgeSettings(subscribers=100, backends=20, hours=0.3)
    return edge_workload(settings, seed=7)


def test_the_interval_of_a_small_day_is_narrow() -> None:
    policies = [parse_policy(name) for name in EVICTING]
    outcomes = [simulate(small_day(), policy, 2_000_000) for policy in policies]
    told = certify(small_day(), 2_000_000, also=outcomes)
    best = max(outcome.hits for outcome in outcomes)
    assert best < told.hits.reached < told.hits.limit
    assert told.hit_ratio.gap < 0.012
    assert told.hit_bytes.gap < 0.012 * outcomes[0].hit_bytes
    assert told.latency_mean_s.gap < 0.002


def test_without_room_everything_is_missed() -> None:
    told = certify(small_day(), 0)
    nothing = simulate(small_day(), parse_policy("none"), 0)
    assert told.hits.limit == told.hit_bytes.limit == 0
    assert told.latency_mean_s.gap == 0
    assert told.latency_mean_s.limit == pytest.approx(nothing.latency_mean_s, rel=1e-12)


def test_with_room_for_everything_every_delivery_is_a_hit() -> None:
    told = certify(small_day(), 10**12)
    everything = simulate(small_day(), parse_policy("lsc"), 10**12)
    assert everything.misses == 0
    assert told.hits.reached == told.hits.limit == everything.hits
    assert told.hit_bytes.reached == told.hit_bytes.limit == everything.hit_bytes
    assert told.latency_mean_s.gap == 0
    assert told.latency_mean_s.limit == pytest.approx(everything.latency_mean_s, rel=1e-12)


@settings(max_examples=40, deadline=None)
@given(workloads(), st.integers(0, 300), st.permutations([0, 1, 2, 3, 60]))
def test_a_larger_cache_is_never_worse(workload: Workload, least: int, more: list[int]) -> None:
    sizes = [least + size for size in more]
    told = dict(zip(sizes, certify_sizes(workload, sizes, NETWORK), strict=True))
    ascending = [told[size] for size in sorted(sizes)]
    for smaller, larger in pairwise(ascending):
        assert smaller.hits.reached <= larger.hits.reached
        assert smaller.hits.limit <= larger.hits.limit
        assert smaller.hit_bytes.limit <= larger.hit_bytes.limit
        assert smaller.latency_mean_s.reached >= larger.latency_mean_s.reached
        assert smaller.latency_mean_s.limit >= larger.latency_mean_s.limit


def test_sizes_tighten_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without good prices for one of them, its neighbours' ends are its own."""
    smaller, middle, larger = 1_000_000, 1_100_000, 1_200_000
    good = certify_sizes(small_day(), [smaller, larger], goals=["hits"])

    def unlucky(relaxation: Relaxation, **asked: Any) -> Priced:
        found = best_prices(relaxation, **asked)
        if relaxation.budget_bytes != middle:
            return found
        return Priced(1e9, found.price, np.full_like(found.selected, -2))

    monkeypatch.setattr("tocsin.lab.bounds.intervals.best_prices", unlucky)
    told = certify_sizes(small_day(), [larger, middle], goals=["hits"])
    assert [one.budget_bytes for one in told] == [larger, middle]
    assert told[1].hits.limit == told[0].hits.limit == good[1].hits.limit
    told = certify_sizes(small_day(), [smaller, middle], goals=["hits"])
    assert told[1].hits.reached >= told[0].hits.reached == good[0].hits.reached


def outcome_of(policy: str, budget_bytes: int) -> Outcome:
    return simulate(small_day(), parse_policy(policy), budget_bytes)


def test_a_better_run_of_another_policy_counts_only_if_it_kept_the_budget() -> None:
    budget_bytes = 2_000_000
    kept, exceeded = outcome_of("lsc", budget_bytes), outcome_of("lsc", 10 * budget_bytes)
    alone = certify(small_day(), budget_bytes, goals=())
    assert alone.hits.reached == 0
    helped = certify(small_day(), budget_bytes, also=[kept, exceeded], goals=())
    assert helped.hits.reached == kept.hits
    assert helped.latency_mean_s.reached == pytest.approx(kept.latency_mean_s, rel=1e-12)


def test_a_run_over_another_workload_is_refused() -> None:
    other = edge_workload(EdgeSettings(subscribers=20, backends=5, hours=0.2), seed=1)
    with pytest.raises(SettingError, match="requests"):
        certify(other, 1_000_000, also=[outcome_of("lsc", 1_000_000)])


def test_a_negative_size_is_refused() -> None:
    with pytest.raises(SettingError, match="-1 bytes"):
        certify(small_day(), -1)


def test_progress_runs_to_the_end() -> None:
    parts: list[float] = []
    certify_sizes(small_day(), [0, 1_000_000], progress=parts.append)
    assert parts == sorted(parts)
    assert parts[-1] == 1.0


def test_nobody_to_deliver_to_asks_for_nothing() -> None:
    workload = Workload.of([(0.0, PUBLISH, 0, 5), (1.0, ONLINE, 0, 0)], [0], 1, 1)
    told = certify(workload, 10)
    assert (told.requests, told.gets, told.hits.limit) == (0, 0, 0)
    assert told.latency_mean_s.limit == 0


def test_the_page_runs_as_printed(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "lab" / "bounds.md").read_text()
    (printed,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(printed, {})  # noqa: S102
    hits, latency = (
        [float(word) for word in line.split()] for line in capsys.readouterr().out.splitlines()
    )
    assert 0.3 < hits[0] < hits[1] < 0.9
    assert 1.0 > latency[0] > latency[1] > 0.25
