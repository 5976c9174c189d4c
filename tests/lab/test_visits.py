"""Visits to a tree of brokers: drawn by the simulator's law, and measured as they were played."""

from __future__ import annotations

import numpy as np
import pytest

from tocsin.errors import InvalidInput
from tocsin.lab.simulators.overlay.measures import measures
from tocsin.lab.simulators.overlay.simulator import simulate
from tocsin.lab.simulators.overlay.visits import NOBODY, Answers, foretell, measures_of
from tocsin.lab.workloads.tree import TreeLoad
from tocsin.lab.workloads.visits import Visits, draw_visits
from tocsin.policies.message import parse_message_policy

LOAD = TreeLoad(brokers=7, messages=5, slots=2, client_rate=0.1, client_load=0.6, duration_s=100.0)
BASIC = parse_message_policy("basic")


def test_clients_are_those_of_the_load() -> None:
    visits = draw_visits(TreeLoad(messages=200, duration_s=50.0), 1)
    cells = 7 * 200
    later = len(visits) - visits.early
    assert visits.early == pytest.approx(0.45 * cells, rel=0.1)
    assert later == pytest.approx(0.2 * 50 * cells, rel=0.03)
    assert (visits.left_s - visits.came_s).mean() == pytest.approx(0.45 / 0.2, rel=0.03)
    assert (visits.came_s[: visits.early] == 0).all()
    assert (np.diff(visits.came_s) >= 0).all()
    assert set(visits.broker) == set(range(7))
    assert set(visits.message) == set(range(200))


def test_a_seed_is_a_story() -> None:
    one, same, other = (draw_visits(LOAD, seed) for seed in (1, 1, 2))
    assert (one.left_s == same.left_s).all()
    assert len(one) != len(other)
    with pytest.raises(InvalidInput, match="a story needs an end"):
        draw_visits(TreeLoad(), 1)


def test_what_is_foretold_is_what_the_simulator_shows_in_many_runs() -> None:
    stories = [draw_visits(LOAD, seed) for seed in range(40)]
    found = [measures_of(one, foretell(one, BASIC).answers) for one in stories]
    expected = measures(simulate(LOAD, BASIC, runs=1000, seed=1))
    for name in ("delivery_ratio", "absorption_time", "hops", "responses", "delivered"):
        values = np.array([one[name] for one in found])
        error = values.std(ddof=1) / np.sqrt(len(values))
        mean = expected[name]
        assert abs(values.mean() - mean.value) <= 4 * error + mean.half, name


def visit(early: int, *rows: tuple[int, int, float, float]) -> Visits:
    broker, message, came_s, left_s = (np.array(column) for column in zip(*rows, strict=True))
    load = TreeLoad(brokers=3, messages=2, slots=1, duration_s=20.0)
    return Visits(
        load=load, broker=broker, message=message, came_s=came_s, left_s=left_s, early=early
    )


def test_a_story_by_hand() -> None:
    """Broker 0 is between 1 and 2. Message 0 is at 1, until its client leaves; nobody waits for
    message 1."""
    visits = visit(
        1,
        (1, 0, 0.0, 6.0),
        (2, 0, 2.0, 3.0),  # found two hops away
        (1, 0, 4.0, 5.0),  # found here
        (0, 1, 5.0, 30.0),  # nobody has it
        (2, 0, 8.0, 9.0),  # gone
        (2, 0, 10.0, 30.0),  # still gone
    )
    foretold = foretell(visits, BASIC)
    assert foretold.held == 1
    answers = foretold.answers
    assert answers.hops.tolist() == [2, 0, NOBODY, NOBODY, NOBODY]
    assert (answers.responses, answers.delivered) == (2, 2)
    assert measures_of(visits, answers) == {
        "absorption_time": (4.0 + 8.0) / 2 / 2,  # gone between two requests; the other: never there
        "delivery_ratio": 2 / 5,
        "hops": 1.0,
        "responses": 1.0,
        "delivered": 1.0,
        "there_share": 3.0 / 20.0,
    }


def test_a_message_that_answers_to_the_last_is_there_to_the_end() -> None:
    visits = visit(1, (1, 0, 0.0, 30.0), (2, 0, 2.0, 30.0))
    assert measures_of(visits, foretell(visits, BASIC).answers)["absorption_time"] == 20.0 / 2


def test_where_nobody_answers_there_are_no_hops() -> None:
    visits = visit(0, (1, 0, 1.0, 30.0), (2, 0, 2.0, 30.0))
    nobody = Answers(hops=np.array([NOBODY, NOBODY]), responses=0, delivered=0)
    assert (foretell(visits, BASIC).answers.hops == nobody.hops).all()
    told = measures_of(visits, nobody)
    assert told == {"absorption_time": 0.0, "delivery_ratio": 0.0, "there_share": 0.0}
