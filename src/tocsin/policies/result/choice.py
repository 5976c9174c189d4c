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
from tocsin.policies.grammar import Call, read_call_at
from tocsin.policies.registry import Chosen, Registry, nearest
from tocsin.policies.result.eviction import EVICTION, Score
from tocsin.policies.result.expiry import ESTIMATED, EXPIRY, TimeToLive

FIELD = "cache_policy"
FAMILIES: dict[str, Registry[Any]] = {"admit": ADMISSION, "evict": EVICTION, "expire": EXPIRY}

_FAMILY = re.compile(r"\s*(?P<family>[^\s=()]+)=(?=[^\s=])")


class CachePolicy(Struct, frozen=True):
    """One policy per family. Without `evict` the byte budget holds in expectation only."""

    text: str  # as the user wrote it
    admit: Chosen[Admit]
    evict: Chosen[Score] | None = None
    expire: Chosen[TimeToLive] | None = None

    @property
    def caches(self) -> bool:
        """False: nothing is ever cached, so nothing need be fetched ahead."""
        return self.admit.policy.declared.get("admits") is not False

    @property
    def time_to_live(self) -> Chosen[TimeToLive]:
        """How times to live are estimated, even if nothing expires by them."""
        return self.expire or EXPIRY.choose(ESTIMATED)

    @property
    def chosen(self) -> list[Chosen[Any]]:
        return [chosen for chosen in (self.admit, self.evict, self.expire) if chosen is not None]


def policy_names() -> list[str]:
    """Every name that works alone."""
    return sorted({*_refusing(), *EVICTION, *EXPIRY})


def parse_policy(text: str, field: str = FIELD) -> CachePolicy:
    """`lsc`, `ttl`, `none`, or `family=name` parts separated by blanks."""
    chosen: dict[str, Chosen[Any]] = {}
    for family, call in _parts(text, field):
        if family in chosen:
            message = f"the family {family!r} is named twice in {text!r}"
            raise SettingError(message, field=field, hint="name each one once")
        chosen[family] = FAMILIES[family].chosen(call, field)
    if not chosen:
        hint = f"one of {', '.join(policy_names())}"
        raise SettingError("the cache policy is empty", field=field, hint=hint)
    policy = CachePolicy(text=text, **{"admit": ADMISSION.choose("all"), **chosen})
    if policy.caches and policy.evict is None and policy.expire is None:
        message = f"{text!r} never lets anything leave a full cache"
        raise SettingError(message, field=field, hint="add evict=… or expire=…")
    return policy


def _parts(text: str, field: str) -> list[tuple[str, Call]]:
    parts: list[tuple[str, Call]] = []
    at = 0
    while at < len(text) and not text[at:].isspace():
        family = _FAMILY.match(text, at)
        begin = family.end() if family else at
        part = read_call_at(text, begin, field)
        if part is None:
            message = f"{text!r} cannot be read from {text[at:]!r} on"
            raise SettingError(message, field=field, hint="write family=name parts")
        call, at = part
        parts.append((family["family"] if family else _family_of(call.name, field), call))
        if parts[-1][0] not in FAMILIES:
            message = f"no family of policies is called {parts[-1][0]!r}"
            raise SettingError(message, field=field, hint=f"one of {', '.join(FAMILIES)}")
    return parts


def _refusing() -> list[str]:
    """Admission policies that need no other: they never admit."""
    return [name for name in ADMISSION if ADMISSION[name].declared.get("admits") is False]


def _family_of(name: str, field: str) -> str:
    if name in _refusing():
        return "admit"
    if EVICTION.knows(name):
        return "evict"
    if EXPIRY.knows(name):
        return "expire"
    if name in ADMISSION:
        message = f"{name!r} only says what is cached"
        raise SettingError(message, field=field, hint=f"write admit={name} evict=…")
    raise SettingError(
        f"no cache policy is called {name!r}",
        field=field,
        hint=f"{nearest(name, policy_names())}one of {', '.join(policy_names())}",
    )
