"""What it costs the cluster's process that a result goes to one more broker: the same runs with one
broker and with several, without Spark."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.control import Helper
from bench.forward import MODULE, ROWS, _ask, _until

SETS = 1000
BROKERS = ("bench_a", "bench_b", "bench_c")


def us_per_copy(runs: int) -> float:
    few, many = _us_per_result(BROKERS[:1], runs), _us_per_result(BROKERS, runs)
    return max(0.0, (many - few) / (len(BROKERS) - 1))


def _us_per_result(names: Sequence[str], runs: int) -> float:
    with ExitStack() as stack:
        cluster = Helper(MODULE, "cluster")
        stack.callback(cluster.stop)
        url = cluster.hear()["url"]
        _ask(cluster, sets=SETS, brokers=names)
        brokers = []
        for name in names:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tocsin-bench-"))
            brokers.append(Helper(MODULE, "broker", url, str(Path(folder)), name))
            stack.callback(brokers[-1].stop)
            brokers[-1].hear()
        _run(cluster, brokers, 3)  # once unmeasured: everything is imported and known
        began = _ask(cluster)["cpu_s"]
        _run(cluster, brokers, runs)
        return 1e6 * float(_ask(cluster)["cpu_s"] - began) / (runs * ROWS)


def _run(cluster: Helper, brokers: Sequence[Helper], runs: int) -> None:
    had = [_ask(broker)["inserted"] for broker in brokers]
    for number in range(1, runs + 1):
        _ask(cluster, rows=ROWS)
        for broker, before in zip(brokers, had, strict=True):
            _until(broker, before + number * ROWS)
