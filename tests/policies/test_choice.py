"""A policy as users name it: what can be said, and what is refused with the choices listed."""

from __future__ import annotations

import pytest

from tocsin.errors import SettingError
from tocsin.policies import FAMILIES, parse_admission, parse_policy, policy_names
from tocsin.policies.admission.all import everything
from tocsin.policies.admission.mean import mean
from tocsin.policies.admission.threshold import threshold
from tocsin.policies.result.eviction.lru import lru
from tocsin.policies.result.eviction.lsc import lsc
from tocsin.policies.result.eviction.return_rate import return_rate
from tocsin.policies.result.expiry.ttl import ttl

ALONE = "exp, fifo, gdsf, lru, lsc, lscz, lsd, none, return-rate, ttl"


def functions(text: str) -> tuple[object, object, object]:
    policy = parse_policy(text)
    evict = policy.evict.function if policy.evict else None
    return policy.admit.function, evict, policy.expire.function if policy.expire else None


def test_short_names_choose_their_family() -> None:
    assert ", ".join(policy_names()) == ALONE
    assert functions("lsc") == (everything, lsc, None)
    assert functions("ttl") == (everything, None, ttl)
    assert parse_policy("none").caches is False


@pytest.mark.parametrize("name", policy_names())
def test_every_name_works_alone_and_is_kept_as_it_was_written(name: str) -> None:
    assert parse_policy(name).text == name


def test_families_combine_by_name() -> None:
    assert functions("  expire=ttl  evict=lru admit=all ") == (everything, lru, ttl)
    assert functions("lru ttl") == (everything, lru, ttl)


@pytest.mark.parametrize(
    ("written", "function", "values"),
    [
        ("threshold( 1, .5)", threshold, (1.0, 0.5)),
        ("threshold", threshold, (0.2, 0.8)),
        ("threshold()", threshold, (0.2, 0.8)),
        ("threshold(1)", threshold, (1.0, 0.8)),
        ("threshold(mu=1)", threshold, (0.2, 1.0)),
        ("threshold(0.5, mu = 1)", threshold, (0.5, 1.0)),
        ("threshold(mu=1, lambda=3)", threshold, (3.0, 1.0)),
        ("mean(3)", mean, (3.0,)),
        ("mean(batch=3)", mean, (3.0,)),
    ],
)
def test_parameters_are_given_by_place_or_by_name_and_others_have_defaults(
    written: str, function: object, values: tuple[float, ...]
) -> None:
    chosen = parse_policy(f"admit={written} evict=lsc").admit
    assert (chosen.function, chosen.values) == (function, values)
    assert parse_admission(written).admit == chosen


def test_only_a_policy_that_keeps_state_has_one() -> None:
    keeping = {name for name in FAMILIES["evict"] if FAMILIES["evict"][name].state}
    assert keeping == {"return-rate"}
    assert functions("return-rate")[1] is return_rate


REFUSED = [
    ("", ALONE),
    ("   ", ALONE),
    ("lfu", ALONE),
    ("homing", "'homing' is called 'return-rate' now"),
    ("evict=homing", "write return-rate"),
    ("evict=lfu", "exp, fifo, gdsf, lru, lsc, lscz, lsd, return-rate"),
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
    ("lscx", "did you mean lsc?"),
    ("evict=return-rat", "did you mean return-rate?"),
    (
        "admit=threshold(nu=1) evict=lsc",
        "'threshold' has no parameter 'nu': it takes lambda, mu",
    ),
    ("admit=treshold evict=lsc", "did you mean threshold?"),
    ("admit=threshold(lamda=1) evict=lsc", "did you mean lambda?"),
    ("admit=threshold(1, lambda=1) evict=lsc", "lambda is given twice"),
    ("admit=threshold(lambda=1, 2) evict=lsc", "'2' has no name"),
    ("admit=threshold(0.2,0.8,1) evict=lsc", "write threshold(0.2, 0.8)"),
    ("admit=threshold(a,0.8) evict=lsc", "lambda is 'a'"),
    ("admit=threshold(0.2,-1) evict=lsc", "mu is '-1': at least 0"),
    ("admit=threshold(0.2,inf) evict=lsc", "mu is 'inf'"),
    ("admit=threshold(0.2,nan) evict=lsc", "mu is 'nan'"),
    ("admit=mean(0) evict=lsc", "batch is '0': at least 1"),
]


@pytest.mark.parametrize(("text", "reason"), REFUSED)
def test_a_policy_that_cannot_be_is_refused_and_the_choices_are_listed(
    text: str, reason: str
) -> None:
    with pytest.raises(SettingError) as raised:
        parse_policy(text)
    assert reason in str(raised.value)
    assert raised.value.field == "cache_policy"
