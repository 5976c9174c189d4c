"""Points of a plan with a tree of brokers, live; and what the same visits find over links that take
as long, for each hop, as the live points show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from tocsin.lab.declaring.plan import Plan
from tocsin.lab.declaring.subject import Row
from tocsin.lab.prototype.brokers.player import Played, Player
from tocsin.lab.prototype.brokers.stage import staged
from tocsin.lab.prototype.playing import Found, play_points, prediction
from tocsin.lab.simulators.overlay.visits import Foretold, foretell, measures_of
from tocsin.lab.sweeps.points import Store
from tocsin.lab.sweeps.sweep import Progress, Swept
from tocsin.lab.sweeps.tasks import Task
from tocsin.lab.workloads.tree import TreeLoad
from tocsin.lab.workloads.visits import Visits, draw_visits
from tocsin.policies.message import parse_message_policy

WARM_UP = {"messages": 3, "slots": 3, "client_rate": 0.5, "client_load": 1.0, "duration_s": 4.0}


def play_live(plan: Plan, store: Store, progress: Progress) -> Swept:
    (brokers,) = {one.workload.brokers for one in plan.circumstances.values()}

    @contextmanager
    def ready() -> Iterator[Callable[[Task], Row]]:
        with staged(progress, brokers) as player:
            _warm_up(player, brokers, progress)
            yield lambda task: play_task(player, task)

    return play_points(plan, store, progress, ready, predictions)


def play_task(player: Player, task: Task) -> Row:
    visits, foretold = _given(task)
    speed = task.circumstances.surroundings.speed
    policy = parse_message_policy(task.policy)
    return _row(visits, foretold, player.play(visits, policy, foretold, speed=speed))


def predictions(found: Found) -> list[Row]:
    """With a delay for each hop that is the same in all points."""
    hops = [hop for _, row in found for hop in row["found_hops"]]
    here_s, hop_s = hop_costs(hops, [took for _, row in found for took in row["found_s"]])
    rows = []
    for task, _ in found:
        visits, foretold = _given(task)
        row = measures_of(visits, foretold.answers)
        if "hops" in row:
            row["delay_s"] = here_s + hop_s * row["hops"]
        rows.append(prediction(task, row | {"cost_here_s": here_s, "cost_hop_s": hop_s}))
    return rows


def hop_costs(hops: list[int], took_s: list[float]) -> tuple[float, float]:
    """What an answer takes where the request is made, and what each hop adds: least squares."""
    if len(set(hops)) < 2:
        return float(np.mean(took_s or [0.0])), 0.0
    hop_s, here_s = np.polyfit(hops, took_s, 1)
    return float(here_s), float(hop_s)


def _given(task: Task) -> tuple[Visits, Foretold]:
    visits = draw_visits(task.workload, task.seed)
    return visits, foretell(visits, parse_message_policy(task.policy))


def _row(visits: Visits, foretold: Foretold, played: Played) -> Row:
    """With what was foretold of the same visits: claims compare the two point by point."""
    answers, expected = played.answers, foretold.answers
    hops, took_s = answers.hops[answers.answered], played.took_s[answers.answered]
    row: Row = {
        **measures_of(visits, answers),
        **{f"foretold_{name}": one for name, one in measures_of(visits, expected).items()},
        "requests": len(answers.hops),
        "as_foretold": float((answers.hops == expected.hops).mean()),
        "late_s": float(played.late_s.mean()),
        "found_hops": hops.tolist(),
        "found_s": took_s.tolist(),
    }
    if len(hops):
        row["delay_s"] = float(took_s.mean())
        row["hop_s"] = hop_costs(row["found_hops"], row["found_s"])[1]
    return row


def _warm_up(player: Player, brokers: int, progress: Progress) -> None:
    """The first calls open connections."""
    progress.begin("warming up", 0)
    visits = draw_visits(TreeLoad(brokers=brokers, **WARM_UP), 0)  # type: ignore[arg-type]
    policy = parse_message_policy("basic")
    player.play(visits, policy, foretell(visits, policy), speed=1.0)
