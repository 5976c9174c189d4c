"""Models of survival: against each other, against what is known exactly, against the simulator."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import expm
from scipy.sparse import csr_array
from scipy.stats import gamma

from lab.survival.plain_multi import transient
from tocsin.errors import InvalidInput
from tocsin.lab.models.absorbing import absorbed, lifetime
from tocsin.lab.models.balanced import balanced, copied
from tocsin.lab.models.exact import beginning as exact_beginning
from tocsin.lab.models.exact import exact
from tocsin.lab.models.exact import generator as exact_generator
from tocsin.lab.models.multi import beginning, copies_by_replicas, multi
from tocsin.lab.models.multisets import generator, multisets
from tocsin.lab.models.named import MODELS, model
from tocsin.lab.models.rates import rates_of
from tocsin.lab.models.reduced import reduced
from tocsin.lab.models.wide import wide
from tocsin.lab.simulators.message_cache import measures
from tocsin.lab.simulators.message_cache.simulator import simulate
from tocsin.lab.studies.message_cache import distance
from tocsin.lab.workloads.messages import MessageLoad
from tocsin.policies.message import MessagePolicy, parse_message_policy

EIGHT = [f"{c}-{r}-{p}" for c in ("sel", "all") for r in ("sub", "fld") for p in ("prt", "nop")]
LOADS = st.builds(
    MessageLoad,
    brokers=st.just(1),
    slots=st.integers(1, 12),
    publication_rate=st.floats(0.1, 10),
    client_rate=st.floats(0.05, 2),
    client_load=st.floats(0.2, 6),
)
POLICIES = st.sampled_from(EIGHT).map(parse_message_policy)
PAPERS = parse_message_policy("sel-sub-prt")


@settings(max_examples=30, deadline=None)
@given(size=st.integers(1, 8), seed=st.integers(0, 10**6))
def test_absorption_is_that_of_the_matrix_exponential(size: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    rates = random.exponential(size=(size, size + 1))
    matrix = rates[:, :size].copy()
    np.fill_diagonal(matrix, 0.0)
    matrix -= np.diag(matrix.sum(axis=1) + rates[:, size])
    start = random.dirichlet(np.ones(size)) * 0.9
    steps = absorbed(csr_array(matrix), start)
    found = lifetime(steps)
    assert found.mst == pytest.approx(float(-start @ np.linalg.inv(matrix) @ np.ones(size)))
    assert found.p_loss == pytest.approx(0.1)
    for at_s in (0.0, 0.1, 1.0, 3.0):
        expected = float(start @ expm(matrix * at_s) @ np.ones(size))
        assert steps.survives(at_s) == pytest.approx(expected, abs=1e-8)
        assert found.survives(at_s) == pytest.approx(expected, abs=2e-3)


@settings(max_examples=40, deadline=None)
@given(load=LOADS, policy=POLICIES)
def test_one_broker_has_a_mean_of_k_publications(load: MessageLoad, policy: MessagePolicy) -> None:
    """As in survival, equation 1; with the printed, binomial start it is a little less."""
    rates = rates_of(load, policy)
    mean_s = load.slots / load.publication_rate
    assert exact(rates).mst == pytest.approx(mean_s, rel=1e-6)
    assert reduced(rates).mst == pytest.approx(mean_s, rel=1e-6)
    assert exact(rates, "binomial").mst <= mean_s * (1 + 1e-6)


def test_the_printed_start_is_low_by_three_percent_where_clients_are_few() -> None:
    rates = rates_of(MessageLoad(brokers=1, client_load=0.5), PAPERS)
    assert exact(rates, "binomial").mst == pytest.approx(15 * 0.9675, rel=0.001)


def test_exact_rates_worked_by_hand() -> None:
    """k = 2, λb = 1, λc = 0.1, ρ = ln 2: π0 = 1/2, λn = 0.5, λg = 0.1, μd = 0.1.

    From (1, 2), one alive above it: published 0.5, out; its own client 0.1 → (2, 1); the alive one
    degraded 0.1 → (0, 1). From (1, 1), alive: published 0.5 → (2, 2); the dead one regenerated 0.1
    → (2, 2); degraded itself 0.1 → (0, 2). From (2, 2): published 0.5, out; its own client 0.1 →
    (2, 1); degraded itself 0.1 → (1, 2); the other one 0.1 → (1, 1).
    """
    load = MessageLoad(brokers=1, slots=2, client_load=math.log(2))
    matrix = exact_generator(rates_of(load, PAPERS)).toarray()
    number = {(i, j): 2 * i + j - 1 for i in range(3) for j in (1, 2)}

    def row(i: int, j: int) -> dict[tuple[int, int], float]:
        found = matrix[number[i, j]]
        return {to: round(float(found[at]), 9) for to, at in number.items() if found[at]}

    assert row(1, 2) == {(1, 2): -0.7, (2, 1): 0.1, (0, 1): 0.1}
    assert row(1, 1) == {(1, 1): -0.7, (2, 2): 0.6, (0, 2): 0.1}
    assert row(2, 2) == {(2, 2): -0.8, (2, 1): 0.1, (1, 2): 0.1, (1, 1): 0.1}
    assert row(0, 1) == {(0, 1): -0.7, (1, 2): 0.6, (1, 1): 0.1}


@pytest.mark.parametrize("name", ["exact", "reduced", "multi", "balanced", "wide"])
def test_first_come_first_served_is_a_sum_of_exponentials(name: str) -> None:
    load = MessageLoad(brokers=1, slots=12, client_load=1.0, publication_rate=2.0)
    found = model(name, load, parse_message_policy("sel-sub-nop"))
    kept = 1 - math.exp(-1.0)
    assert found.p_loss == pytest.approx(1 - kept)
    close = 0.03 if name == "wide" else 1e-4  # it has publications tick
    for at_s in (3.0, 8.0, 10.0, 15.0):
        expected = kept * gamma.sf(at_s, 12, scale=1 / (2.0 * kept))
        assert found.survives(at_s) == pytest.approx(expected, abs=close)


@settings(max_examples=25, deadline=None)
@given(
    shape=st.sampled_from([(1, 4), (2, 1), (2, 4), (3, 2), (3, 3), (4, 2)]),
    policy=POLICIES,
    client_load=st.floats(0.3, 4),
    publication_rate=st.floats(0.2, 5),
)
def test_lumped_is_unlumped(
    shape: tuple[int, int], policy: MessagePolicy, client_load: float, publication_rate: float
) -> None:
    load = MessageLoad(
        brokers=shape[0],
        slots=shape[1],
        client_load=client_load,
        publication_rate=publication_rate,
    )
    rates = rates_of(load, policy)
    pushed = copies_by_replicas(rates)
    states, matrix, start = transient(rates, pushed)
    space = multisets(load.brokers, load.slots)
    found = absorbed(generator(space, rates, pushed), beginning(space, rates))
    spent = np.linalg.solve(matrix.T, -start)
    assert found.mean == pytest.approx(float(spent.sum()), rel=1e-9)
    lumped = {tuple(one): number for number, one in enumerate(space.states[1:].tolist())}
    together = np.zeros(len(lumped))
    for state, one in zip(states, spent, strict=True):
        together[lumped[tuple(sorted(state, reverse=True))]] += one
    np.testing.assert_allclose(found.occupancy, together, rtol=1e-7, atol=1e-10)


@given(shape=st.sampled_from([(1, 1), (1, 9), (3, 4), (5, 3), (6, 2)]))
def test_multisets_are_numbered_once_each(shape: tuple[int, int]) -> None:
    space = multisets(*shape)
    seen = {tuple(one) for one in space.states.tolist()}
    assert len(seen) == len(space.states) == math.comb(sum(shape), shape[0])
    assert all(list(one) == sorted(one, reverse=True) for one in seen)
    assert space.states[0].sum() == 0
    assert space.states[space.on_top(1)].tolist() == [1] + [0] * (shape[0] - 1)


def test_the_papers_rate_of_copies_is_a_whole_number_of_messages() -> None:
    load = MessageLoad(brokers=6, slots=15)
    flooding = copies_by_replicas(rates_of(load, parse_message_policy("sel-fld-prt")))
    assert flooding.tolist() == pytest.approx([0, 7.5, 3.0, 1.5, 0.7, 0.3, 0])  # 15(6/5−1) is 3
    asking = copies_by_replicas(rates_of(load, PAPERS))
    assert asking[2] == pytest.approx(3.0 * (1 - math.exp(-4.0)))


@pytest.mark.parametrize("policy", EIGHT)
def test_balanced_caches_are_exactly_full(policy: str) -> None:
    """What comes in goes out, in a model that was told the one and not the other."""
    load, chosen = MessageLoad(brokers=3, slots=5), parse_message_policy(policy)
    found = balanced(load, chosen)
    space = multisets(3, 5)
    # the rate of copies that the mean implies, put into the chain again
    low, high = 0.0, 2 * 5 * 0.1
    for _ in range(20):
        copies = (low + high) / 2
        rates = rates_of(load, chosen, copies)
        steps = absorbed(generator(space, rates, np.full(4, copies)), beginning(space, rates))
        low, high = (copies, high) if steps.mean > found.mst else (low, copies)
    held = float(steps.occupancy @ space.copies[1:]) / 3 * load.publication_rate
    if policy.startswith("all") and policy.endswith("nop"):
        assert found.mst == pytest.approx(5.0)
        return
    assert held == pytest.approx(5.0, rel=1e-3)
    assert copied(space, rates, steps.occupancy) == pytest.approx(copies, rel=1e-3)


@pytest.mark.parametrize("name", ["balanced", "wide"])
@pytest.mark.parametrize("policy", ["sel-sub-prt", "sel-fld-prt", "sel-sub-nop", "all-fld-prt"])
def test_our_models_are_near_the_simulation_where_the_papers_is_not(name: str, policy: str) -> None:
    load, chosen = (
        MessageLoad(brokers=4, slots=12, publication_rate=0.5),
        parse_message_policy(policy),
    )
    lives = simulate(load, chosen, messages=12_000, seed=21)
    seen = measures.little(lives).value
    found = model(name, load, chosen)
    assert found.mst == pytest.approx(seen, rel=0.05)
    assert distance(found, lives) < 0.08
    assert multi(rates_of(load, chosen)).mst < 0.85 * seen


@pytest.mark.parametrize("policy", EIGHT)
def test_one_broker_has_the_simulated_distribution(policy: str) -> None:
    load, chosen = MessageLoad(brokers=1, slots=10), parse_message_policy(policy)
    lives = simulate(load, chosen, messages=20_000, seed=4)
    for name in ("exact", "reduced"):
        assert distance(model(name, load, chosen), lives) < 0.03


def test_wide_is_for_sizes_that_no_chain_could_have() -> None:
    load = MessageLoad(brokers=40, slots=500, publication_rate=20.0)
    found = wide(load, PAPERS, 48)
    assert 500 / 20 < found.mst < 40 * 500 / 20
    assert found.p_loss == pytest.approx(math.exp(-80))
    assert found.survives(found.quantile(0.5)) == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("name", MODELS)
def test_curves_fall_from_what_was_cached_and_quantiles_invert_them(name: str) -> None:
    load = MessageLoad(brokers=1 if name in ("exact", "reduced") else 3, slots=6, client_load=0.5)
    found = model(name, load, PAPERS)
    assert found.alive[0] == pytest.approx(1 - found.p_loss)
    assert (np.diff(found.alive) <= 1e-12).all()
    assert found.quantile(found.p_loss / 2) == 0.0
    for share in (0.9, 0.99, 0.99999):
        assert found.survives(found.quantile(share)) == pytest.approx(1 - share, abs=1e-3)
    told = found.to_dict()
    assert set(told) == {"mst", "p_loss", "quantiles", "curve"}
    between = np.trapezoid(found.alive, found.at_s)
    assert between == pytest.approx(found.mst, rel=0.02)


@pytest.mark.parametrize(
    ("name", "load", "policy", "told"),
    [
        ("exact", {"brokers": 2}, "sel-sub-prt", "of 1 broker"),
        ("reduced", {"brokers": 2}, "sel-sub-prt", "of 1 broker"),
        ("exact", {"brokers": 1, "slots": 1000}, "sel-sub-prt", "at most 300 slots"),
        ("multi", {"brokers": 9, "slots": 90}, "sel-sub-prt", "states"),
        ("balanced", {"brokers": 9, "slots": 9}, "sel-sub-prt", "moves"),
        (
            "wide",
            {"unpopular_share": 0.5, "unpopular_rate": 0.01},
            "sel-sub-prt",
            "one class",
        ),
        ("none", {}, "sel-sub-prt", "no model 'none'"),
    ],
)
def test_what_a_model_cannot_say_is_told(
    name: str, load: dict[str, float], policy: str, told: str
) -> None:
    with pytest.raises(InvalidInput, match=told) as refused:
        model(name, MessageLoad(**load), parse_message_policy(policy))  # type: ignore[arg-type]
    assert refused.value.hint


def test_starts_are_two_and_of_the_exact_model() -> None:
    load = MessageLoad(brokers=1, slots=3)
    rates = rates_of(load, PAPERS)
    stationary, binomial = (
        exact_beginning(rates, start).reshape(4, 3) for start in ("stationary", "binomial")
    )
    assert stationary.sum() == pytest.approx(1 - math.exp(-2))
    assert stationary[3, 0] == pytest.approx(
        (1 - math.exp(-2)) * float(rates.alive_count[2] + rates.alive_count[3])
    )
    assert binomial[3, 0] == pytest.approx((1 - math.exp(-2)) ** 3)
    with pytest.raises(InvalidInput, match="exact"):
        model("reduced", load, PAPERS, "binomial")
    with pytest.raises(InvalidInput, match="no start"):
        model("exact", load, PAPERS, "printed")  # type: ignore[arg-type]
