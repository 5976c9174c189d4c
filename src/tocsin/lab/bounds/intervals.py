"""Certified intervals: what the offline optimum reaches at least, and what no policy can beat.

A run that was really simulated stands for one end, weak duality for the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from msgspec import Struct

from tocsin.errors import SettingError
from tocsin.lab.bounds.demand import Demand, Floats, demand_of
from tocsin.lab.bounds.dual import Relaxation
from tocsin.lab.bounds.goals import GOALS, GoalName, goal_of
from tocsin.lab.bounds.interval import ROUNDING, Interval
from tocsin.lab.bounds.prices import LEVELS, best_prices
from tocsin.lab.bounds.replay import Reached, replay
from tocsin.lab.simulators.result_cache.simulator import Outcome
from tocsin.lab.workloads.network import Network
from tocsin.lab.workloads.workload import Workload

Progress = Callable[[float], None]  # with the part that is done


class Certificate(Struct, frozen=True, kw_only=True):
    """The offline optimum of each goal lies in its interval. They may need different schedules."""

    budget_bytes: int
    requests: int
    gets: int
    hits: Interval
    hit_bytes: Interval
    latency_mean_s: Interval  # of gets; less is better, so the limit is the smaller number

    @property
    def hit_ratio(self) -> Interval:
        requests = max(self.requests, 1)
        return Interval(self.hits.reached / requests, self.hits.limit / requests)


def certify(
    workload: Workload,
    budget_bytes: int,
    network: Network | None = None,
    also: Sequence[Outcome] = (),
    *,
    goals: Sequence[GoalName] = GOALS,
    bins: int = LEVELS[-1],
    progress: Progress = lambda part: None,
) -> Certificate:
    """The intervals for one cache size.

    `also` are outcomes of other runs with this workload and network, which may have reached more.
    Those that exceeded the budget (TTL may) prove nothing and are passed over. A goal left out of
    `goals` saves a third of the time and still gets a valid interval, a wide one.
    """
    outcomes = {budget_bytes: also}
    return certify_sizes(
        workload, [budget_bytes], network, outcomes, goals=goals, bins=bins, progress=progress
    )[0]


def certify_sizes(
    workload: Workload,
    budgets_bytes: Sequence[int],
    network: Network | None = None,
    also: Mapping[int, Sequence[Outcome]] | None = None,
    *,
    goals: Sequence[GoalName] = GOALS,
    bins: int = LEVELS[-1],
    progress: Progress = lambda part: None,
) -> list[Certificate]:
    """The intervals for several cache sizes, in the order given.

    They tighten each other: what a smaller cache reaches a larger one does too, and the limit of a
    larger one holds for a smaller. `also` is by size.
    """
    if not all(size >= 0 for size in budgets_bytes):
        raise SettingError(
            f"a cache size is {min(budgets_bytes)} bytes", field="size", hint="0 or more bytes"
        )
    network = network or Network()
    demand = demand_of(workload)
    sizes = sorted(set(budgets_bytes))
    chosen = {name: goal_of(name, demand, network) for name in GOALS if name in goals}
    reached, limits = np.zeros((2, len(sizes), len(GOALS)))
    for row, size in enumerate(sizes):
        runs = [_NOTHING, *_comparable(demand, size, (also or {}).get(size, ()))]
        limits[row] = _in_goals(_everything(demand, size), network)
        for number, (name, goal) in enumerate(chosen.items()):
            done = row * len(chosen) + number
            advance = _part_of(progress, done, len(sizes) * len(chosen))
            priced = best_prices(Relaxation(demand, goal, size), bins=bins, progress=advance)
            runs.append(replay(demand, goal, size, priced.price, priced.selected))
            column = GOALS.index(name)
            limits[row, column] = min(limits[row, column], priced.bound * (1 + ROUNDING))
            advance(1.0)
        reached[row] = np.max([_in_goals(run, network) for run in runs], axis=0)
    certificates = _certificates(demand, network, sizes, reached, limits)
    return [certificates[size] for size in budgets_bytes]


def _part_of(progress: Progress, done: int, whole: int) -> Progress:
    """The progress of the next of so many parts, when so many are done."""
    return lambda part: progress((done + part) / whole)


def _certificates(
    demand: Demand, network: Network, sizes: Sequence[int], reached: Floats, limits: Floats
) -> dict[int, Certificate]:
    """By size, each end tightened by those of the other sizes."""
    reached = np.maximum.accumulate(reached, axis=0)
    limits = np.minimum.accumulate(limits[::-1], axis=0)[::-1]
    if (reached > limits * (1 + ROUNDING)).any():
        raise AssertionError("a run beats the bound: an outcome of another workload?")
    return {
        size: _certificate(demand, network, size, *ends)
        for size, *ends in zip(sizes, reached, limits, strict=True)
    }


_NOTHING = Reached(hits=0, hit_bytes=0, whole_gets=0, cache_max_bytes=0)


def _everything(demand: Demand, budget_bytes: int) -> Reached:
    """As if all that is not larger than the whole cache were always in it."""
    fits = demand.size_bytes <= budget_bytes
    deliveries = demand.deliveries[fits]
    return Reached(
        hits=int(deliveries.sum()),
        hit_bytes=int((deliveries * demand.size_bytes[fits]).sum()),
        whole_gets=int(demand.online[fits].sum()) + int(demand.oldest[fits].sum()),
        cache_max_bytes=budget_bytes,
    )


def _comparable(
    demand: Demand, budget_bytes: int, outcomes: Sequence[Outcome]
) -> Iterator[Reached]:
    """Those that kept the budget."""
    expected = int(demand.deliveries.sum()), demand.gets
    for outcome in outcomes:
        if (outcome.requests, outcome.gets) != expected:
            raise SettingError(
                f"an outcome has {outcome.requests} requests in {outcome.gets} gets, "
                f"the workload {expected[0]} in {expected[1]}",
                field="also",
                hint="give outcomes of runs over the same workload",
            )
        if outcome.cache_max_bytes <= budget_bytes:
            whole_gets = outcome.gets - outcome.gets_with_miss
            yield Reached(outcome.hits, outcome.hit_bytes, whole_gets, outcome.cache_max_bytes)


def _in_goals(run: Reached, network: Network) -> tuple[float, float, float]:
    """In the order of `GOALS`; of latency, what was saved."""
    saved_s = run.whole_gets * network.cluster_rtt_s + run.hit_bytes / network.cluster_bytes_per_s
    return run.hits, run.hit_bytes, saved_s


def _certificate(
    demand: Demand, network: Network, budget_bytes: int, reached: Floats, limits: Floats
) -> Certificate:
    delivered_bytes = int((demand.deliveries * demand.size_bytes).sum())
    worst_s = demand.gets * (network.subscriber_rtt_s + network.cluster_rtt_s) + (
        delivered_bytes / network.subscriber_bytes_per_s
        + delivered_bytes / network.cluster_bytes_per_s
    )
    gets = max(demand.gets, 1)
    latency = Interval(
        *((worst_s - min(saved, limits[2])) / gets for saved in (reached[2], limits[2]))
    )
    return Certificate(
        budget_bytes=budget_bytes,
        requests=int(demand.deliveries.sum()),
        gets=demand.gets,
        hits=Interval(int(reached[0]), math.floor(limits[0])),
        hit_bytes=Interval(int(reached[1]), math.floor(limits[1])),
        latency_mean_s=latency,
    )
