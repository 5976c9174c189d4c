"""What the cluster has allowed to each token, of clients without a connection.

A connection is attached when it is made, so the cluster has looked at its token. A call that comes
alone may bring another token of the same subscriber, which allows less: it is shown to the cluster
before the first answer, and again when that is a while ago.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from msgspec import Struct

LASTS_S = 30.0
MOST_TOKENS = 4096  # the least used is forgotten, and shown again


class _Shown(Struct):
    at: float
    subscriptions: set[int]


class Admitted:
    def __init__(self, lasts_s: float = LASTS_S, most_tokens: int = MOST_TOKENS) -> None:
        self._lasts_s = lasts_s
        self._most_tokens = most_tokens
        self._tokens: OrderedDict[str, _Shown] = OrderedDict()

    def holds(self, token: str, subscription: int, now: float) -> bool:
        shown = self._tokens.get(token)
        if shown is None or now - shown.at > self._lasts_s:
            return False
        self._tokens.move_to_end(token)
        return subscription in shown.subscriptions

    def attached(self, token: str, subscriptions: Iterable[int], now: float) -> None:
        """All that the cluster allows to the token, as it says now."""
        self._tokens[token] = _Shown(now, set(subscriptions))
        self._tokens.move_to_end(token)
        while len(self._tokens) > self._most_tokens:
            self._tokens.popitem(last=False)

    def subscribed(self, token: str, subscription: int, now: float) -> None:
        """The cluster has just let this token subscribe."""
        shown = self._tokens.get(token)
        if shown is None:
            self.attached(token, [subscription], now)
        else:
            shown.subscriptions.add(subscription)
