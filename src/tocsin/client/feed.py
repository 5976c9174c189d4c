"""What one subscription has received, given to the application and acknowledged. Sans-I/O.

Results enter in any order and as often as the network likes, and leave once, in order. Memory
is bounded: while the application is behind, nothing more is asked for. Must not know sockets.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from msgspec import UNSET, Struct

from tocsin.model import filtered_dataset
from tocsin.protocol.client import ResultsFrame, SubscriptionInfo
from tocsin.protocol.gap import LostRecords, decode_gap


class Gap(Struct, frozen=True):
    """Results that existed and can no longer be had, or that could not be made: then `records` says
    of which records. `last` is None if nobody knows how many."""

    channel: str
    first: int
    last: int | None
    reason: str
    records: LostRecords | None = None


class Result(Struct, frozen=True):
    """One result. `gap` tells what was lost between the result before and this one."""

    value: Any
    position: int
    at: float  # when the result was made, seconds since the epoch
    channel: str
    epoch: str
    gap: Gap | None = None
    subscription: int = 0


class Wanted(Struct, frozen=True):
    """A get that should be sent now."""

    after: int
    epoch: str
    limit: int


class Feed:
    """The state of one subscription at the client."""

    def __init__(self, prefetch: int) -> None:
        if prefetch < 1:
            raise ValueError("prefetch must be at least 1")
        self._prefetch = prefetch
        self._buffer: deque[Result] = deque()
        self._info: SubscriptionInfo | None = None
        self._head = 0
        self._received = 0  # every position up to here was received or is told as a gap
        self._pending = False
        self._gap: Gap | None = None
        self._acknowledged = 0
        self._acknowledgement_sent = 0
        self._untaken: set[int] = set()  # positions that tell of a gap: nobody acknowledges them
        self.durable = 0  # the newest acknowledgement that the broker confirmed
        self.gaps: list[Gap] = []
        self.on_gap: Callable[[Gap], None] = lambda _: None

    @property
    def info(self) -> SubscriptionInfo | None:
        return self._info

    @property
    def position(self) -> int:
        return self._received

    def opened(self, info: SubscriptionInfo) -> None:
        """The broker serves the subscription, for the first time or again after a reconnection."""
        known, self._info = self._info, info
        self._pending = False
        if known is None:
            self._start(info.marker)
        elif known.epoch != info.epoch:
            self._lose(self._received + 1, None, "the backend subscription was made anew")
            self._start(info.marker)
        self._head = max(self._head, info.head)
        self._acknowledgement_sent = self.durable

    def signalled(self, epoch: str, head: int) -> None:
        if self._info is not None and epoch == self._info.epoch:
            self._head = max(self._head, head)
        elif self._info is not None:
            # A new epoch: asking with the old cursor makes the broker say what it means.
            self._head = max(self._head, self._received + 1)

    def wanted(self) -> Wanted | None:
        """The get to send now, if any: one at a time, and only while there is room for it."""
        if self._info is None or self._pending or self._head <= self._received:
            return None
        room = self._prefetch - len(self._buffer)
        if room * 2 < self._prefetch:  # wait until half is free: few large gets, not many small
            return None
        self._pending = True
        return Wanted(self._received, self._info.epoch, room)

    def answer_failed(self) -> None:
        """The get came to nothing; it may be sent again."""
        self._pending = False

    def arrived(self, frame: ResultsFrame[Any]) -> None:
        """Results, asked for or inline."""
        info = self._info
        if info is None:
            return
        answer = frame.ref is not UNSET
        if answer:
            self._pending = False
        if frame.epoch != info.epoch:
            if not answer:
                self.signalled(frame.epoch, frame.head)
                return
            self._lose(self._received + 1, None, "the backend subscription was made anew")
            self._info = SubscriptionInfo(
                subscription=info.subscription,
                subscriber=info.subscriber,
                backend=frame.backend,
                channel=info.channel,
                arguments=info.arguments,
                epoch=frame.epoch,
                head=frame.head,
                floor=0,
                marker=frame.after,
            )
            self._start(frame.after)
        self._head = max(self._head, frame.head)
        if not answer and (frame.after > self._received or len(self._buffer) >= self._prefetch):
            return  # a hole before it, or no room for it: it will be asked for
        if frame.gap is not None and frame.gap.last > self._received:
            first = max(frame.gap.first, self._received + 1)
            self._lose(first, frame.gap.last, "no longer kept")
            self._received = frame.gap.last
        taken = self._take_in(frame)
        if taken and frame.upto > self._received and (answer or self._has_holes):
            if not self._has_holes:
                self._lose(self._received + 1, frame.upto, "missing in the answer")
            self._received = frame.upto

    def take(self) -> Result | None:
        """The next result for the application."""
        return self._buffer.popleft() if self._buffer else None

    def acknowledge(self, result: Result) -> None:
        """The application is done with everything up to this result."""
        if self._info is not None and result.epoch == self._info.epoch:
            self._acknowledged = max(self._acknowledged, result.position)

    def acknowledgement(self) -> tuple[str, int] | None:
        """The cumulative acknowledgement (epoch, position) to send now, if any."""
        while self._acknowledged + 1 in self._untaken:
            self._acknowledged += 1
            self._untaken.remove(self._acknowledged)
        if self._info is None or self._acknowledged <= self._acknowledgement_sent:
            return None
        self._acknowledgement_sent = self._acknowledged
        return self._info.epoch, self._acknowledged

    def confirmed(self, epoch: str, position: int) -> None:
        if self._info is not None and epoch == self._info.epoch:  # one of a past epoch may be late
            self.durable = max(self.durable, position)

    @property
    def settled(self) -> bool:
        """Whether every acknowledgement was confirmed as durable."""
        return self.durable >= self._acknowledged

    def _start(self, marker: int) -> None:
        self._received = self._acknowledged = self._acknowledgement_sent = self.durable = marker
        self._untaken = set()
        self._head = marker

    @property
    def _has_holes(self) -> bool:
        """Are positions those of a dataset's records, of which a filter matches some?"""
        return self._info is not None and filtered_dataset(self._info.channel) is not None

    def _take_in(self, frame: ResultsFrame[Any]) -> bool:
        """Whether all of it was taken."""
        assert self._info is not None
        for result in frame.results:
            if result.position <= self._received:
                continue  # seen before
            if frame.ref is UNSET and len(self._buffer) >= self._prefetch:
                return False  # inline, and no room for the rest: it will be asked for
            if result.position > self._received + 1 and not self._has_holes:
                self._lose(self._received + 1, result.position - 1, "missing in the answer")
            self._received = result.position
            lost = decode_gap(result.value)
            if lost is not None:
                self._untaken.add(result.position)
                self._lose(result.position, result.position, lost.cause, lost)
                continue
            gap, self._gap = self._gap, None
            self._buffer.append(
                Result(
                    value=result.value,
                    position=result.position,
                    at=result.at,
                    channel=self._info.channel,
                    epoch=frame.epoch,
                    gap=gap,
                    subscription=self._info.subscription,
                )
            )
        return True

    def _lose(
        self, first: int, last: int | None, reason: str, records: LostRecords | None = None
    ) -> None:
        assert self._info is not None
        gap = Gap(self._info.channel, first, last, reason, records)
        self.gaps.append(gap)
        if self._gap is None:
            self._gap = gap
        else:  # two losses with nothing between them are told as one
            both = self._gap.last is not None and last is not None
            self._gap = Gap(gap.channel, self._gap.first, last if both else None, reason)
        self.on_gap(gap)
