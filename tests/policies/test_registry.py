"""A loud registry: what is wrong raises where it is defined."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import Struct

from tocsin.errors import SettingError
from tocsin.policies import FAMILIES, admission
from tocsin.policies.registry import Parameter, Registry
from tocsin.policies.result import eviction, expiry


def test_a_name_registered_twice_raises_and_lists_what_exists() -> None:
    registry: Registry[int] = Registry("test", "field")
    registry.register("a")(1)
    with pytest.raises(ValueError, match=r"'a' is registered twice: 1 and 2; registered: a"):
        registry.register("a")(2)
    assert registry["a"].function == 1


def test_what_its_family_does_not_know_cannot_be_declared() -> None:
    registry: Registry[int] = Registry("test", "field", declares=("look",), stateful=False)
    with pytest.raises(ValueError, match="'a' declares absence; its family knows look"):
        registry.register("a", look=1, absence=2)
    with pytest.raises(ValueError, match="'a' declares state"):
        registry.register("a", state=Struct)
    assert "a" not in registry


def test_values_keep_the_bounds_that_their_parameter_declares() -> None:
    registry: Registry[int] = Registry("test", "field")
    registry.register("a", Parameter("x", 1.0, at_least=0.5, at_most=2.0), Parameter("y", 3.0))(1)
    assert registry.choose("a(2)").values == (2.0, 3.0)
    for text in ("a(2.1)", "a(0.4)", "a(x=2.1)", "a(nan)", "a(two)"):
        with pytest.raises(SettingError, match=r"a's x is .*: from 0\.5 to 2") as refused:
            registry.choose(text)
        assert refused.value.field == "field"
    with pytest.raises(SettingError, match="a's y is '-1': at least 0"):
        registry.choose("a(y=-1)")


def test_an_unknown_name_raises_and_lists_what_exists() -> None:
    registry: Registry[int] = Registry("test", "field")
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
    files = {path.stem.replace("_", "-") for path in folder.glob("*.py")} - {"--init--"}
    assert set(FAMILIES[family]) == files


@pytest.mark.parametrize(("family", "name"), [(f, n) for f in FAMILIES for n in FAMILIES[f]])
def test_every_policy_says_what_it_does_and_where_it_is_from(family: str, name: str) -> None:
    policy = FAMILIES[family][name]
    assert policy.summary.endswith(".")
    assert name == "fifo" or "(" in policy.summary, "name the paper"
    assert policy.call.startswith(name)
