"""The policy of a message cache as a user names it, taken apart into its families."""

from __future__ import annotations

from itertools import product
from typing import Any

from msgspec import Struct

from tocsin.errors import SettingError
from tocsin.policies.message.caching import CACHING, Keeps
from tocsin.policies.message.priority import PRIORITY, Moves
from tocsin.policies.message.request import REQUEST, Reaches
from tocsin.policies.registry import Registry

MESSAGE_FAMILIES: dict[str, Registry[Any]] = {
    "caching": CACHING,
    "request": REQUEST,
    "priority": PRIORITY,
}


SHORT = {"basic": "sel-sub-fifo", "leaf": "leaf-sub-fifo"}
"""The policies of the overlay paper, as it calls them."""


class MessagePolicy(Struct, frozen=True):
    """One policy per family."""

    text: str  # as the user wrote it
    keeps: Keeps
    reaches: Reaches
    moves: Moves

    @property
    def parts(self) -> tuple[str, str, str]:
        caching, request, priority = self.text.split("-")
        return caching, request, priority


def message_policy_names() -> list[str]:
    return ["-".join(parts) for parts in product(CACHING, REQUEST, PRIORITY)]


def parse_message_policy(text: str) -> MessagePolicy:
    """`sel-sub-prt`: caching, request and priority, in this order; or a short name."""
    text = SHORT.get(text, text)
    parts = text.split("-")
    known = len(parts) == len(MESSAGE_FAMILIES) and all(
        part in family for part, family in zip(parts, MESSAGE_FAMILIES.values(), strict=True)
    )
    if not known:
        raise SettingError(
            f"no policy of message caches is called {text!r}",
            field="policy",
            hint=f"one of {', '.join([*SHORT, *message_policy_names()])}",
        )
    caching, request, priority = parts
    return MessagePolicy(
        text=text,
        keeps=CACHING[caching].function,
        reaches=REQUEST[request].function,
        moves=PRIORITY[priority].function,
    )
