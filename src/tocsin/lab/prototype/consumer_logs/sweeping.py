"""The points of a plan, played live one after the other and kept; then each is predicted by the
simulator, over the same offers, with the costs that the live points show.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from msgspec.structs import asdict, replace

from tocsin.lab.declaring.plan import Plan
from tocsin.lab.declaring.subject import Row
from tocsin.lab.prototype.consumer_logs.costs import COSTS, measured_costs
from tocsin.lab.prototype.consumer_logs.player import Played, Player
from tocsin.lab.prototype.consumer_logs.seen import Broken
from tocsin.lab.prototype.consumer_logs.stage import staged
from tocsin.lab.simulators.consumer_logs import Logs, simulate
from tocsin.lab.sweeps.points import Store
from tocsin.lab.sweeps.sources import point_digest
from tocsin.lab.sweeps.sweep import Progress, Swept, tasks_of
from tocsin.lab.sweeps.tasks import Failure, Task
from tocsin.lab.workloads.offers import PaperSettings, paper_offers
from tocsin.policies import parse_admission

MARK_S = 0.1
WARM_UPS = ("all", "none", "all")


def play_live(
    plan: Plan, store: Store, progress: Progress, *, log: str = "", database: str = ""
) -> Swept:
    """Play what the store lacks. Whatever ends it, finished points are in the store."""
    wanted = tasks_of(plan)
    missing = sorted(
        (task for task in wanted if not store.has(task)), key=lambda task: (task.seed, task.value)
    )
    failures: list[Failure] = []
    mark_s = mark_s_of(plan)
    if missing:
        with staged(progress, log=log, database=database, mark_s=mark_s) as player:
            _warm_up(player, progress)
            progress.begin("live points", len(wanted))
            progress.advance(len(wanted) - len(missing))
            for task in missing:
                try:
                    store.add([task.row(_row(player.play(*_given(task))))])
                except Broken as reason:
                    failures.append(Failure(task, str(reason)))
                progress.advance(1)
    found = [(task, row) for task in wanted if (row := store.row_of(task)) is not None]
    if found:
        store.add(predictions(found, mark_s))
    return Swept(len(missing) - len(failures), len(wanted) - len(missing), failures)


def mark_s_of(plan: Plan) -> float:
    """A live log must get head marks while records are published, too."""
    (logs,) = {one.surroundings for one in plan.circumstances.values()}
    return float(logs.mark_s or MARK_S)


def predictions(found: Sequence[tuple[Task, Row]], mark_s: float) -> list[Row]:
    costs = measured_costs([row for _, row in found], mark_s)
    told = {f"cost_{name}": getattr(costs, name) for name in COSTS}
    rows = []
    for task, _ in found:
        offers, policy, _ = _given(task)
        code = point_digest(task.subject, "prediction", task.policy)
        recording = task.sources.partition("-")[2]
        predicted = replace(
            task, kind="prediction", sources=f"{code}-{recording}" if recording else code
        )
        rows.append(predicted.row(dict(simulate(offers, policy, costs).row()) | told))
    return rows


def _given(task: Task) -> tuple[Any, Any, Logs]:
    """What a `Play` takes."""
    offers = task.subject.make(task.workload, task.seed)
    return offers, parse_admission(task.policy), task.circumstances.surroundings


def _row(played: Played) -> Row:
    known = {name: one for name, one in played.measures.row().items() if not math.isnan(one)}
    return known | asdict(played.timings)


def _warm_up(player: Player, progress: Progress) -> None:
    """The first plays are slow: Java has not compiled anything yet."""
    progress.begin("warming up", len(WARM_UPS))
    for text in WARM_UPS:
        player(paper_offers(PaperSettings(records=500), 0), parse_admission(text), Logs())
        progress.advance(1)
