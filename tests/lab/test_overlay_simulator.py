"""The tree of brokers, simulated: against closed forms, worked examples and its own promises."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tocsin.errors import InvalidInput
from tocsin.lab.jit.functions import callback
from tocsin.lab.simulators.overlay import kernel
from tocsin.lab.simulators.overlay.closed_form import absorption_without_eviction_s
from tocsin.lab.simulators.overlay.measures import measures, to_dict
from tocsin.lab.simulators.overlay.simulator import KEEPS, MOVES, new_world, simulate
from tocsin.lab.simulators.overlay.story import Happening, play_compiled
from tocsin.lab.workloads.tree import TreeLoad
from tocsin.overlay.topology import balanced, tree_of
from tocsin.policies.message import parse_message_policy

BASIC = parse_message_policy("sel-sub-fifo")
LEAF = parse_message_policy("leaf-sub-fifo")


@pytest.mark.parametrize(
    ("brokers", "client_load", "client_rate"), [(1, 0.5, 0.1), (3, 1.0, 0.2), (7, 0.45, 0.2)]
)
def test_absorption_without_eviction_has_a_closed_form(
    brokers: int, client_load: float, client_rate: float
) -> None:
    load = TreeLoad(
        brokers=brokers, messages=5, slots=5, client_load=client_load, client_rate=client_rate
    )
    found = measures(simulate(load, BASIC, runs=4000, seed=7))["absorption_time"]
    assert abs(found.value - absorption_without_eviction_s(load)) < 1.5 * found.half
    assert found.half < 0.05 * found.value


def test_the_closed_form_by_the_chain_itself() -> None:
    """The same by solving the chain's equations, cut off where nobody ever is."""
    load = TreeLoad(brokers=4, client_load=0.6, client_rate=0.3)
    coming, leaving, most = 4 * 0.3, load.departure_rate, 60
    chain = np.zeros((most, most))  # from 1 … most clients, absorbed at 0
    for at in range(most):
        chain[at, at] = -(coming if at + 1 < most else 0.0) - (at + 1) * leaving
        if at + 1 < most:
            chain[at, at + 1] = coming
        if at > 0:
            chain[at, at - 1] = (at + 1) * leaving
    until_gone_s = np.linalg.solve(-chain, np.ones(most))
    there = [math.exp(-2.4) * 2.4**n / math.factorial(n) for n in range(1, most + 1)]
    assert absorption_without_eviction_s(load) == pytest.approx(float(until_gone_s @ there))


def test_a_broker_alone_answers_from_its_own_cache() -> None:
    """One broker, one message: a request is answered if and only if somebody is there already."""
    load = TreeLoad(brokers=1, messages=1, slots=1, client_load=1.0, client_rate=1.0)
    seen = simulate(load, BASIC, runs=500, seed=3)
    found = measures(seen)
    for name, value in (("hops", 0), ("responses", 1), ("delivered", 1), ("slots_searched", 1)):
        assert found[name].value == value
    assert found["links"].value == 0
    assert found["delivery_ratio"].value == 1.0  # until the message is gone
    never = (seen.absorbed_s == 0).mean()
    assert never == pytest.approx(math.exp(-1.0), abs=0.07)


def test_a_run_may_end_before_the_messages_do() -> None:
    load = TreeLoad(duration_s=5.0)
    seen = simulate(load, BASIC, runs=300, seed=1)
    assert seen.absorbed_s.max() == 5.0
    assert (seen.gone == (seen.absorbed_s < 5.0)).all()
    expected = 7 * 25 * 0.2 * 5.0
    assert seen.requests.mean() == pytest.approx(expected, rel=0.02)  # of the gone ones, too


def test_clients_ask_on_until_the_end_though_nothing_is_left() -> None:
    """The delivery ratio is of all requests (overlay VI: it falls with the time of a run)."""
    load = TreeLoad(duration_s=350.0)
    seen = simulate(load, BASIC, runs=20, seed=1)
    assert seen.gone.all()
    assert seen.requests.mean() == pytest.approx(7 * 25 * 0.2 * 350.0, rel=0.02)
    there = seen.absorbed_s.mean() / 350.0  # whoever asks while it is there gets an answer
    assert measures(seen)["delivery_ratio"].value == pytest.approx(there, rel=0.05)


def test_clients_of_messages_that_were_pushed_out_count_no_more() -> None:
    """Where caches are small, messages go before their clients do."""
    load = TreeLoad(brokers=3, messages=8, slots=1, client_load=1.0)
    run, world = new_world(load, BASIC, balanced("abc"))
    keeps, moves = callback(BASIC.keeps, KEEPS), callback(BASIC.moves, MOVES)
    for seed in range(20):
        seen = (np.zeros((1, 8)), np.ones((1, 8), np.bool_), np.zeros((1, len(kernel.COUNTS))))
        assert kernel.play(run, world, keeps, moves, np.random.default_rng(seed), *seen)
        assert (int(run["alive"][0]), int(run["clients"][0])) == (0, 0)


def test_the_same_seed_gives_the_same_runs() -> None:
    one, other = (simulate(TreeLoad(), LEAF, runs=50, seed=5) for _ in range(2))
    assert (one.absorbed_s == other.absorbed_s).all()
    assert to_dict(one) | {"seconds": 0} == to_dict(other) | {"seconds": 0}


def test_any_tree_will_do() -> None:
    """In a star a request goes through the middle: two hops at most."""
    star = tree_of("mabcd", ["ma", "mb", "mc", "md"])
    load = TreeLoad(brokers=5, messages=3, slots=3)
    seen = simulate(load, BASIC, runs=200, seed=2, tree=star)
    assert (seen.hops <= 2 * seen.answered).all()
    chain = tree_of("abcde", ["ab", "bc", "cd", "de"])
    longer = simulate(load, BASIC, runs=200, seed=2, tree=chain)
    assert measures(longer)["hops"].value > measures(seen)["hops"].value
    with pytest.raises(InvalidInput, match="5 brokers, not 7"):
        simulate(TreeLoad(), BASIC, runs=1, seed=1, tree=star)


def test_a_story_worked_by_hand() -> None:
    """A chain 0 – 1 – 2, two messages, one slot each."""
    story = [
        Happening("comes", 0, 0),  # a request that nobody can answer yet
        Happening("publishes", 2, 0),  # cached at 0
        Happening("comes", 2, 0),  # two hops: cached at 2, too; 0 and 2 searched, a slot
        Happening("comes", 2, 1),
        Happening("publishes", 1, 1),  # at 2 it pushes message 0 out
        Happening("comes", 2, 0),  # again from 0: message 1 is gone for good
        Happening("leaves", 0, 0),  # the last client there takes it along
        Happening("comes", 1, 1),  # nobody has it
    ]
    steps = play_compiled(story, tree_of("abc", ["ab", "bc"]), 2, 1, BASIC)
    assert [step.caches for step in steps] == [
        [[], [], []],
        [[0], [], []],
        [[0], [], [0]],
        [[0], [], [0]],
        [[0], [], [1]],
        [[0], [], [0]],
        [[], [], [0]],
        [[], [], [0]],
    ]
    assert steps[-1].counts == {
        "requests": 5,
        "answered": 2,
        "hops": 4,
        "responses": 2,
        "delivered": 2,
        "slots_searched": 3,  # 1, then 1 at 0 and 1 at 2
        "links": 8,
    }


@pytest.mark.parametrize(
    ("given", "field"),
    [({"brokers": 0}, "brokers"), ({"slots": 0}, "slots"), ({"client_load": 0.0}, "client-load")],
)
def test_bad_settings_are_told(given: dict[str, float], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        TreeLoad(**given)  # type: ignore[arg-type]
    assert refused.value.field == field


def test_a_balanced_tree_is_what_is_taken() -> None:
    load = TreeLoad(brokers=3, messages=2, slots=1)
    plain = simulate(load, LEAF, runs=20, seed=4)
    same = simulate(load, LEAF, runs=20, seed=4, tree=balanced("xyz"))
    assert (plain.absorbed_s == same.absorbed_s).all()
