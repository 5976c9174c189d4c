"""What the core tells whoever watches it: facts, as they become true. A watcher changes nothing.

The default watches nothing. It costs a call that does nothing, and keeps every "is anybody
watching?" out of the core. Knows no clock: whoever wants times brings one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tocsin.broker.machine.effects import Answer
    from tocsin.broker.machine.subscription_table import Backend, Frontend
    from tocsin.model import Result


class Watcher:
    def attached(self, frontend: Frontend) -> None:
        """A frontend subscription is served here from now on."""

    def detached(self, frontend: Frontend) -> None:
        """It is no longer."""

    def arrived(self, subscriber: str) -> None:
        """The subscriber's first connection: it is online."""

    def left(self, subscriber: str) -> None:
        """The subscriber's last connection is gone: it is offline."""

    def taken(self, backend: Backend, results: Sequence[Result]) -> None:
        """New results came in; those in `backend.inline` are sent them at once."""

    def passed_over(self, backend: Backend, upto: int) -> None:
        """Results after `backend.fetched` up to there exist, but nobody looked at them."""

    def answered(self, answer: Answer) -> None:
        """A get was answered."""

    def acknowledged(self, frontend: Frontend) -> None:
        """Its marker has moved forward."""

    def page_published(self, page: str, size_bytes: int, subscriptions: int) -> None:
        """So many of this broker's subscriptions matched a page: the page cache decides upon it."""

    def page_requested(self, page: str, size_bytes: int, notification: bool, hit: bool) -> None:
        """Somebody opened a page, led there by a notification or not."""

    def page_superseded(self, page: str, is_so: bool) -> None:
        """A newer version of its story came; or it is the newest of one again."""


NOBODY = Watcher()
