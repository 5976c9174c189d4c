"""Consumer logs played the plain way: one object a log, one list of events, no arrays. And the
plain function of a policy, asked record by record."""

from __future__ import annotations

import heapq
import math
from collections import deque
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tocsin.lab.simulators.consumer_logs import Logs
from tocsin.lab.workloads.offers import Offers
from tocsin.policies import parse_admission

RECORD, MARK, READ, POLL = range(4)  # what comes first at the same moment


def plain_decisions(offers: Offers, text: str) -> list[bool]:
    admit = parse_admission(text).admit.start().call
    return [n > 0 and bool(admit(n)) for n in offers.waiting.tolist()]


@dataclass
class Entry:
    record: int
    kind: str
    size_bytes: int


@dataclass
class PlainLog:
    """`kept` is what retention has left; `pending` what the consumer has not noticed yet; it can
    notice the `shown` first of them."""

    kept: deque[Entry] = field(default_factory=deque)
    pending: list[Entry] = field(default_factory=list)
    shown: int = 0
    behind_since: float | None = None
    size_bytes: int = 0
    reads_at: float | None = None


@dataclass
class Played:
    latency: dict[tuple[int, int], float] = field(default_factory=dict)  # record, consumer
    hits: set[tuple[int, int]] = field(default_factory=set)
    written_bytes: int = 0
    expired_bytes: int = 0
    read_bytes: int = 0
    fetches: int = 0
    byte_s: float = 0.0
    max_bytes: int = 0
    stored_bytes: int = 0


class PlainRun:
    def __init__(self, offers: Offers, admitted: list[bool], logs: Logs) -> None:
        self.offers, self.admitted, self.setup = offers, admitted, logs
        self.logs = [PlainLog() for _ in range(offers.consumers)]
        self.shared_log: deque[Entry] = deque()
        self.events: list[tuple[float, int, int, Any]] = []
        self.number = count()
        self.missing: list[tuple[float, int, int]] = []  # when, record, consumer
        self.polling = False
        self.free_at = self.now = 0.0
        self.told = Played()
        self.is_shared = logs.layout == "shared"
        self.shows_holes = self.is_shared or logs.notice == "number"

    def run(self) -> Played:
        done_at, records = 0.0, deque(range(len(self.offers)))
        while records:
            begins_at = max(done_at, float(self.offers.at[records[0]]))
            turn = [records.popleft()]
            while self.setup.turn_s and records and self.offers.at[records[0]] <= begins_at:
                turn.append(records.popleft())
            done_at = begins_at + self.setup.turn_s
            for record in turn:
                done_at += self.service_s(record)
            for record in turn:
                self.later(done_at + self.setup.commit_s, RECORD, record)
        while self.events:
            at, kind, _, what = heapq.heappop(self.events)
            self.pass_time(at)
            if kind == RECORD:
                self.write(what)
            elif kind == MARK:
                self.mark(*what)
            elif kind == READ:
                self.read(what)
            else:
                what()
            self.told.max_bytes = max(self.told.max_bytes, self.told.stored_bytes)
        self.pass_time(self.ended_at())
        return self.told

    def ended_at(self) -> float:
        at = self.offers.at
        ends = (float(at[record]) + late for (record, _), late in self.told.latency.items())
        return max(ends, default=0.0)

    def pass_time(self, now: float) -> None:
        self.told.byte_s += self.told.stored_bytes * (now - self.now)
        self.now = now

    def later(self, at: float, kind: int, what: Any) -> None:
        # Reads of one moment go by consumer, all else in the order in which it was planned.
        order = what if kind == READ else next(self.number)
        heapq.heappush(self.events, (at, kind, order, what))

    def consumers(self, record: int) -> list[int]:
        content = self.offers.content[record]
        first = self.offers.first
        return [int(one) for one in self.offers.consumer[first[content] : first[content + 1]]]

    def service_s(self, record: int) -> float:
        setup, n = self.setup, len(self.consumers(record))
        if self.admitted[record]:
            return setup.broker_s + (n + self.is_shared) * setup.log_write_s
        holes = n * setup.log_write_s if self.shows_holes else 0.0
        return setup.broker_s + holes + n * setup.database_write_s

    def write(self, record: int) -> None:
        who = self.consumers(record)
        size = int(self.offers.size_bytes[record])
        kind = "copy" if self.admitted[record] else "hole"
        if self.is_shared and who:
            references = len(who) * self.setup.reference_bytes
            self.append_shared(Entry(record, kind, references + (size if kind == "copy" else 0)))
        for consumer in who:
            taken = size if kind == "copy" else self.setup.reference_bytes * self.shows_holes
            entry = Entry(record, kind, 0 if self.is_shared else taken)
            self.append(consumer, entry)
            self.logs[consumer].pending.append(entry)
            log = self.logs[consumer]
            if kind == "copy" or self.shows_holes:
                self.show(consumer)
            elif self.setup.mark_s and log.behind_since is None:
                log.behind_since = self.now
                self.later(self.now + self.setup.mark_s, MARK, (consumer, self.now))
        if record == len(self.offers) - 1 and not self.setup.mark_s:
            for consumer in range(self.offers.consumers):
                self.show(consumer)

    def append(self, consumer: int, entry: Entry) -> None:
        log, limit = self.logs[consumer], self.setup.retention_bytes
        log.kept.append(entry)
        self.grow(entry.size_bytes)
        log.size_bytes += entry.size_bytes
        while limit and log.size_bytes > limit:
            gone = log.kept.popleft()
            log.size_bytes -= gone.size_bytes
            self.shrink(gone.size_bytes)

    def append_shared(self, entry: Entry) -> None:
        self.shared_log.append(entry)
        self.grow(entry.size_bytes)
        limit = self.setup.retention_bytes * self.offers.consumers
        while limit and self.told.stored_bytes > limit:
            self.shrink(self.shared_log.popleft().size_bytes)

    def grow(self, size_bytes: int) -> None:
        self.told.written_bytes += size_bytes
        self.told.stored_bytes += size_bytes

    def shrink(self, size_bytes: int) -> None:
        self.told.expired_bytes += size_bytes
        self.told.stored_bytes -= size_bytes

    def show(self, consumer: int) -> None:
        """All that is pending now is noticed at the next read."""
        log = self.logs[consumer]
        log.shown, log.behind_since = len(log.pending), None
        if log.pending and log.reads_at is None:
            log.reads_at = self.turn(
                float(self.offers.read_at_s[consumer]), float(self.offers.read_every_s[consumer])
            )
            self.later(log.reads_at, READ, consumer)

    def mark(self, consumer: int, since: float) -> None:
        """Unless it caught up meanwhile."""
        if self.logs[consumer].behind_since == since:
            self.show(consumer)

    def turn(self, begin: float, every: float, not_before: float | None = None) -> float:
        now = self.now if not_before is None else not_before
        if every <= 0:
            return now
        turns = max(0, math.ceil((now - begin) / every))
        while begin + turns * every < now:
            turns += 1
        return begin + turns * every

    def read(self, consumer: int) -> None:
        log, setup = self.logs[consumer], self.setup
        log.reads_at = None
        noticed, log.pending = log.pending[: log.shown], log.pending[log.shown :]
        log.shown = 0
        got, fetch_s = 0, (2 if self.is_shared else 1) * setup.log_read_s
        for entry in noticed:
            place = self.shared_log if self.is_shared else log.kept
            there = any(one.record == entry.record and one.kind == entry.kind for one in place)
            if there and (self.is_shared or entry.kind == "hole"):
                got += setup.reference_bytes * self.shows_holes
            if there and entry.kind == "copy":
                got += int(self.offers.size_bytes[entry.record])
                self.told.hits.add((entry.record, consumer))
                self.deliver(entry.record, consumer, fetch_s + got / setup.log_bytes_per_s)
            else:
                at = self.now + setup.log_read_s + setup.log_write_s
                self.missing.append((at, entry.record, consumer))
        self.told.read_bytes += got
        self.poll()

    def poll(self) -> None:
        if self.missing and not self.polling:
            self.polling = True
            wanted_at = max(self.free_at, self.missing[0][0])
            self.later(self.turn(0.0, self.setup.poll_s, wanted_at), POLL, self.fetch)

    def fetch(self) -> None:
        setup = self.setup
        batch = [one for one in self.missing if one[0] <= self.now][: setup.batch]
        self.missing = self.missing[len(batch) :]
        self.told.fetches += 1
        self.free_at = self.now + setup.poll_s / 2
        takes_s = setup.database_read_s + len(batch) * (setup.database_row_s + setup.log_write_s)
        self.later(self.now + takes_s, POLL, lambda: self.fill(batch))

    def fill(self, batch: list[tuple[float, int, int]]) -> None:
        setup, fetch_s = self.setup, (2 if self.is_shared else 1) * self.setup.log_read_s
        there: set[int] = set()
        for _, record, consumer in batch:
            got = int(self.offers.size_bytes[record])
            if self.is_shared:
                whole = setup.reference_bytes + (0 if record in there else got)
                self.append_shared(Entry(record, "fill", whole))
                there.add(record)
                got += setup.reference_bytes
            else:
                self.append(consumer, Entry(record, "fill", got))
            self.told.read_bytes += got
            self.deliver(record, consumer, fetch_s + got / setup.log_bytes_per_s)
        self.free_at = max(self.free_at, self.now)
        self.polling = False
        self.poll()

    def deliver(self, record: int, consumer: int, after_s: float) -> None:
        assert (record, consumer) not in self.told.latency
        self.told.latency[record, consumer] = self.now + after_s - float(self.offers.at[record])
