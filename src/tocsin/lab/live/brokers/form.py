"""Visits at a tree of brokers, live; and what the same visits find over links that take as long,
for each hop, as the live points show.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from tocsin.lab.live.brokers.player import Played, VisitPlayer
from tocsin.lab.live.brokers.tree import staged
from tocsin.lab.simulators.overlay.visits import Foretold, foretell, measures_of
from tocsin.lab.spec.progress import Progress
from tocsin.lab.spec.study import LiveForm, LivePlay, LivePoint, Predict, Row, Servers
from tocsin.lab.workloads.tree import TreeLoad
from tocsin.lab.workloads.visits import Visits, draw_visits
from tocsin.policies.message import parse_message_policy

WARM_UP = {"messages": 3, "slots": 3, "client_rate": 0.5, "client_load": 1.0, "duration_s": 4.0}


@contextmanager
def stage(points: Sequence[LivePoint], progress: Progress, _: Servers) -> Iterator[LivePlay]:
    (brokers,) = {point.workload.brokers for point in points}
    with staged(progress, brokers) as player:
        _warm_up(player, brokers, progress)
        yield lambda visits, policy, runs: _play(player, visits, policy, runs.speed)


def predictor(_: Sequence[LivePoint], rows: Sequence[Row]) -> Predict:
    """With a delay for each hop that is the same in all points."""
    hops = [hop for row in rows for hop in row["found_hops"]]
    here_s, hop_s = hop_costs(hops, [took_s for row in rows for took_s in row["found_s"]])

    def predict(visits: Visits, policy: str) -> Row:
        row = measures_of(visits, foretell(visits, parse_message_policy(policy)).answers)
        if "hops" in row:
            row["delay_s"] = here_s + hop_s * row["hops"]
        return row | {"cost_here_s": here_s, "cost_hop_s": hop_s}

    return predict


def hop_costs(hops: list[int], took_s: list[float]) -> tuple[float, float]:
    """What an answer takes where the request is made, and what each hop adds: least squares."""
    if len(set(hops)) < 2:
        return float(np.mean(took_s or [0.0])), 0.0
    hop_s, here_s = np.polyfit(hops, took_s, 1)
    return float(here_s), float(hop_s)


def _play(player: VisitPlayer, visits: Visits, policy: str, speed: float) -> Row:
    parsed = parse_message_policy(policy)
    foretold = foretell(visits, parsed)
    return _row(visits, foretold, player.play(visits, parsed, foretold, speed=speed))


def _row(visits: Visits, foretold: Foretold, played: Played) -> Row:
    """With what was foretold of the same visits: claims compare the two point by point."""
    answers, expected = played.answers, foretold.answers
    hops, took_s = answers.hops[answers.answered], played.took_s[answers.answered]
    row: Row = {
        **measures_of(visits, answers),
        **{f"foretold_{name}": value for name, value in measures_of(visits, expected).items()},
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


def _warm_up(player: VisitPlayer, brokers: int, progress: Progress) -> None:
    """The first calls open connections."""
    progress.begin("warming up", 0)
    visits = draw_visits(TreeLoad(brokers=brokers, **WARM_UP), 0)  # type: ignore[arg-type]
    policy = parse_message_policy("basic")
    player.play(visits, policy, foretell(visits, policy), speed=1.0)


LIVE_BROKERS = LiveForm(draw=draw_visits, stage=stage, predictor=predictor)
