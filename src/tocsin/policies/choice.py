"""The policy of a result cache as a user names it, taken apart into its families.

`lsc` is short for `admit=all evict=lsc`, `ttl` for `admit=all expire=ttl`, `none` for
`admit=none`. The long form combines families: `evict=lsc expire=ttl`.
"""

from __future__ import annotations

from msgspec import Struct

from tocsin.errors import SettingError
from tocsin.policies.admission import ADMISSION, Admit
from tocsin.policies.eviction import EVICTION, Score
from tocsin.policies.expiry import EXPIRY, TimeToLive

FAMILIES = ("admit", "evict", "expire")


class CachePolicy(Struct, frozen=True):
    """One policy per family. Without `evict` the byte budget holds in expectation only."""

    text: str  # as the user wrote it
    admit: Admit
    evict: Score | None = None
    expire: TimeToLive | None = None
    caches: bool = True  # False: nothing is ever cached, so nothing need be fetched ahead


def policy_names() -> list[str]:
    """Every name that works alone."""
    return sorted({"none", *EVICTION, *EXPIRY})


def parse_policy(text: str) -> CachePolicy:
    """`lsc`, `ttl`, `none`, or `family=name` parts separated by blanks."""
    chosen: dict[str, str] = {}
    for part in text.split():
        family, equals, name = part.partition("=")
        if not equals:
            family, name = _family_of(part), part
        if family not in FAMILIES:
            raise _bad(f"no family of policies is called {family!r}", f"one of {_list(FAMILIES)}")
        if family in chosen:
            raise _bad(f"the family {family!r} is named twice in {text!r}", "name each one once")
        chosen[family] = name
    if not chosen:
        raise _bad("the cache policy is empty", f"one of {_list(policy_names())}")
    admit = chosen.get("admit", "all")
    policy = CachePolicy(
        text=text,
        admit=ADMISSION[admit],
        evict=EVICTION[chosen["evict"]] if "evict" in chosen else None,
        expire=EXPIRY[chosen["expire"]] if "expire" in chosen else None,
        caches=admit != "none",
    )
    if policy.caches and policy.evict is None and policy.expire is None:
        raise _bad(f"{text!r} never lets anything leave a full cache", "add evict=… or expire=…")
    return policy


def _family_of(name: str) -> str:
    if name == "none":
        return "admit"
    if name in EVICTION:
        return "evict"
    if name in EXPIRY:
        return "expire"
    raise _bad(f"no cache policy is called {name!r}", f"one of {_list(policy_names())}")


def _list(names: tuple[str, ...] | list[str]) -> str:
    return ", ".join(names)


def _bad(message: str, hint: str) -> SettingError:
    return SettingError(message, field="cache_policy", hint=hint)
