"""From the rows that a run found to a broker's cache: results a second, and what each costs.

Results travel with the notice. Beside it, in turns and on the same system, the broker says that it
keeps nothing it did not ask for, and fetches each result back from the store.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from bench.control import Helper
from bench.findings import Finding

MODULE = "bench.forward_server"
ROWS = 1_000  # of each run
AHEAD = 4  # runs that are committed while the broker takes the first of them
SETS = (1_000, 20_000)
ROUNDS = 5


def run(quick: bool, say: Callable[[str], None]) -> list[Finding]:
    findings: list[Finding] = []
    for sets in SETS:
        say(f"{sets:,} parameter sets")
        forward, fetched = _measure(sets, runs=10 if quick else 40)
        details = {"rows_of_a_run": ROWS, "rounds": {"ours": forward, "baseline": fetched}}
        for what, unit, lower in (
            ("results from rows to a broker's cache", "results/s", False),
            ("CPU of the cluster for each", "µs", True),
            ("CPU of the broker for each", "µs", True),
        ):
            ours, theirs = ([round_[what] for round_ in rounds] for rounds in (forward, fetched))
            finding = Finding(
                claim=f"{what}, {sets:,} sets",
                unit=unit,
                ours=median(ours),
                baseline=median(theirs),
                baseline_is="each fetched back from the store",
                lower_is_better=lower,
                target=15.0 if lower else 10_000.0,
                details=details,
            )
            findings.append(finding)
    return findings


def _measure(sets: int, runs: int) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    forward, fetched = [], []
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder:
        cluster = Helper(MODULE, "cluster")
        try:
            url = cluster.hear()["url"]
            _ask(cluster, sets=sets)
            broker = Helper(MODULE, "broker", url, folder)
            try:
                broker.hear()
                for keeps in (True, False):  # once unmeasured: everything is imported and known
                    _round(cluster, broker, 3, keeps)
                for _ in range(ROUNDS):
                    forward.append(_round(cluster, broker, runs, True))
                    fetched.append(_round(cluster, broker, runs, False))
            finally:
                broker.stop()
        finally:
            cluster.stop()
    return forward, fetched


def _round(cluster: Helper, broker: Helper, runs: int, keeps: bool) -> dict[str, float]:
    """What so many runs take until all that they found is in the broker's cache."""
    before = _ask(broker, keeps=keeps)
    _ask(cluster, rows=ROWS)  # with the answer to its notice the broker says what it keeps
    _until(broker, before["inserted"] + ROWS)
    time.sleep(0.2)
    at_broker, at_cluster = _ask(broker), _ask(cluster)
    began = time.perf_counter()
    for number in range(1, runs + 1):
        _ask(cluster, rows=ROWS)
        _until(broker, at_broker["inserted"] + (number - AHEAD) * ROWS)
    done = _until(broker, at_broker["inserted"] + runs * ROWS)
    took_s, count = time.perf_counter() - began, runs * ROWS
    return {
        "results from rows to a broker's cache": count / took_s,
        "CPU of the cluster for each": 1e6 * (_ask(cluster)["cpu_s"] - at_cluster["cpu_s"]) / count,
        "CPU of the broker for each": 1e6 * (done["cpu_s"] - at_broker["cpu_s"]) / count,
        "fetched": (done["fetched_bytes"] - at_broker["fetched_bytes"]) / count,
    }


def _ask(helper: Helper, **order: Any) -> dict[str, Any]:
    helper.tell(**order)
    return helper.hear()


def _until(broker: Helper, inserted: float) -> dict[str, Any]:
    while True:
        stands = _ask(broker)
        if stands["inserted"] >= inserted:
            return stands
        time.sleep(0.01)
