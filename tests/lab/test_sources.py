"""The digest of a point follows the code that decides it, and no other."""

from __future__ import annotations

from tocsin.lab.compiling.imports import imported
from tocsin.lab.subjects.result_cache import RESULT_CACHE
from tocsin.lab.sweeps.sources import policy_digest


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
