"""All queries of real-time mode: which channels they serve, and that they run.

One thread looks after them, and it alone starts and stops them, but for `release`. A channel that
no query serves (it is new, far behind, suspect, or there is no slot) is served by ordinary runs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import structlog

from tocsin.errors import InvalidInput, is_bug
from tocsin.model import Channel
from tocsin.service.trouble import Troubles
from tocsin.spark.channels import CompiledChannel, Mask
from tocsin.spark.failures import Blame, blame, reason
from tocsin.spark.real_time.culprits import find_culprits
from tocsin.spark.real_time.joining import MakeMember
from tocsin.spark.real_time.members import Form
from tocsin.spark.real_time.newcomers import Batch
from tocsin.spark.real_time.shared import SharedText
from tocsin.spark.real_time.sharing import (
    assign,
    has_room,
    may_begin_anew,
    side_by_side,
    why_not,
)
from tocsin.spark.real_time.streaming import Position, Running, Streaming, discard
from tocsin.spark.real_time.watched import Watched

log = structlog.get_logger()

NOTHING_OPEN: Mask = frozenset()


class Queries:
    """`member` makes a channel's member, `stands` returns where the store says that a channel
    stands, `ends` the ends of all datasets' logs, `masks` what the subscriptions of a channel leave
    open. `troubles` takes channels whose query does not run."""

    def __init__(
        self,
        streaming: Streaming,
        member: MakeMember,
        slots: int,
        stands: Callable[[Channel], Position],
        ends: Callable[[], dict[str, int]],
        masks: Callable[[str], set[Mask]],
        troubles: Troubles,
    ) -> None:
        self._streaming = streaming
        self._member = member
        self._slots = slots
        self._stands = stands
        self._ends = ends
        self._masks = masks
        self._troubles = troubles
        self.before_begin: Callable[[str], None] = lambda _: None  # a query with this channel
        self._watched: dict[str, Watched] = {}
        self._running: dict[int, Running] = {}
        self._serving: dict[str, Running] = {}  # by channel: asked for at every record
        self._lock = threading.RLock()  # of all three; not held while Spark is asked

    def why_not(self, compiled: CompiledChannel) -> str:
        """Why the channel must run in micro-batches; empty if it need not."""
        refusal = why_not(compiled)
        if refusal:
            return refusal
        try:
            member = self._member(compiled, NOTHING_OPEN)
        except InvalidInput as error:
            return str(error)
        (dataset,) = compiled.new
        if not self._has_room(dataset, member.form):
            return f"all {self._slots} real-time slots are taken (setting real_time_slots)"
        return ""

    def watch(self, channel: Channel, compiled: CompiledChannel) -> None:
        """From now on the channel is in a query, as soon as one can begin with it."""
        self.release(channel.name)
        with self._lock:
            self._watched[channel.name] = Watched(channel, compiled)

    def unwatch(self, name: str) -> None:
        """A query may go on looking for its parameter sets, which are no more."""
        with self._lock:
            self._watched.pop(name, None)
        self._troubles.clear(name)

    def release(self, name: str) -> None:
        """A channel may have this name that is not the one which queries know by it."""
        with self._lock:
            serving = self._serving.get(name)
            numbers = [n for n, running in self._running.items() if running is serving]
        for number in numbers:
            self._end(number)

    def subscribed(self, name: str) -> None:
        """A subscription was made, which may leave open what none did."""
        with self._lock:
            if name in self._watched:
                self._watched[name].stale = True

    def look_after(self) -> None:
        """Follow what channels there are and what their subscriptions leave open; let others go on
        without a channel whose query failed; start again what the machinery stopped."""
        stopped: dict[str, str] = {}
        for number, running in self._now_running().items():
            try:
                self._streaming.note_batch(running)
                if not running.query.isActive:
                    stopped |= self._ended(number, running)
            except Exception as error:  # Kafka, the store or Spark is away: it is tried again
                stopped |= dict.fromkeys(running.channels, _machinery(error))
        for dataset, names in self._by_dataset().items():
            try:
                self._arrange(dataset, names)
            except Exception as error:
                stopped |= dict.fromkeys(names, _machinery(error))
        self._report(stopped)

    def passed(self) -> dict[str, Position]:
        """For each dataset read here, the end below which nothing is needed again."""
        needed: dict[str, Position] = {}
        with self._lock:
            watched = list(self._watched.values())
            running = list(self._running.values())
        ends = [(query.dataset, query.reached) for query in running]
        ends += [(its.dataset, self._position(its)) for its in watched]
        for dataset, end in ends:
            needed[dataset] = min(needed.get(dataset, end), end)
        return needed

    def serves(self, name: str) -> bool:
        """Whether a query looks at new records for the channel."""
        return self._query_of(name) is not None

    def reached(self, name: str) -> Position | None:
        """Below which position a query has written every match of the channel."""
        running, watched = self._query_of(name), self._watched.get(name)
        if running is None or watched is None:
            return None
        return max(running.reached, watched.begin)

    def batches(self, name: str) -> dict[Mask, Batch]:
        """By what subscriptions leave open, the batch that the channel's query is at, behind the
        newest that it has finished. Should it fail, another one begins at the same record."""
        running = self._query_of(name)
        if running is None:
            return {}
        its = (member for member in running.text.members if member.channel == name)
        return {member.mask: running.batch for member in its}

    def is_running(self, name: str) -> bool:
        running = self._query_of(name)
        return running is not None and running.query.isActive

    def describe(self, name: str) -> str:
        """Who is in the channel's query, or why it has none now."""
        with self._lock:
            watched, running = self._watched.get(name), self._query_of(name)
        if running is not None:
            others = len(running.channels) - 1
            return f"shared with {others} other channels" if others else "shared with no other yet"
        apart = "none, ordinary runs serve it"
        if watched is None:
            return apart
        if watched.refused:
            return f"{apart}: {watched.refused}"
        suspect_s = watched.suspect_s(time.monotonic())
        if suspect_s:
            return f"{apart} for {suspect_s:.0f} s: it failed: {watched.failure}"
        if len(self._running) >= self._slots:
            return f"{apart}: all {self._slots} real-time slots are taken"
        return f"{apart} until the next one begins"

    def stop(self) -> None:
        for number in self._now_running():
            self._end(number)
        with self._lock:
            self._watched.clear()

    def _now_running(self) -> dict[int, Running]:
        with self._lock:
            return dict(self._running)

    def _query_of(self, name: str) -> Running | None:
        with self._lock:
            return self._serving.get(name) if name in self._watched else None

    def _by_dataset(self) -> dict[str, list[str]]:
        datasets: dict[str, list[str]] = {}
        with self._lock:
            for name, watched in self._watched.items():
                datasets.setdefault(watched.dataset, []).append(name)
            for running in self._running.values():
                datasets.setdefault(running.dataset, [])
        return datasets

    def _has_room(self, dataset: str, form: Form) -> bool:
        with self._lock:
            datasets = {watched.dataset for watched in self._watched.values()}
            counts = dict.fromkeys(datasets, 0)
            for running in self._running.values():
                counts[running.dataset] = counts.get(running.dataset, 0) + 1
            texts = [its.text for its in self._running.values() if its.dataset == dataset]
        taken = sum(max(1, count) for count in counts.values())
        known = dataset in counts
        return (
            taken < self._slots
            or (known and not texts)
            or any(has_room(text.forms, [form]) for text in texts)
        )

    def _position(self, watched: Watched) -> Position:
        return max(watched.begin, self._stands(watched.channel))

    def _end(self, number: int) -> None:
        """Stop a query; who was in it stands where it has surely looked at everything."""
        with self._lock:
            running = self._running.pop(number, None)
            if running is None:
                return
            for name in running.channels:
                self._serving.pop(name, None)
            self._note_reached(running)
        discard(running)

    def _note_reached(self, running: Running) -> None:
        with self._lock:
            for name in running.channels:
                if name in self._watched:
                    its = self._watched[name]
                    its.begin = max(its.begin, running.reached)

    def _ended(self, number: int, running: Running) -> dict[str, str]:
        """What becomes of the channels of a query that is no more; and why they have to wait. From
        here on ordinary runs serve them, until another one begins."""
        error = running.query.exception()
        names = [name for name in running.channels if name in self._watched]
        self._end(number)
        if error is not None and blame(error) in (Blame.QUERY, Blame.MEMORY):
            log.warning("a real-time query failed", channels=len(names), reason=reason(error))
            culprits = self._culprits(running.text, running.dataset, running.reached)
            self._set_apart(culprits or dict.fromkeys(names, error))
            return {}
        return dict.fromkeys(names, "nobody knows why" if error is None else reason(error))

    def _culprits(self, text: SharedText, dataset: str, start: Position) -> dict[str, Exception]:
        """The channels that the query fails on from here on; none, if that cannot be seen."""
        end = max(start, self._ends().get(dataset, 0))

        def failure(channels: Sequence[str]) -> Exception | None:
            its = SharedText([m for m in text.members if m.channel in channels])
            return self._streaming.failure(its, dataset, start, end)

        return find_culprits(text.channels, failure)

    def _set_apart(self, failures: dict[str, Exception]) -> None:
        """Ordinary runs find out what a channel fails on, and take it past."""
        now = time.monotonic()
        with self._lock:
            for name, error in failures.items():
                its = self._watched.get(name)
                if its is not None:
                    its.fail(reason(error), now)
                    log.warning(
                        "a channel failed in real-time mode and is kept apart for a while",
                        channel=name, reason=its.failure, seconds=round(its.suspect_s(now)),
                    )  # fmt: skip

    def _arrange(self, dataset: str, names: Sequence[str]) -> None:
        """Start, stop and begin anew the queries of a dataset, where that is due."""
        running = {n: its for n, its in self._now_running().items() if its.dataset == dataset}
        present = {number: its.channels for number, its in running.items()}
        joined = {name for channels in present.values() for name in channels}
        wanted = {name: its for name in names if (its := self._fit(name)) is not None}
        positions = {name: self._position(its) for name, its in wanted.items()}
        near = side_by_side(positions)
        forms = {n: its.forms for n, its in wanted.items() if n in near or n in joined}
        groups = assign(present, forms)
        for number in running.keys() - groups.keys():
            self._end(number)
        for number, channels in groups.items():
            text = SharedText([m for name in channels for m in wanted[name].members])
            if number not in running:
                self._begin(dataset, text)
            elif set(text.members) != set(running[number].text.members):
                self._begin_anew(number, running[number], text)

    def _fit(self, name: str) -> Watched | None:
        """A channel that may be in a query."""
        with self._lock:
            watched = self._watched.get(name)
            stale = watched is not None and watched.stale
        if watched is None or watched.suspect_s(time.monotonic()):
            return None
        if stale:
            watched.stale = False
            try:
                used = self._masks(name) if watched.openable else set()
                masks = {NOTHING_OPEN, *used}
                in_order = sorted(masks, key=lambda mask: (len(mask), sorted(mask)))
                members = (self._member(watched.compiled, mask) for mask in in_order)
                watched.members, watched.refused = tuple(members), ""
            except InvalidInput as error:
                watched.refused = str(error)
            except Exception as error:
                if not is_bug(error):
                    watched.stale = True
                    raise
                log.exception("a channel cannot share a query", channel=name)
                watched.refused = f"it cannot share a query: {error}"
        return None if watched.refused else watched

    def _begin(self, dataset: str, text: SharedText, number: int = 0) -> None:
        """`number`: of the query whose place it takes."""
        if not number and len(self._running) >= self._slots:
            return  # `describe` tells; channels run ordinarily
        with self._lock:
            watched = [self._watched[name] for name in text.channels if name in self._watched]
        if len(watched) < len(text.channels):
            return  # dropped just now
        for its in watched:
            self.before_begin(its.channel.name)
            its.begin = self._position(its)
        begin = min(its.begin for its in watched)
        try:
            running = self._streaming.start(text, dataset, begin)
        except Exception as error:
            if blame(error) is not Blame.QUERY:
                raise
            culprits = self._culprits(text, dataset, begin)
            self._set_apart(culprits or dict.fromkeys(text.channels, error))
            return
        with self._lock:
            number = number or 1 + max(self._running, default=0)
            if number in self._running:
                for name in self._running[number].channels:
                    self._serving.pop(name, None)
            self._running[number] = running
            self._serving |= dict.fromkeys(text.channels, running)
            same = all(self._watched.get(its.channel.name) is its for its in watched)
        log.info("a real-time query began", dataset=dataset, channels=len(watched), at=begin)
        if not same:  # one was dropped, and may be made anew under its name
            self._end(number)

    def _begin_anew(self, number: int, running: Running, text: SharedText) -> None:
        age_s = time.monotonic() - running.started_at
        batch_age_s = time.time() - running.batch.began_at
        repeated = self._ends().get(running.dataset, 0) - running.reached
        if not may_begin_anew(age_s, batch_age_s, repeated):
            return
        discard(running)  # it still counts as serving its channels: that is a matter of a second
        self._note_reached(running)
        try:
            self._begin(running.dataset, text, number)
        finally:
            if self._running.get(number) is running:  # nothing took its place
                self._end(number)

    def _report(self, stopped: dict[str, str]) -> None:
        with self._lock:
            names = list(self._watched)
        for name in names:
            if name not in stopped:
                self._troubles.clear(name)
            elif self._troubles.put(name, f"its query does not run: {stopped[name]}"):
                log.error("a real-time query does not run", channel=name, reason=stopped[name])


def _machinery(error: Exception) -> str:
    if is_bug(error):
        raise error
    return reason(error)
