"""Offers with consumer logs, live; and what the simulator predicts of the same offers with the
costs that the live points show.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import asdict

from tocsin.lab.live.consumer_logs.costs import COSTS, measured_costs
from tocsin.lab.live.consumer_logs.player import OfferPlayer, Played
from tocsin.lab.live.consumer_logs.servers import staged
from tocsin.lab.simulators.consumer_logs import simulate
from tocsin.lab.spec.progress import Progress
from tocsin.lab.spec.study import LiveForm, LivePlay, LivePoint, Predict, Row, Servers
from tocsin.lab.workloads.offers import Offers, PaperSettings, paper_offers
from tocsin.policies import parse_admission

MARK_S = 0.1
WARM_UPS = ("all", "none", "all")


@contextmanager
def stage(points: Sequence[LivePoint], progress: Progress, servers: Servers) -> Iterator[LivePlay]:
    with staged(
        progress, log=servers.log, database=servers.database, mark_s=mark_s_of(points)
    ) as player:
        _warm_up(player, progress)
        yield lambda offers, policy, logs: _row(player.play(offers, parse_admission(policy), logs))


def mark_s_of(points: Sequence[LivePoint]) -> float:
    """A live log must get head marks while records are published, too."""
    (logs,) = {point.environment for point in points}
    return float(logs.mark_s or MARK_S)


def predictor(points: Sequence[LivePoint], rows: Sequence[Row]) -> Predict:
    costs = measured_costs(rows, mark_s_of(points))
    columns = {f"cost_{name}": getattr(costs, name) for name in COSTS}

    def predict(offers: Offers, policy: str) -> Row:
        return dict(simulate(offers, parse_admission(policy), costs).row()) | columns

    return predict


def _row(played: Played) -> Row:
    known = {name: value for name, value in played.measures.row().items() if not math.isnan(value)}
    return known | asdict(played.timings)


def _warm_up(player: OfferPlayer, progress: Progress) -> None:
    """The first plays are slow: Java has not compiled anything yet."""
    progress.begin("warming up", len(WARM_UPS))
    for text in WARM_UPS:
        player.warm_up(paper_offers(PaperSettings(records=500), 0), parse_admission(text))
        progress.advance(1)


LIVE_LOGS = LiveForm(draw=paper_offers, stage=stage, predictor=predictor)
