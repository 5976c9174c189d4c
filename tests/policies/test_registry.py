"""A loud registry: what is wrong raises where it is defined."""

from __future__ import annotations

from pathlib import Path

import pytest

from tocsin.errors import SettingError
from tocsin.policies import FAMILIES, admission, eviction, expiry
from tocsin.policies.registry import Parameter, Registry


def test_a_name_registered_twice_raises_and_lists_what_exists() -> None:
    registry: Registry[int] = Registry("test")
    registry.register("a")(1)
    with pytest.raises(ValueError, match=r"'a' is registered twice: 1 and 2; registered: a"):
        registry.register("a")(2)
    assert registry["a"].function == 1


def test_more_parameters_than_kernels_pass_raise() -> None:
    registry: Registry[int] = Registry("test")
    three = [Parameter(name, 0.0) for name in "xyz"]
    with pytest.raises(ValueError, match="at most 2 numbers"):
        registry.register("a", *three)(1)
    assert "a" not in registry


def test_an_unknown_name_raises_and_lists_what_exists() -> None:
    registry: Registry[int] = Registry("test")
    with pytest.raises(SettingError, match=r"no test policy is called 'a' \(.*none yet"):
        registry["a"]
    registry.register("b")(1)
    with pytest.raises(SettingError, match="test policies: b"):
        registry["a"]


@pytest.mark.parametrize(
    ("family", "package"), [("admit", admission), ("evict", eviction), ("expire", expiry)]
)
def test_every_file_of_a_family_is_one_policy_of_its_own_name(family: str, package: object) -> None:
    folder = Path(str(getattr(package, "__file__", None))).parent
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    assert set(FAMILIES[family]) == files


@pytest.mark.parametrize(("family", "name"), [(f, n) for f in FAMILIES for n in FAMILIES[f]])
def test_every_policy_says_what_it_does_and_where_it_is_from(family: str, name: str) -> None:
    policy = FAMILIES[family][name]
    assert policy.summary.endswith(".")
    assert name == "fifo" or "(" in policy.summary, "name the paper"
    assert policy.call.startswith(name)
