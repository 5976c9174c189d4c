"""What a cache may be best at: hits, bytes hit, or time saved; each as values of deliveries.

Time: a get that misses anything costs one round trip to the cluster, and each missed byte its
transfer. As the cached part of a get is its newest part, everything is hit exactly when the oldest
object is: the round trip is a bonus on the object a get begins with.

This module must not know budgets or schedules.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from tocsin.lab.bounds.demand import Demand, Floats
from tocsin.lab.workloads.network import Network

GoalName = Literal["hits", "hit_bytes", "latency"]
GOALS: tuple[GoalName, ...] = ("hits", "hit_bytes", "latency")


class Goal(NamedTuple):
    """The value of one delivery of each object, and the bonus if a get begins with it."""

    worth: Floats
    bonus: float


def goal_of(name: GoalName, demand: Demand, network: Network) -> Goal:
    if name == "hits":
        return Goal(np.ones(demand.objects), 0.0)
    if name == "hit_bytes":
        return Goal(demand.size_bytes.astype(np.float64), 0.0)
    return Goal(demand.size_bytes / network.cluster_bytes_per_s, network.cluster_rtt_s)
