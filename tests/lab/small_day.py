"""Two hours of a small BAD, and every policy: what tests of policies and simulators run over."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from tocsin.lab.workloads.edge import EdgeSettings, edge_workload
from tocsin.lab.workloads.network import Network
from tocsin.lab.workloads.workload import Workload
from tocsin.policies import FAMILIES, policy_names

SETTINGS = EdgeSettings(
    subscribers=16,
    subscriptions_each=2,
    backends=12,
    hours=2.0,
    size_bytes=(100, 5_000),
    on_minutes=(1.0, 1.0),
    off_minutes=(0.5, 1.0),
)
NETWORK = Network(cluster_bytes_per_s=5_000.0)  # so slow that sizes matter to what a fetch takes
BUDGET_BYTES = 40_000  # 0.5 % of what is made

EVICTING = [
    *FAMILIES["evict"],
    *(f"admit={name} evict=lsc" for name in FAMILIES["admit"] if name not in ("all", "none")),
    "evict=return-rate expire=ttl",
]
"""Policies under which the byte budget holds at every moment."""
EVERY_POLICY = [*policy_names(), *(text for text in EVICTING if " " in text)]


@cache
def small_day() -> Workload:
    return edge_workload(SETTINGS, seed=7).check()


@cache
def first_minutes() -> Workload:
    """Its beginning, for what is slow."""
    day = small_day()
    first = slice(400)
    return replace(
        day,
        at=day.at[first],
        kind=day.kind[first],
        subject=day.subject[first],
        value=day.value[first],
        duration_s=float(day.at[first][-1]),
    )
