"""Who has a claim on an attachment that no record mentions yet. Pure: times and locks are others'.

A publisher uploads first and mentions it later, while the collector looks for what nobody mentions.
So whoever is about to mention an attachment *holds* it first, looks then whether it is there, and
lets go when the mention is where the collector sees it. The collector drops nothing that is held,
or was at any moment since it began to look: that covers a mention that came to a place which it had
looked at already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable


class Pins:
    def __init__(self) -> None:
        self._held: Counter[str] = Counter()
        self._touched: dict[str, float] = {}
        self._since: set[str] | None = None  # held at or after the beginning of a look

    def hold(self, ids: Iterable[str], now: float) -> None:
        for id in ids:
            self._held[id] += 1
            self._touched[id] = now
            if self._since is not None:
                self._since.add(id)

    def release(self, ids: Iterable[str]) -> None:
        for id in ids:
            self._held[id] -= 1
            if self._held[id] <= 0:
                del self._held[id]

    def begin(self) -> None:
        """From now on mentions are looked for."""
        self._since = set(self._held)

    def may_drop(self, id: str, modified_at: float, oldest: float) -> bool:
        """Of what was found nowhere: nobody held it since the beginning, and it was last uploaded
        or held before `oldest`."""
        assert self._since is not None, "nobody has looked"
        touched_at = max(modified_at, self._touched.get(id, modified_at))
        return id not in self._since and touched_at < oldest

    def end(self, oldest: float) -> None:
        self._since = None
        self._touched = {id: at for id, at in self._touched.items() if at >= oldest}
