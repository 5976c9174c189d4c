"""What each policy of page caches thinks a page is worth, and how policies are named."""

from __future__ import annotations

import pytest

from tocsin.errors import SettingError
from tocsin.policies.page import (
    Page,
    limits,
    page_policy_names,
    parse_page_policy,
    portion_names,
    worth,
)


@pytest.mark.parametrize(
    ("policy", "frequency"),
    [
        ("gdstar", 2),  # its accesses since it was stored
        ("gdsf", 2),
        ("lru", 0),
        ("sg1", 3 + 4 + 5),  # s + a
        ("sg2", 3 - 4 - 5),  # s − a
        ("rsg2", 0),  # max(0, s − a)
        ("hug", 5 + 0),  # a_NS + max(0, s − a_S)
        ("dc", 3),  # s, in the push portion
        ("dc-ta", 0),  # max(0, s − a_S), in the notified portion
    ],
)
def test_frequency_is_the_papers(policy: str, frequency: float) -> None:
    page = Page(subscriptions=3, notified=4, browsed=5, accesses=2)
    assert parse_page_policy(policy).first.frequency(page) == frequency


def test_subscribers_still_to_come_count_in_hug_and_dc_ta() -> None:
    page = Page(subscriptions=7, notified=4, browsed=5)
    assert parse_page_policy("hug").first.frequency(page) == 5 + 3
    assert parse_page_policy("dc-ta").first.frequency(page) == 3
    assert parse_page_policy("sg2").first.frequency(page) == -2


def test_worth_is_equation_1_without_its_age() -> None:
    assert worth(6, 2, 3, 1.0) == 4
    assert worth(6, 2, 3, 2.0) == 2
    assert worth(-6, 2, 3, 2.0) == -2  # SG2 below 0: the order stays


@pytest.mark.parametrize("name", page_policy_names())
def test_every_policy_can_be_named_alone(name: str) -> None:
    assert parse_page_policy(name).text == name


def test_papers_policies_the_worlds_and_ours_are_there() -> None:
    papers = {"gdstar", "sg1", "sg2", "rsg2", "hug", "dc", "dc-ta"}
    assert set(page_policy_names()) == papers | {"lru", "gdsf", "none"} | {"learned-demand"}


def test_numbers_are_taken_in_order_and_the_others_have_defaults() -> None:
    assert parse_page_policy("gdstar(2)").first.beta == 2
    assert parse_page_policy("dc-ta(0.25)").share == 0.25
    both = parse_page_policy(" dc-ta(0.75, 2) ")
    assert (both.share, both.first.beta, both.second.beta) == (0.75, 2, 2)
    named = parse_page_policy("dc-ta(beta=2)")
    assert (named.share, named.first.beta, named.second.beta) == (0.5, 2, 2)
    dc = parse_page_policy("dc(2)")  # delivery, equation 5 has no β
    assert (dc.first.beta, dc.second.beta) == (1, 2)


@pytest.mark.parametrize(
    ("text", "about"),
    [
        ("", "is empty"),
        ("lsc", "'lsc'"),
        ("assay", "'assay' is called 'learned-demand' now"),
        ("dc-ta(2)", "phi is '2': from 0 to 1"),
        ("dc-ta(-0.1)", "phi"),
        ("gdstar(0)", "beta"),
        ("gdstar(nan)", "beta"),
        ("gdstar(x)", "beta is 'x'"),
        ("gdstar(1,2)", "takes beta"),
        ("lru(1)", "takes no parameters"),
        ("dc-ta(0.5", "is not a policy of page cache"),
        ("dc-ta(psi=1)", "'dc-ta' has no parameter 'psi': it takes phi, beta"),
    ],
)
def test_what_cannot_be_is_refused_in_words(text: str, about: str) -> None:
    with pytest.raises(SettingError) as refused:
        parse_page_policy(text)
    assert about in refused.value.message
    assert refused.value.field == "page_policy"
    assert refused.value.hint


def test_portions_share_the_capacity_exactly() -> None:
    assert limits(parse_page_policy("dc"), 9) == (4, 5)
    assert limits(parse_page_policy("dc-ta(0.29)"), 100) == (29, 71)  # not 28: 0.29 is what it says
    assert limits(parse_page_policy("none"), 100)[0] == 0
    assert portion_names(parse_page_policy("dc")) == ("push", "access")
    assert portion_names(parse_page_policy("dc-ta")) == ("notified", "browsed")
