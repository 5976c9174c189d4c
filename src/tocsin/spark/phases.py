"""How long the phases of runs take."""

from __future__ import annotations

from contextlib import AbstractContextManager

from prometheus_client import Histogram

PHASE_TIME = Histogram("tocsin_run_phase_seconds", "Time of a run's phases", ["phase"])


def phase(name: str) -> AbstractContextManager[object]:
    return PHASE_TIME.labels(name).time()
