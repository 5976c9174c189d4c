"""Points of a plan with consumer logs, live; and what the simulator predicts of each, over the same
offers, with the costs that the live points show.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from msgspec.structs import asdict

from tocsin.lab.declaring.plan import Plan
from tocsin.lab.declaring.subject import Row
from tocsin.lab.prototype.consumer_logs.costs import COSTS, measured_costs
from tocsin.lab.prototype.consumer_logs.player import Played, Player
from tocsin.lab.prototype.consumer_logs.stage import staged
from tocsin.lab.prototype.playing import Found, play_points, prediction
from tocsin.lab.simulators.consumer_logs import Logs, simulate
from tocsin.lab.sweeps.points import Store
from tocsin.lab.sweeps.sweep import Progress, Swept
from tocsin.lab.sweeps.tasks import Task
from tocsin.lab.workloads.offers import PaperSettings, paper_offers
from tocsin.policies import parse_admission

MARK_S = 0.1
WARM_UPS = ("all", "none", "all")


def play_live(
    plan: Plan, store: Store, progress: Progress, *, log: str = "", database: str = ""
) -> Swept:
    mark_s = mark_s_of(plan)

    @contextmanager
    def ready() -> Iterator[Callable[[Task], Row]]:
        with staged(progress, log=log, database=database, mark_s=mark_s) as player:
            _warm_up(player, progress)
            yield lambda task: _row(player.play(*_given(task)))

    return play_points(plan, store, progress, ready, lambda found: predictions(found, mark_s))


def mark_s_of(plan: Plan) -> float:
    """A live log must get head marks while records are published, too."""
    (logs,) = {one.surroundings for one in plan.circumstances.values()}
    return float(logs.mark_s or MARK_S)


def predictions(found: Found, mark_s: float) -> list[Row]:
    costs = measured_costs([row for _, row in found], mark_s)
    told = {f"cost_{name}": getattr(costs, name) for name in COSTS}
    rows = []
    for task, _ in found:
        offers, policy, _ = _given(task)
        rows.append(prediction(task, dict(simulate(offers, policy, costs).row()) | told))
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
