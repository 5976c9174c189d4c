"""From loads that were played to the price of a run, a record, a result and a delivery. Pure.

The CPU of a process over a load is a sum of products: its idle time, and each kind of thing times
its price. The loads differ in what they have of each, so the prices are the solution of those
equations: with the least relative error, and none below zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import numpy as np
from scipy.optimize import nnls

from bench.capacity.plays import Played
from tocsin.lab.capacity.costs import ProcessCosts

BY_PROCESS = {
    "cluster": ("run", "run_per_1000_sets", "record", "result", "delivery"),
    "Java": ("run", "run_per_1000_sets", "record", "result"),
    "broker": ("run", "result", "delivery"),
    "coordinator": (),
    "client": ("delivery",),
    "publisher": ("record",),
    "Kafka": ("record", "result"),
    "PostgreSQL": ("run", "record", "result", "delivery"),
}
"""What each process has to do with. More would let noise into prices of what does not exist."""
LEAST_CPU_S = 0.02  # less is told by the kernel's clock too roughly to weigh more


def prices(played: Sequence[Played], process: str) -> ProcessCosts:
    kinds = ("idle", *BY_PROCESS[process])
    rows = np.array([[_amount(play, kind, process) for kind in kinds] for play in played])
    used_s = np.array([play.cpu_s.get(process, 0.0) for play in played])
    weights = 1 / np.maximum(used_s, LEAST_CPU_S)
    scale = np.maximum(np.abs(rows * weights[:, None]).max(axis=0), 1e-12)  # of columns: alike
    found, _ = nnls(rows * weights[:, None] / scale, used_s * weights)
    per = dict(zip(kinds, (found / scale).tolist(), strict=True))
    idle = per.pop("idle")
    return ProcessCosts(
        idle_cores=idle, **{f"us_per_{kind}": 1e6 * price for kind, price in per.items()}
    )


def explained_s(play: Played, process: str, costs: ProcessCosts) -> float:
    """The CPU that these prices say the load took."""
    used_us = 1e6 * costs.idle_cores * play.took_s
    for kind in BY_PROCESS[process]:
        price_us: float = getattr(costs, f"us_per_{kind}")
        used_us += price_us * _amount(play, kind, process)
    return used_us / 1e6


def run_wait_s(played: Sequence[Played], java: ProcessCosts, cluster: ProcessCosts) -> float:
    """What runs took beside the CPU that they cost: of the load where that was least, since on a
    machine that has no core free they also wait for others."""
    waits = []
    for play in played:
        if play.runs < 5:
            continue
        us = play.runs * (java.us_of_run(play.sets) + cluster.us_of_run(play.sets))
        us += play.records * java.us_per_record
        us += play.results * (java.us_per_result + cluster.us_per_result)
        waits.append((play.run_s - us / 1e6) / play.runs)
    return max(0.0, min(waits, default=0.0))


def others(played: Sequence[Played]) -> float:
    return median(play.others_cores for play in played)


def _amount(play: Played, kind: str, process: str) -> float:
    match kind:
        case "idle":
            return play.took_s
        case "run":
            return play.runs
        case "run_per_1000_sets":
            return play.runs * play.sets / 1000
        case "record":
            return play.records
        case "delivery":
            return play.deliveries
    # A broker hears only of results that concern somebody there.
    return play.listened_results if process == "broker" else play.results
