"""The policy of a result cache as a user names it, taken apart into its families.

`lsc` is short for `admit=all evict=lsc`, `ttl` for `admit=all expire=ttl`, `none` for
`admit=none`. The long form combines families: `admit=threshold(0.2,0.8) evict=lsc expire=ttl`.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

from tocsin.errors import SettingError
from tocsin.policies.admission import ADMISSION, Admit
from tocsin.policies.eviction import EVICTION, Score
from tocsin.policies.expiry import EXPIRY, TimeToLive
from tocsin.policies.registry import MOST_PARAMETERS, Policy, Registry

FAMILIES: dict[str, Registry[Any]] = {"admit": ADMISSION, "evict": EVICTION, "expire": EXPIRY}

_PART = re.compile(
    r"\s*(?:(?P<family>[^\s=()]+)=)?(?P<name>[^\s=(),]+)(?:\((?P<numbers>[^()]*)\))?\s*"
)


class CachePolicy(Struct, frozen=True):
    """One policy per family. Without `evict` the byte budget holds in expectation only."""

    text: str  # as the user wrote it
    admit: Admit
    admit_parameters: tuple[float, float] = (0.0, 0.0)
    evict: Score | None = None
    expire: TimeToLive | None = None
    caches: bool = True  # False: nothing is ever cached, so nothing need be fetched ahead
    looks_ahead: bool = False  # the eviction policy wants more than the tail


class AdmissionPolicy(Struct, frozen=True):
    """An admission policy alone, for what has no cache to evict from."""

    text: str  # as the user wrote it
    admit: Admit
    parameters: tuple[float, float] = (0.0, 0.0)


def parse_admission(text: str) -> AdmissionPolicy:
    """`all`, `none`, `threshold(0.2,0.8)`."""
    part = _PART.fullmatch(text)
    if part is None or part["family"] not in (None, "admit"):
        raise _bad(f"{text!r} is no admission policy", f"one of {_list(list(ADMISSION))}")
    policy = ADMISSION[part["name"]]
    return AdmissionPolicy(text, policy.function, _pair(_numbers(policy, part["numbers"])))


def policy_names() -> list[str]:
    """Every name that works alone."""
    return sorted({"none", *EVICTION, *EXPIRY})


def parse_policy(text: str) -> CachePolicy:
    """`lsc`, `ttl`, `none`, or `family=name` parts separated by blanks."""
    chosen: dict[str, tuple[str, tuple[float, ...]]] = {}
    for family, name, numbers in _parts(text):
        if family in chosen:
            raise _bad(f"the family {family!r} is named twice in {text!r}", "name each one once")
        chosen[family] = name, _numbers(FAMILIES[family][name], numbers)
    if not chosen:
        raise _bad("the cache policy is empty", f"one of {_list(policy_names())}")
    admit, parameters = chosen.get("admit", ("all", ()))
    evict = EVICTION[chosen["evict"][0]] if "evict" in chosen else None
    policy = CachePolicy(
        text=text,
        admit=ADMISSION[admit].function,
        admit_parameters=_pair(parameters),
        evict=evict.function if evict else None,
        expire=EXPIRY[chosen["expire"][0]].function if "expire" in chosen else None,
        caches=admit != "none",
        looks_ahead=evict is not None and evict.looks_ahead,
    )
    if policy.caches and policy.evict is None and policy.expire is None:
        raise _bad(f"{text!r} never lets anything leave a full cache", "add evict=… or expire=…")
    return policy


def _parts(text: str) -> list[tuple[str, str, str | None]]:
    found, at = [], 0
    while at < len(text) and not text[at:].isspace():
        part = _PART.match(text, at)
        if part is None:
            raise _bad(f"{text!r} cannot be read from {text[at:]!r} on", "write family=name parts")
        family, name, numbers = part["family"], part["name"], part["numbers"]
        if family is None:
            family = _family_of(name)
        if family not in FAMILIES:
            families = _list(list(FAMILIES))
            raise _bad(f"no family of policies is called {family!r}", f"one of {families}")
        found.append((family, name, numbers))
        at = part.end()
    return found


def _numbers(policy: Policy[Any], text: str | None) -> tuple[float, ...]:
    """The parameters of a policy: its defaults, or all that it takes."""
    takes = policy.parameters
    if text is None:
        return tuple(one.default for one in takes)
    usage = f"write {policy.call}" if takes else f"write {policy.name} alone"
    given = [one for one in text.split(",") if one.strip()]
    if len(given) != len(takes):
        names = _list([one.name for one in takes]) or "no numbers"
        raise _bad(f"{policy.name!r} takes {names}, not {text!r}", usage)
    values = []
    for parameter, number in zip(takes, given, strict=True):
        try:
            value = float(number)
        except ValueError:
            value = float("nan")
        if not parameter.at_least <= value < float("inf"):
            least = f"at least {parameter.at_least:g}"
            raise _bad(f"{policy.name}'s {parameter.name} is {number.strip()!r}: {least}", usage)
        values.append(value)
    return tuple(values)


def _pair(numbers: tuple[float, ...]) -> tuple[float, float]:
    first, second = (*numbers, *[0.0] * MOST_PARAMETERS)[:MOST_PARAMETERS]
    return first, second


def _family_of(name: str) -> str:
    if name == "none":
        return "admit"
    if name in EVICTION:
        return "evict"
    if name in EXPIRY:
        return "expire"
    if name in ADMISSION:
        raise _bad(f"{name!r} only says what is cached", f"write admit={name} evict=…")
    raise _bad(f"no cache policy is called {name!r}", f"one of {_list(policy_names())}")


def _list(names: list[str]) -> str:
    return ", ".join(names)


def _bad(message: str, hint: str) -> SettingError:
    return SettingError(message, field="cache_policy", hint=hint)
