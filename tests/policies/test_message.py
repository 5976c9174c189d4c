"""Policies of message caches: what each decides, and how they are named together."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from tocsin.errors import SettingError
from tocsin.policies.message import (
    MESSAGE_FAMILIES,
    MessagePolicy,
    message_policy_names,
    parse_message_policy,
)
from tocsin.policies.message.priority import BOTTOM, STAY, TOP

PAPERS = [f"{c}-{r}-{p}" for c in ("sel", "all") for r in ("sub", "fld") for p in ("prt", "nop")]


@pytest.mark.parametrize("name", PAPERS)
def test_every_combination_of_the_paper_can_be_chosen(name: str) -> None:
    assert name in message_policy_names()
    policy = parse_message_policy(name)
    assert (policy.text, "-".join(policy.parts)) == (name, name)


def decided(policy: MessagePolicy) -> tuple[list[bool], list[bool], list[int]]:
    """Without and with a client; a client comes, one of two leaves, the last leaves."""
    changes = [(1, True), (2, True), (1, False), (0, False)]
    return (
        [policy.keeps(0, 1), policy.keeps(1, 0), policy.keeps(2, 3)],
        [policy.reaches(0), policy.reaches(1)],
        [policy.moves(clients, arrived) for clients, arrived in changes],
    )


def test_selective_caching_asks_where_clients_are_and_follows_them() -> None:
    assert decided(parse_message_policy("sel-sub-prt")) == (
        [False, True, True],
        [False, True],
        [TOP, TOP, STAY, BOTTOM],
    )


def test_the_yardstick_keeps_everything_asks_everybody_and_moves_nothing() -> None:
    assert decided(parse_message_policy("all-fld-nop")) == (
        [True, True, True],
        [True, True],
        [STAY, STAY, STAY, STAY],
    )


@pytest.mark.parametrize("text", ["", "sel", "sel-sub", "prt-sub-sel", "sel-sub-prt-prt", "SEL"])
def test_another_name_is_refused_with_the_choices(text: str) -> None:
    with pytest.raises(SettingError, match="no policy of message caches") as refused:
        parse_message_policy(text)
    assert refused.value.field == "message_policy"
    assert "sel-sub-prt" in str(refused.value.hint)


@pytest.mark.parametrize("family", MESSAGE_FAMILIES)
def test_every_file_of_a_family_is_one_policy_that_names_its_paper(family: str) -> None:
    package = importlib.import_module(f"tocsin.policies.message.{family}")
    files = {path.stem for path in Path(str(package.__file__)).parent.glob("*.py")} - {"__init__"}
    registry = MESSAGE_FAMILIES[family]
    assert set(registry) == files
    for name in registry:
        assert "(survival" in registry[name].summary or "(overlay" in registry[name].summary
