"""The digest of a point follows the code that decides it, and no other."""

from __future__ import annotations

from tocsin.lab.compiling.imports import imported
from tocsin.lab.subjects.consumer_logs import PAPERS_LOGS
from tocsin.lab.subjects.result_cache import RESULT_CACHE
from tocsin.lab.sweeps.sources import point_digest, policy_digest


def names(module: str) -> set[str]:
    return {path.stem for path in imported(module)}


def test_simulation_depends_on_kernel_and_estimates_not_on_figures() -> None:
    found = names("tocsin.lab.simulators.result_cache.simulator")
    assert {"simulator", "kernel", "heap", "network", "workload", "estimates"} <= found
    assert not {"figures", "claims", "report", "sweep", "lsc", "homing"} & found


def test_policies_have_digests_of_their_own() -> None:
    digests = [
        policy_digest(RESULT_CACHE, text)
        for text in ("lru", "lsc", "ttl", "admit=mean(5) evict=lru")
    ]
    assert len(set(digests)) == len(digests)
    assert policy_digest(RESULT_CACHE, "lru") == policy_digest(RESULT_CACHE, "evict=lru")


def test_live_points_outlive_changes_of_the_simulator() -> None:
    live, simulated = (
        point_digest(PAPERS_LOGS, kind, "mean(50)") for kind in ("live", "simulation")
    )
    assert live != simulated
    assert simulated == point_digest(PAPERS_LOGS, "prediction", "mean(50)")
    played = {path.name for module in PAPERS_LOGS.live_by for path in imported(module)}
    assert "paper.py" in played
    assert not {"logs.py", "kernel.py"} & played
    assert live != point_digest(PAPERS_LOGS, "live", "buffer(0.5,0.5)")
