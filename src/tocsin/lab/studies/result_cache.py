"""A broker's result cache on BAD's simulated day; the axis is its size.

The columns of a bound are named as those of a simulation, with `best_` (nobody passes it) and
`reached_` (a run that knows the future does reach it) before them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tocsin.lab.bounds import Interval, certify
from tocsin.lab.simulators.result_cache.simulator import simulate
from tocsin.lab.spec.columns import bound_columns
from tocsin.lab.spec.study import Row, Study
from tocsin.lab.workloads.edge import EdgeSettings, edge_workload
from tocsin.lab.workloads.network import Network
from tocsin.lab.workloads.workload import Workload
from tocsin.policies import parse_policy


def play(workload: Workload, policy: str, size_bytes: int, network: Network) -> Row:
    return dict(simulate(workload, parse_policy(policy), size_bytes, network).row())


def bound(workload: Workload, size_bytes: int, network: Network) -> Row:
    """Intervals for hit ratio, bytes and latency. Each may need a schedule of its own."""
    certificate = certify(workload, size_bytes, network)
    plain = simulate(workload, parse_policy("none"), size_bytes, network)
    asked_bytes, hit = plain.hit_bytes + plain.miss_bytes, certificate.hit_bytes
    missed = Interval(asked_bytes - hit.reached, asked_bytes - hit.limit)
    volume_bytes = plain.volume_bytes  # a broker such as BAD's pulls every result ahead
    intervals = {
        "hit_ratio": certificate.hit_ratio,
        "hit_bytes": hit,
        "miss_bytes": missed,
        "fetched_bytes": Interval(volume_bytes + missed.reached, volume_bytes + missed.limit),
        "latency_mean_s": certificate.latency_mean_s,
    }
    row = {}
    for metric, interval in intervals.items():
        best, reached = bound_columns(metric)
        row[best], row[reached] = float(interval.limit), float(interval.reached)
    return row


def functions(policy: str) -> list[Any]:
    return [function for chosen in parse_policy(policy).chosen for function in chosen.functions]


def load(directory: Path) -> Workload:
    return Workload.load(directory, mmap=True)


RESULT_CACHE = Study(
    name="result-cache",
    workload=EdgeSettings,
    environment=Network,
    make=edge_workload,
    load=load,
    play=play,
    bound=bound,
    functions=functions,
)
