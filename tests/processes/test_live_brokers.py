"""Clients come and go at live brokers of a tree: their requests find what the simulator's core says
of the same clients, under both policies of the overlay paper."""

from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from tocsin.lab.live.brokers.tree import staged
from tocsin.lab.simulators.overlay.visits import foretell, measures_of
from tocsin.lab.workloads.tree import TreeLoad
from tocsin.lab.workloads.visits import Visits, draw_visits
from tocsin.policies.message import parse_message_policy

pytestmark = [pytest.mark.processes, pytest.mark.timeout(180)]

APART_S = 0.1  # so that two events seldom change places on their way
TRIES = 3


class Quiet:
    def begin(self, what: str, total: int) -> None: ...

    def advance(self, count: int) -> None: ...


def one_after_the_other(visits: Visits) -> Visits:
    """The same clients in the same order, but all equally far apart."""
    early = visits.early
    times = np.sort(np.concatenate([visits.came_s[early:], visits.left_s]))
    came_s, left_s = (
        (np.searchsorted(times, when) + 1) * APART_S for when in (visits.came_s, visits.left_s)
    )
    came_s[:early] = 0.0
    end_s = float(np.searchsorted(times, visits.load.duration_s) + 1) * APART_S
    load = replace(visits.load, duration_s=end_s)
    return replace(visits, load=load, came_s=came_s, left_s=left_s)


def test_live_answers_are_those_of_the_core() -> None:
    load = TreeLoad(
        brokers=3, messages=4, slots=2, client_rate=1.0, client_load=0.6, duration_s=3.0
    )
    visits = one_after_the_other(draw_visits(load, 5))
    with staged(Quiet(), 3) as player:
        for text in ("basic", "leaf"):
            policy = parse_message_policy(text)
            foretold = foretell(visits, policy)
            for _ in range(TRIES):
                played = player.play(visits, policy, foretold, speed=1.0)
                answers, expected = played.answers, foretold.answers
                if (answers.hops == expected.hops).all():
                    break  # else a pause of the machine made two events change places
            assert 5 < expected.answered.sum() < len(expected.hops)
            assert (answers.hops == expected.hops).mean() >= 0.9
            live, simulated = (measures_of(visits, one) for one in (answers, expected))
            for measure in ("delivery_ratio", "responses", "delivered", "hops"):
                assert live[measure] == pytest.approx(simulated[measure], rel=0.1), measure
            assert (played.took_s[answers.answered] >= 0).all()
            assert np.isnan(played.took_s[~answers.answered]).all()
