"""Whatever has a live form, played live: which system, the subject of the plan says."""

from __future__ import annotations

from tocsin.lab.declaring.plan import Plan
from tocsin.lab.prototype.brokers import sweeping as of_brokers
from tocsin.lab.prototype.consumer_logs import sweeping as of_logs
from tocsin.lab.subjects.consumer_logs import PAPERS_LOGS
from tocsin.lab.sweeps.points import Store
from tocsin.lab.sweeps.sweep import Progress, Swept


def play_live(
    plan: Plan, store: Store, progress: Progress, *, log: str = "", database: str = ""
) -> Swept:
    """What the store lacks, and predictions of all. Servers that are not named are started."""
    if plan.subject is PAPERS_LOGS:
        return of_logs.play_live(plan, store, progress, log=log, database=database)
    return of_brokers.play_live(plan, store, progress)
