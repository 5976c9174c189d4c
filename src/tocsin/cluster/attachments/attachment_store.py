"""The content store as the cluster uses it: uploads, records and collection agree.

All calls may wait for disks, and may come from any thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from threading import Condition

import structlog
from prometheus_client import Counter

from tocsin.cluster.attachments.pins import Pins
from tocsin.storage.content import ContentStore, Incoming

log = structlog.get_logger()

COLLECTED = Counter("tocsin_attachments_collected_total", "Attachments that nothing mentioned")


class AttachmentStore:
    def __init__(
        self,
        content: ContentStore,
        clock: Callable[[], float] = time.time,
        confirm: Callable[[], None] = lambda: None,
    ) -> None:
        """`confirm` raises Unavailable unless this is, now, the process that may delete."""
        self.content = content
        self._confirm = confirm
        self._clock = clock
        self._custody = Pins()
        self._lock = Condition()
        self._leaving: str | None = None  # is being dropped, which a network may make long

    def hold(self, ids: Iterable[str]) -> None:
        """They are not collected until released; those that were there, that is. Whoever holds
        one that is just leaving looks for it when it is gone."""
        ids = set(ids)
        with self._lock:
            self._lock.wait_for(lambda: self._leaving not in ids)
            self._custody.hold(ids, self._clock())

    def release(self, ids: Iterable[str]) -> None:
        with self._lock:
            self._custody.release(ids)

    def size_bytes(self, id: str) -> int | None:
        """None: it is not there."""
        kept = self.content.info(id)
        return None if kept is None else kept.size_bytes

    def commit(self, incoming: Incoming, wanted: str | None) -> tuple[str, bool]:
        """As `Incoming.commit`. From now on it is kept for the time of grace."""
        id = incoming.id
        self.hold([id])
        try:
            return incoming.commit(wanted)
        finally:
            self.release([id])

    def collect(self, look: Callable[[], set[str]], grace_s: float) -> int:
        """Drop what `look` does not find mentioned and nobody has a claim on; how many went."""
        with self._lock:
            self._custody.begin()
            oldest = self._clock() - grace_s
        try:
            aged = [kept for kept in self.content.kept() if kept.modified_at < oldest]
            in_use = look() if aged else set()
            return sum(
                self._drop(kept.id, kept.modified_at, oldest)
                for kept in aged
                if kept.id not in in_use
            )
        finally:
            with self._lock:
                self._custody.end(oldest)

    def _drop(self, id: str, modified_at: float, oldest: float) -> bool:
        with self._lock:
            if not self._custody.may_drop(id, modified_at, oldest):
                return False
            self._leaving = id
        try:
            self._confirm()
            self.content.drop(id)
        finally:
            with self._lock:
                self._leaving = None
                self._lock.notify_all()
        COLLECTED.inc()
        log.info("an attachment that nothing mentions is deleted", attachment=id)
        return True
