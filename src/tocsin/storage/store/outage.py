"""While the store cannot be reached: who waits, how long, and what the others get.

A short outage only delays. In a long one every call fails at once, instead of waiting in a queue
that grows. One thread tries to come back; the others wait for it. Knows no database.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from random import Random

import structlog

from tocsin.backoff import Backoff
from tocsin.errors import NotLeading, TocsinError, Unavailable
from tocsin.storage.store.pace import Pace, Threads

log = structlog.get_logger()


class CircuitBreaker:
    """Open while the store can be reached. Safe to call from any thread."""

    def __init__(
        self, come_back: Callable[[], None], patience_s: float, pace: Pace | None = None
    ) -> None:
        """`come_back` raises Unavailable while it cannot, and another TocsinError when it never
        will."""
        self._come_back = come_back
        self._patience_s = patience_s
        self._pace = pace or Threads()
        self._changed = threading.Condition()
        self._reason: TocsinError | None = None  # why it is shut
        self._since = 0.0
        self._ended = False
        self.on_end: Callable[[TocsinError], None] = lambda _: None

    @property
    def waits_for(self) -> str | None:
        reason = self._reason
        return None if reason is None else reason.message

    def enter(self) -> None:
        """Return once the store can be reached; raise when that takes too long."""
        with self._changed:
            while (reason := self._reason) is not None:
                left_s = self._since + self._patience_s - self._pace.now()
                if self._ended or left_s <= 0:
                    raise type(reason)(reason.message, field=reason.field, hint=reason.hint)
                self._changed.wait(left_s)

    def shut(self, reason: Unavailable) -> None:
        """The store was lost: from here on one thread tries to come back."""
        with self._changed:
            if self._reason is not None:
                return
            self._reason, self._since = reason, self._pace.now()
        log.warning("the store is lost", reason=reason.message)
        recover = partial(self._recover, Backoff(Random(), first_s=0.05, most_s=2.0))
        self._pace.repeat("store-recovery", 0.0, recover, self._pause)

    def end(self, error: TocsinError) -> None:
        """Nobody passes any more."""
        with self._changed:
            self._reason, self._ended = error, True
            self._changed.notify_all()

    def fail(self, error: TocsinError) -> None:
        """The store is lost to us, whoever has it now. Said once."""
        with self._changed:
            if self._ended:
                return
            self.end(error)  # before another thread looks
        log.error("the store is lost for good", reason=str(error))
        self.on_end(error)

    def _pause(self, seconds: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._ended, seconds)

    def _recover(self, backoff: Backoff) -> float | None:
        reason = self._try()
        with self._changed:
            if self._ended:
                return None
            self._reason = reason
            if isinstance(reason, Unavailable) and not isinstance(reason, NotLeading):
                return backoff.next_s()
            self._changed.notify_all()
        if reason is None:
            log.info("the store is back", after_s=round(self._pace.now() - self._since, 3))
        else:
            self.fail(reason)
        return None

    def _try(self) -> TocsinError | None:
        try:
            self._come_back()
        except TocsinError as error:
            return error
        except Exception as error:  # whoever waits must not wait for a thread that died
            log.exception("the store cannot be used")
            return Unavailable(f"the store cannot be used: {error}", hint="see the service's log")
        return None
