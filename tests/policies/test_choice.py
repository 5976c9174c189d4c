"""A policy as users name it: what can be said, and what is refused with the choices listed."""

from __future__ import annotations

import pytest

from tocsin.errors import SettingError
from tocsin.policies import FAMILIES, parse_policy, policy_names
from tocsin.policies.admission.all import everything
from tocsin.policies.admission.mean import mean
from tocsin.policies.admission.threshold import threshold
from tocsin.policies.eviction.homing import homing
from tocsin.policies.eviction.lru import lru
from tocsin.policies.eviction.lsc import lsc
from tocsin.policies.expiry.ttl import ttl

ALONE = "exp, fifo, gdsf, homing, lru, lsc, lscz, lsd, none, ttl"


def test_short_names_choose_their_family() -> None:
    assert ", ".join(policy_names()) == ALONE
    assert parse_policy("lsc").evict is lsc
    assert parse_policy("lsc").expire is None
    assert parse_policy("ttl").expire is ttl
    assert parse_policy("ttl").evict is None
    assert parse_policy("lsc").admit is parse_policy("ttl").admit is everything
    assert parse_policy("none").caches is False


@pytest.mark.parametrize("name", policy_names())
def test_every_name_works_alone_and_is_kept_as_it_was_written(name: str) -> None:
    assert parse_policy(name).text == name


def test_families_combine_by_name() -> None:
    policy = parse_policy("  expire=ttl  evict=lru admit=all ")
    assert (policy.admit, policy.evict, policy.expire) == (everything, lru, ttl)
    short = parse_policy("lru ttl")
    assert (short.admit, short.evict, short.expire) == (everything, lru, ttl)


def test_parameters_are_all_given_or_all_left_out() -> None:
    given = parse_policy("admit=threshold( 1, .5) evict=lsc")
    assert (given.admit, given.admit_parameters) == (threshold, (1.0, 0.5))
    assert parse_policy("admit=threshold evict=lsc").admit_parameters == (0.2, 0.8)
    batch = parse_policy("admit=mean(3) evict=lsc")
    assert (batch.admit, batch.admit_parameters) == (mean, (3.0, 0.0))


def test_only_policies_that_look_ahead_say_so() -> None:
    ahead = {name for name in FAMILIES["evict"] if parse_policy(name).looks_ahead}
    assert ahead == {"homing"}
    assert parse_policy("homing").evict is homing


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", ALONE),
        ("   ", ALONE),
        ("lfu", ALONE),
        ("evict=lfu", "exp, fifo, gdsf, homing, lru, lsc, lscz, lsd"),
        ("admit=some", "all, buffer, mean, none, threshold"),
        ("expire=never", "ttl"),
        ("drop=lru", "admit, evict, expire"),
        ("lru lsc", "once"),
        ("none admit=all", "once"),
        ("admit=all", "evict=…"),
        ("admit=mean(3)", "evict=…"),
        ("mean(3)", "admit=mean evict=…"),
        ("lsc,ttl", "cannot be read from ',ttl' on"),
        ("admit=mean(3 evict=lsc", "cannot be read from '(3 evict=lsc' on"),
        ("lsc(1)", "write lsc alone"),
        ("admit=threshold(0.2) evict=lsc", "takes lambda, mu, not '0.2'"),
        ("admit=threshold(0.2,0.8,1) evict=lsc", "write threshold(0.2, 0.8)"),
        ("admit=threshold(a,0.8) evict=lsc", "lambda is 'a'"),
        ("admit=threshold(0.2,-1) evict=lsc", "mu is '-1': at least 0"),
        ("admit=threshold(0.2,inf) evict=lsc", "mu is 'inf'"),
        ("admit=threshold(0.2,nan) evict=lsc", "mu is 'nan'"),
        ("admit=mean(0) evict=lsc", "batch is '0': at least 1"),
    ],
)
def test_a_policy_that_cannot_be_is_refused_and_the_choices_are_listed(
    text: str, told: str
) -> None:
    with pytest.raises(SettingError) as raised:
        parse_policy(text)
    assert told in str(raised.value)
    assert raised.value.field == "cache_policy"
