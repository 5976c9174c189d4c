"""The simulator of message caches: equal to plain Python, and to what is known of it exactly."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import gamma

from lab.survival.plain_caches import PlainCaches
from tocsin.errors import InvalidInput
from tocsin.lab.simulators.message_cache import measures, simulator
from tocsin.lab.simulators.message_cache.simulator import Lives, simulate
from tocsin.lab.workloads.messages import MessageLoad
from tocsin.policies.message import MessagePolicy, message_policy_names, parse_message_policy
from tocsin.policies.message.priority import DROP, STAY

LOADS = st.builds(
    MessageLoad,
    brokers=st.integers(1, 4),
    slots=st.integers(1, 6),
    publication_rate=st.sampled_from([0.1, 1.0, 10.0]),
    client_rate=st.sampled_from([0.05, 0.5, 2.0]),
    client_load=st.sampled_from([0.2, 1.0, 4.0]),
    copying=st.sampled_from(["every", "first"]),
    unpopular_share=st.sampled_from([0.0, 0.5]),
    unpopular_rate=st.just(0.05),
)


def played(policy: str = "sel-sub-prt", messages: int = 4_000, **load: object) -> Lives:
    return simulate(
        MessageLoad(**load),  # type: ignore[arg-type]
        parse_message_policy(policy),
        messages=messages,
        seed=11,
    )


def moves_out(clients: int, arrived: bool) -> int:
    return STAY if clients > 0 else DROP


@settings(max_examples=60, deadline=None)
@given(load=LOADS, policy=st.sampled_from(message_policy_names()), seed=st.integers(0, 1000))
def test_every_message_survives_as_long_as_in_plain_python(
    load: MessageLoad, policy: str, seed: int
) -> None:
    chosen = parse_message_policy(policy)
    plain = PlainCaches(load, chosen, seed)
    plain.run(60)
    lives = simulate(load, chosen, messages=60, seed=seed, warm_up=0)
    np.testing.assert_array_equal(lives.survival_s, plain.survival_s[:60])
    np.testing.assert_array_equal(lives.unpopular, np.array(plain.unpopular[:60]) > 0)
    np.testing.assert_allclose(lives.message_s[-1], plain_message_s(plain, 60), rtol=1e-9)
    assert lives.copied == plain.copied


def plain_message_s(plain: PlainCaches, upto: int) -> float:
    """Seconds × messages until the last publication, from lives."""
    end = plain.published_s[upto - 1]
    begun = zip(plain.published_s[: upto - 1], plain.survival_s[: upto - 1], strict=True)
    return sum(min(end, at + lived) - at for at, lived in begun)


def test_a_policy_may_drop_a_message() -> None:
    sel = parse_message_policy("sel-sub-nop")
    dropping = MessagePolicy("sel-sub-nop", sel.keeps, sel.reaches, moves_out)
    load = MessageLoad(slots=4, client_load=0.7, client_rate=0.5)
    plain = PlainCaches(load, dropping, 3)
    plain.run(300)
    lives = simulate(load, dropping, messages=300, seed=3, warm_up=0)
    np.testing.assert_array_equal(lives.survival_s, plain.survival_s[:300])


@pytest.mark.parametrize("policy", ["sel-sub-prt", "sel-fld-nop", "all-sub-prt", "all-fld-nop"])
@pytest.mark.parametrize("client_load", [0.5, 3.0])
def test_one_broker_survives_k_publications_whatever_the_policy(
    policy: str, client_load: float
) -> None:
    """By survival, equation 1: a full cache holds k messages, and Little's law leaves no choice."""
    lives = played(policy, 20_000, brokers=1, slots=8, client_load=client_load, publication_rate=2)
    assert measures.little(lives).value == pytest.approx(4.0, rel=1e-9)
    mean = measures.mean_survival(lives)
    assert abs(mean.value - 4.0) < 1.5 * mean.half
    assert mean.half < 0.1


def test_first_come_first_served_is_a_sum_of_exponentials() -> None:
    lives = played("sel-sub-nop", 20_000, brokers=1, slots=6)
    kept = 1 - math.exp(-2.0)
    for at_s in (2.0, 5.0, 8.0, 12.0):
        seen = measures.survives(lives, at_s)
        assert seen.value == pytest.approx(kept * gamma.sf(at_s, 6, scale=1 / kept), abs=0.02)


def test_caches_that_keep_everything_and_move_nothing_are_all_alike() -> None:
    lives = played("all-fld-nop", brokers=4, slots=7)
    assert lives.copied == 0
    assert measures.little(lives).value == pytest.approx(7.0, rel=1e-9)
    np.testing.assert_allclose(lives.replicas, 4.0)


def test_a_message_is_lost_if_no_broker_has_a_client() -> None:
    lives = played(brokers=2, slots=3, client_load=0.4)
    assert measures.lost(lives).value == pytest.approx(math.exp(-0.8), abs=0.02)
    assert measures.lost(played("all-sub-prt", brokers=2, slots=3, client_load=0.4)).value == 0


def test_both_estimates_of_the_mean_agree_within_their_intervals() -> None:
    lives = played(messages=20_000)
    direct, by_little = measures.mean_survival(lives), measures.little(lives)
    assert abs(direct.value - by_little.value) < direct.half + by_little.half
    assert by_little.half < direct.half  # it is the better one


def test_copying_for_the_first_client_alone_copies_less() -> None:
    every, first = (played(copying=copying, client_load=4.0) for copying in ("every", "first"))
    assert first.copied < every.copied


def test_popular_messages_survive_longer() -> None:
    lives = played(unpopular_share=0.5, unpopular_rate=0.02)
    popular = measures.of_class(lives, unpopular=False)
    unpopular = measures.of_class(lives, unpopular=True)
    assert popular.value - popular.half > 1.5 * (unpopular.value + unpopular.half)
    assert 0.4 < lives.unpopular.mean() < 0.6


def test_copies_by_age_are_what_the_caches_hold() -> None:
    """All slots are full: copies × messages, summed over ages, are k a broker."""
    lives = played(messages=10_000, brokers=3, slots=10)
    width = lives.age_s[1] - lives.age_s[0]
    held = float((lives.replicas * lives.alive).sum() * width) / np.ptp(lives.published_s)
    assert held == pytest.approx(30.0, rel=0.03)
    assert lives.alive[0] <= len(lives.survival_s)
    assert (np.diff(lives.alive) <= 1e-6 * lives.alive[0]).all()
    assert lives.replicas.max() <= 3


def test_room_for_clients_and_publications_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    load, policy = MessageLoad(slots=5), parse_message_policy("sel-sub-prt")
    expected = simulate(load, policy, messages=400, seed=5)
    begin = simulator._begin

    def cramped(*given: object) -> object:
        run, world = begin(*given)  # type: ignore[arg-type]
        small = world._replace(
            crowd=world.crowd[: int(run["spare"][0]) + 2],
            publications=world.publications[:-16],
        )
        return run, small

    monkeypatch.setattr(simulator, "_begin", cramped)
    lives = simulate(load, policy, messages=400, seed=5)
    assert measures.mean_survival(lives).value == pytest.approx(
        measures.mean_survival(expected).value, rel=0.2
    )


def test_progress_is_told_and_changes_nothing() -> None:
    told: list[int] = []
    load, policy = MessageLoad(slots=3), parse_message_policy("sel-sub-prt")
    silent = simulate(load, policy, messages=5_000, seed=2)
    spoken = simulate(load, policy, messages=5_000, seed=2, progress=told.append)
    np.testing.assert_array_equal(silent.survival_s, spoken.survival_s)
    assert len(told) > 3
    assert sum(told) == simulator.settling(load) + 5_000


def test_few_messages_have_no_interval_and_none_are_refused() -> None:
    lives = played(messages=5)
    assert math.isnan(measures.mean_survival(lives).half)
    assert measures.to_dict(lives)["mst_half_width"] is None
    with pytest.raises(InvalidInput, match="messages is 0"):
        played(messages=0)


@pytest.mark.parametrize(
    ("given_", "field"),
    [
        ({"brokers": 0}, "brokers"),
        ({"slots": 0}, "slots"),
        ({"slots": 1_000_000}, "slots"),
        ({"publication_rate": 0.0}, "publication-rate"),
        ({"client_rate": -1.0}, "client-rate"),
        ({"client_load": 0.0}, "client-load"),
        ({"client_load": float("nan")}, "client-load"),
        ({"client_load": 1e6}, "client-load"),
        ({"copying": "never"}, "copying"),
        ({"unpopular_share": 2.0}, "unpopular-share"),
        ({"unpopular_share": 0.5}, "unpopular-rate"),
        ({"unpopular_share": 0.5, "unpopular_rate": 1.0}, "unpopular-rate"),
    ],
)
def test_loads_that_make_no_sense_are_refused(given_: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        MessageLoad(**given_)  # type: ignore[arg-type]
    assert refused.value.field == field
    assert refused.value.hint
