"""All requests that wait, in one call under way to the cluster; made again when it was lost.

While nobody leads, requests wait, up to a number of bytes and some seconds. What the cluster may
have taken is handed on again only under its key, by which the log knows it; without one, and when
the time is over, its publisher is told that nobody knows. Knows no HTTP: `Send` makes the call.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from random import Random

import structlog
from msgspec import UNSET, Struct
from prometheus_client import Counter, Gauge, Histogram

from tocsin.backoff import Backoff
from tocsin.client.addresses import TAKEOVER_PAUSE_S, TAKEOVER_S
from tocsin.errors import NotLeading, Standby, TocsinError, Unavailable, Unconfirmed
from tocsin.protocol.appends import Append, AppendOutcome, AppendOutcomes, Appends
from tocsin.protocol.failure import error_of

log = structlog.get_logger()

CALL_BYTES = 4 * 1024 * 1024
"""A call holds about so much; a larger request travels alone."""
MOST_IN_CALL = 4096
REQUEST_BYTES = 1000  # about what a request costs besides its records, …
RECORD_BYTES = 16  # … and a record besides its text

WAITING = Gauge("tocsin_gateway_waiting_bytes", "Of requests that wait for the cluster")
CALLS = Counter("tocsin_gateway_calls_total", "Calls to the cluster", ["outcome"])
CARRIED = Histogram(
    "tocsin_gateway_call_requests",
    "Requests of publishers in a call to the cluster",
    buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096),
)

Send = Callable[[Appends], Awaitable[AppendOutcomes]]
"""Raises NotTaken or Lost; anything else that it raises is told to all whose requests it had."""


class NotTaken(Exception):
    """Nobody who leads was there: nothing was done."""

    def __init__(self, reason: TocsinError) -> None:
        super().__init__(reason.message)
        self.reason = reason


class Lost(Exception):
    """The cluster may have taken any of it."""

    def __init__(self, reason: TocsinError) -> None:
        super().__init__(reason.message)
        self.reason = reason


class Checked(Struct, frozen=True, kw_only=True):
    """A request that fits its dataset, from a publisher who showed a token."""

    append: Append
    token: str
    subject: str
    held_bytes: int = 0  # besides, while it waits

    @property
    def size_bytes(self) -> int:
        """In a call."""
        append = self.append
        count = len(append.good) + len(append.letters)
        good = sum(len(record.declared) + len(record.extra or b"") for record in append.good)
        letters = sum(map(len, append.letters))
        return REQUEST_BYTES + len(self.token) + good + letters + RECORD_BYTES * count


class _Waiting:
    """One of them, until it has its outcome."""

    def __init__(self, checked: Checked, size_bytes: int) -> None:
        self.checked = checked
        self.size_bytes = size_bytes
        self.queued = True  # no call has it
        self.in_doubt = False
        self.reason: TocsinError | None = None  # why it was not taken yet
        self.outcome: asyncio.Future[AppendOutcome] = asyncio.get_running_loop().create_future()

    @property
    def asks(self) -> bool:
        """It has nothing that could be taken."""
        return not (self.checked.append.good or self.checked.append.letters)

    @property
    def repeatable(self) -> bool:
        """The log knows it again, if it was taken."""
        return self.asks or self.checked.append.key is not UNSET

    def doubt(self) -> None:
        """It may have been taken."""
        self.in_doubt = not self.asks

    def done(self, outcome: AppendOutcome) -> None:
        if not self.outcome.done():
            self.outcome.set_result(outcome)

    def fail(self, error: TocsinError) -> None:
        if not self.outcome.done():
            self.outcome.set_exception(Unconfirmed.after(error) if self.in_doubt else error)


class Relay:
    """Of one gateway, for the event loop's thread. Use as an async context manager."""

    def __init__(
        self,
        send: Send,
        *,
        most_bytes: int,
        call_bytes: int = CALL_BYTES,
        patience_s: float = TAKEOVER_S,
        pause_s: float = TAKEOVER_PAUSE_S,
    ) -> None:
        """`most_bytes` wait at most, half of them of one publisher."""
        self._send = send
        self._most_bytes = most_bytes
        self._call_bytes = call_bytes
        self._patience_s = patience_s
        self._backoff = Backoff(Random(), first_s=pause_s / 16, most_s=pause_s)
        self._waiting: deque[_Waiting] = deque()
        self._bytes = 0
        self._bytes_of: dict[str, int] = {}
        self._arrived = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.away: TocsinError | None = None  # why the last call reached nobody who leads

    async def __aenter__(self) -> Relay:
        self._task = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    @property
    def waiting(self) -> int:
        """Requests that no call has yet."""
        return len(self._waiting)

    @property
    def held_bytes(self) -> int:
        return self._bytes

    async def append(self, checked: Checked) -> AppendOutcome:
        """What became of it: it is durable, or stale. Raises what kept it out."""
        waiting = _Waiting(checked, checked.size_bytes)
        held_bytes = waiting.size_bytes + checked.held_bytes
        self._take(checked.subject, held_bytes)
        try:
            self._waiting.append(waiting)
            self._arrived.set()
            async with asyncio.timeout(self._patience_s):
                outcome = await asyncio.shield(waiting.outcome)
        except TimeoutError:
            raise self._given_up(waiting) from None
        finally:
            waiting.outcome.cancel()  # whoever has it in a call finds that nobody waits
            self._take(checked.subject, -held_bytes)
        if outcome.error is UNSET:
            return outcome
        raise error_of(outcome.error)

    def _take(self, subject: str, size_bytes: int) -> None:
        mine = self._bytes_of.get(subject, 0) + size_bytes
        total = self._bytes + size_bytes
        if size_bytes > 0 and (total > self._most_bytes or mine > self._most_bytes // 2):
            raise _full(self.away)
        self._bytes = total
        self._bytes_of[subject] = mine
        if not mine:
            del self._bytes_of[subject]
        WAITING.set(total)

    def _given_up(self, waiting: _Waiting) -> TocsinError:
        """Nobody led for so long, or nobody answered."""
        reason = waiting.reason or Unavailable("the cluster has not answered in time")
        refusal = Unavailable(reason.message, hint="send it again in a moment")
        if waiting.queued:
            self._waiting.remove(waiting)
        else:  # a call has it
            waiting.doubt()
        return Unconfirmed.after(refusal) if waiting.in_doubt else refusal

    async def _run(self) -> None:
        while True:
            if not self._waiting:
                self._arrived.clear()
                await self._arrived.wait()
            batch = self._next()
            if batch and not await self._hand_on(batch):
                await asyncio.sleep(self._backoff.next_s())

    def _next(self) -> list[_Waiting]:
        """Those that came first, as far as a call holds them."""
        batch: list[_Waiting] = []
        size_bytes = 0
        while self._waiting and len(batch) < MOST_IN_CALL:
            size_bytes += self._waiting[0].size_bytes
            if batch and size_bytes > self._call_bytes:
                break
            waiting = self._waiting.popleft()
            waiting.queued = False
            if not waiting.outcome.done():
                batch.append(waiting)
        return batch

    async def _hand_on(self, batch: list[_Waiting]) -> bool:
        """False: somebody must lead first."""
        CARRIED.observe(len(batch))
        try:
            outcomes = (await self._send(_call(batch))).outcomes
            if len(outcomes) != len(batch):
                raise Lost(Unavailable("the cluster's answer is not of what it was asked"))
        except NotTaken as missing:
            return self._again(batch, missing.reason, "nobody", in_doubt=False)
        except Lost as lost:
            return self._again(batch, lost.reason, "lost", in_doubt=True)
        except TocsinError as error:
            CALLS.labels("refused").inc()
            self.away = error
            for waiting in batch:
                waiting.fail(Unavailable(f"the cluster refuses this gateway: {error.message}"))
            return True
        except Exception as error:  # a fault of ours: nobody knows how far it came
            log.exception("publications could not be handed on")
            return self._again(batch, TocsinError(str(error)), "fault", in_doubt=True)
        CALLS.labels("answered").inc()
        self.away = None
        self._backoff.reset()
        return self._settle(batch, outcomes)

    def _settle(self, batch: list[_Waiting], outcomes: list[AppendOutcome]) -> bool:
        later: list[_Waiting] = []
        for waiting, outcome in zip(batch, outcomes, strict=True):
            error = None if outcome.error is UNSET else error_of(outcome.error)
            doubt = isinstance(error, NotLeading | Unconfirmed)
            if doubt:
                waiting.doubt()
            if isinstance(error, Standby) or (doubt and waiting.repeatable):
                waiting.reason = error
                later.append(waiting)
            elif error is not None:
                waiting.fail(error)
            elif outcome.stale and waiting.in_doubt:
                waiting.fail(Unavailable("the dataset was made anew meanwhile"))
            else:
                waiting.done(outcome)
        self._put_back(later)
        return not later

    def _again(
        self, batch: list[_Waiting], reason: TocsinError, how: str, *, in_doubt: bool
    ) -> bool:
        """They wait for the next call."""
        CALLS.labels(how).inc()
        if self.away is None:
            log.warning("nobody who leads answers: publications wait", reason=reason.message)
        self.away = reason
        later = []
        for waiting in batch:
            if in_doubt:
                waiting.doubt()
            waiting.reason = reason
            if waiting.in_doubt and not waiting.repeatable:
                waiting.fail(Unavailable(reason.message))
            else:
                later.append(waiting)
        self._put_back(later)
        return False

    def _put_back(self, later: list[_Waiting]) -> None:
        """Before all others, in their order."""
        for waiting in later:
            waiting.queued = True
        self._waiting.extendleft(reversed(later))


def _call(batch: list[_Waiting]) -> Appends:
    """Each token is in it once."""
    places: dict[str, int] = {}
    appends = []
    for waiting in batch:
        place = places.setdefault(waiting.checked.token, len(places))
        append = waiting.checked.append
        appends.append(
            Append(
                append.dataset,
                append.created_at,
                place,
                append.good,
                append.letters,
                append.refused,
                append.size_bytes,
                append.key,
            )
        )
    return Appends(list(places), appends)


def _full(away: TocsinError | None) -> Unavailable:
    why = "" if away is None else f", because {away.message}"
    return Unavailable(
        f"this gateway holds as many publications as it has room for{why}",
        hint="send it again in a moment",
    )
