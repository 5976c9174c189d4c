"""The policy of a message cache as a user names it, taken apart into its families."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from typing import Any

from msgspec import Struct

from tocsin.errors import SettingError
from tocsin.policies.grammar import read_call
from tocsin.policies.message.caching import CACHING, Keeps
from tocsin.policies.message.priority import PRIORITY, Moves
from tocsin.policies.message.request import REQUEST, Reaches
from tocsin.policies.registry import Registry, nearest

FIELD = "message_policy"
MESSAGE_FAMILIES: dict[str, Registry[Any]] = {
    "caching": CACHING,
    "request": REQUEST,
    "priority": PRIORITY,
}
SHORT = {"basic": "sel-sub-fifo", "leaf": "leaf-sub-fifo"}
"""The policies of the overlay paper, as it calls them."""

_BETWEEN_PARTS = re.compile(r"-(?![^()]*\))")  # no minus within parentheses


class MessagePolicy(Struct, frozen=True):
    """One policy per family."""

    text: str  # as the user wrote it
    keeps: Keeps
    reaches: Reaches
    moves: Moves

    @property
    def parts(self) -> tuple[str, str, str]:
        """The names of the three."""
        caching, request, priority = _BETWEEN_PARTS.split(self.text)
        names = [part.partition("(")[0].strip() for part in (caching, request, priority)]
        return names[0], names[1], names[2]

    @property
    def functions(self) -> list[Callable[..., Any]]:
        """All that decide, without the values of their parameters."""
        return [getattr(call, "func", call) for call in (self.keeps, self.reaches, self.moves)]


def message_policy_names() -> list[str]:
    return ["-".join(parts) for parts in product(CACHING, REQUEST, PRIORITY)]


def parse_message_policy(text: str, field: str = FIELD) -> MessagePolicy:
    """`sel-sub-prt`: caching, request and priority, in this order; or a short name."""
    text = SHORT.get(text, text)
    parts = _BETWEEN_PARTS.split(text)
    if len(parts) != len(MESSAGE_FAMILIES):
        raise _unknown(text, field)
    calls = [read_call(part, "a policy of message caches", field) for part in parts if part]
    families = MESSAGE_FAMILIES.values()
    if len(calls) != len(parts) or not all(
        family.knows(call.name) for family, call in zip(families, calls, strict=True)
    ):
        raise _unknown(text, field)
    keeps, reaches, moves = (
        family.chosen(call, field) for family, call in zip(families, calls, strict=True)
    )
    return MessagePolicy(
        text=text,
        keeps=keeps.start().call,
        reaches=reaches.start().call,
        moves=moves.start().call,
    )


def _unknown(text: str, field: str) -> SettingError:
    names = [*SHORT, *message_policy_names()]
    return SettingError(
        f"no policy of message caches is called {text!r}",
        field=field,
        hint=f"{nearest(text, names)}one of {', '.join(names)}",
    )
