"""The policy of a page cache as a user names it: `gdstar(2)`, `dc-ta(0.25)`, `hug`."""

from __future__ import annotations

import re

from tocsin.errors import SettingError
from tocsin.policies.page.design import PAGE, PagePolicy
from tocsin.policies.registry import Parameter

_CALL = re.compile(r"\s*(?P<name>[^\s(),]+)\s*(?:\((?P<numbers>[^()]*)\))?\s*")


def page_policy_names() -> list[str]:
    return list(PAGE)


def parse_page_policy(text: str) -> PagePolicy:
    """Numbers that are not given have their defaults."""
    call = _CALL.fullmatch(text)
    if call is None or call["name"] not in PAGE:
        raise _bad(f"no policy of page caches is called {text!r}", f"one of {', '.join(PAGE)}")
    policy = PAGE[call["name"]]
    given = [one.strip() for one in (call["numbers"] or "").split(",")]
    if given == [""]:
        given = []
    usage = f"write {policy.call}"
    if len(given) > len(policy.parameters):
        names = ", ".join(one.name for one in policy.parameters) or "no numbers"
        raise _bad(f"{policy.name!r} takes {names}, not {call['numbers']!r}", usage)
    values = [one.default for one in policy.parameters]
    for at, number in enumerate(given):
        values[at] = _number(policy.name, policy.parameters[at], number, usage)
    built: PagePolicy = policy.function(text.strip(), *values)
    return built


def _number(policy: str, parameter: Parameter, text: str, usage: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not parameter.at_least <= value <= parameter.at_most:
        span = f"from {parameter.at_least:g} to {parameter.at_most:g}"
        raise _bad(f"{policy}'s {parameter.name} is {text!r}: {span}", usage)
    return value


def _bad(message: str, hint: str) -> SettingError:
    return SettingError(message, field="policy", hint=hint)
