"""The digest of a point follows the code that decides it, and no other."""

from __future__ import annotations

from tocsin.lab.jit.imports import imported
from tocsin.lab.studies.consumer_logs import PAPERS_LOGS
from tocsin.lab.studies.message_cache import MESSAGE_CACHE
from tocsin.lab.studies.pages import PAGES, bound
from tocsin.lab.studies.result_cache import RESULT_CACHE
from tocsin.lab.sweeps.sources import code_of, point_digest, policy_digest


def names(module: str) -> set[str]:
    return {path.stem for path in imported(module)}


def test_simulation_depends_on_kernel_and_estimates_not_on_figures() -> None:
    found = names("tocsin.lab.simulators.result_cache.simulator")
    assert {"simulator", "kernel", "heap", "network", "workload", "estimates"} <= found
    assert not {"figures", "claims", "report", "sweep", "lsc", "return_rate"} & found


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
    assert PAPERS_LOGS.live is not None
    played = {path.name for path in code_of(PAPERS_LOGS.live.draw)}
    assert "paper.py" in played
    assert not {"logs.py", "kernel.py"} & played
    assert live != point_digest(PAPERS_LOGS, "live", "buffer(0.5,0.5)")


def test_code_of_a_study_is_what_its_functions_reach() -> None:
    played, bounded = (
        {f"{path.parent.name}/{path.stem}" for path in code_of(function)}
        for function in (PAGES.play, bound)
    )
    assert {"studies/pages", "page_cache/simulator", "page_cache/kernel"} <= played
    assert "bounds/pages" not in played
    assert {"bounds/pages", "page_cache/simulator"} <= bounded
    made = {path.stem for path in code_of(RESULT_CACHE.make)}
    assert {"edge", "workload"} <= made
    assert "simulator" not in made
    models = {path.stem for path in code_of(MESSAGE_CACHE.play)}
    assert {"named", "wide", "exact", "measures", "kernel"} <= models
