"""How this broker stands with the cluster: registered under its name, in step with one store.

To compare everything is to register and to load all subscriptions of this broker, page by page.
That is done at the start, and again when the cluster speaks of something unknown to one of the two:
soon, but not more often than every few seconds, unless the cluster has another store or has
forgotten this broker. Decides when; the machine does what follows from the answers.
"""

from __future__ import annotations

from tocsin.broker.machine.effects import Effect, LoadSubscriptions, Register
from tocsin.broker.machine.events import QueryToken
from tocsin.broker.machine.retry import Retry

COMPARE_EVERY_S = 5.0
NEVER = float("inf")


class Registration:
    def __init__(self, now: float, jitter: float) -> None:
        self.store_id: str | None = None  # that we are registered with
        self.asked: QueryToken | None = None  # when the page under way was asked for
        self._due_at = now
        self._compared_at = -NEVER
        self._under_way = False
        self._retry = Retry(0.1, 2.0, jitter)

    def compare_soon(self, now: float, *, urgent: bool = False) -> list[Effect]:
        """Something is unknown to one of us."""
        due_at = now if urgent else max(now, self._compared_at + COMPARE_EVERY_S)
        self._due_at = min(self._due_at, due_at)
        return self.tick(now)

    def tick(self, now: float) -> list[Effect]:
        if self._under_way or now < self._due_at:
            return []
        self._under_way, self._due_at = True, NEVER
        return [Register()]

    def registered(self, store_id: str, asked: QueryToken) -> list[Effect]:
        self.store_id, self.asked = store_id, asked
        return [LoadSubscriptions()]

    def next_page(self, after: int, asked: QueryToken) -> list[Effect]:
        self.asked = asked
        return [LoadSubscriptions(after)]

    def loaded(self, now: float) -> None:
        """All pages are here."""
        self._under_way, self._compared_at = False, now
        self._retry.reset()

    def failed(self, now: float) -> None:
        self._under_way = False
        self._due_at = now + self._retry.next_s()
