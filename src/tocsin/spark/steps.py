"""A channel's next step: a run from where it stands over as much as it can bear.

What is far behind is taken in pieces, and smaller ones when a run takes too long. Only when there
is no smaller piece left is the query itself too slow, and the piece given up and reported.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tocsin.model import Channel, Dataset
from tocsin.spark.asking import Ask, Compiled, Overlong
from tocsin.spark.channel_runs import ChannelRuns
from tocsin.spark.pins import Pinned
from tocsin.spark.window import Window
from tocsin.storage.log import Cut, PublicationLog, Reader
from tocsin.storage.store.progress import Progress

OVERLONG_TRIES = 3


class Sizes(Protocol):
    def bound(self, dataset: Dataset, start: int, end: int, most_bytes: int) -> int:
        """Where a window from `start` ends that has about so many bytes; at most `end`, and behind
        one record at least."""


class Cuts(Protocol):
    """Cuts that channels look at together."""

    @property
    def tables(self) -> Sizes: ...

    @property
    def dataset(self) -> Callable[[str], Dataset]: ...

    def recent(
        self, since_us: int, cut: Callable[[], Cut], serves: Callable[[Cut], bool]
    ) -> Pinned: ...


class Steps:
    """`limit_s` is the longest that a run may ever take. One step of a channel at a time."""

    def __init__(
        self,
        runner: ChannelRuns,
        snapshots: Cuts,
        log: PublicationLog,
        reader: Reader,
        *,
        batch_bytes: int,
        limit_s: float,
    ) -> None:
        self._runner = runner
        self._snapshots = snapshots
        self._tables = snapshots.tables
        self._log = log
        self._reader = reader
        self._batch_bytes = batch_bytes
        self._limit_s = limit_s
        self._most_bytes: dict[str, int] = {}  # of channels whose runs took too long
        self._overlong: dict[str, int] = {}

    def take(self, channel: Channel, compiled: Compiled, limit_s: float) -> None:
        """Raises what Runner.run does: then the channel stands where it stood, unless it was
        given up at last."""
        since = self._runner.progress(channel)
        snapshot = self._snapshots.recent(since.at_us, self._log.cut, _beyond(channel, since))
        window = self._window(channel, compiled, since, snapshot)

        def divisible() -> bool:
            return self._smaller(channel, compiled, window) is not None

        try:
            self._runner.run(channel.name, Ask(window, snapshot, limit_s, divisible))
        except Overlong as error:
            if limit_s >= self._limit_s:  # otherwise there is more patience among the slow ones
                self._was_too_much(channel, compiled, window, error)
            raise
        self._went_well(channel.name)

    def forget(self, name: str) -> None:
        """How it got on until now."""
        self._overlong.pop(name, None)
        self._most_bytes.pop(name, None)

    def _went_well(self, name: str) -> None:
        """The next piece may be larger again, little by little: each that is too large costs all
        of its time limit."""
        self._overlong.pop(name, None)
        most_bytes = 2 * self._most_bytes.get(name, self._batch_bytes)
        if most_bytes < self._batch_bytes:
            self._most_bytes[name] = most_bytes
        else:
            self._most_bytes.pop(name, None)

    def _window(
        self, channel: Channel, compiled: Compiled, since: Progress, snapshot: Pinned
    ) -> Window:
        """Up to the snapshot's cut. A channel that is far behind takes it in pieces, if it can."""
        ends = {name: snapshot.cut.ends.get(name, 0) for name in channel.new}
        if _takes_pieces(channel, compiled):
            (name,) = channel.new
            most_bytes = self._most_bytes.get(channel.name, self._batch_bytes)
            start = since.ends.get(name, 0)
            ends[name] = self._tables.bound(
                self._snapshots.dataset(name), start, ends[name], most_bytes
            )
        return Window(since, Progress(ends, snapshot.cut.at_us))

    def _smaller(self, channel: Channel, compiled: Compiled, window: Window) -> int | None:
        """How many bytes make a piece that is smaller than the window; None: there is none."""
        if not _takes_pieces(channel, compiled):
            return None
        (name,) = channel.new
        start, end = window.range(name)
        most_bytes = max(1, self._reader.size_bytes(start, end) // 4)
        is_less = self._tables.bound(self._snapshots.dataset(name), start, end, most_bytes) < end
        return most_bytes if is_less else None

    def _was_too_much(
        self, channel: Channel, compiled: Compiled, window: Window, error: Overlong
    ) -> None:
        """Try less at a time. When there is no less, the query itself is too slow."""
        name = channel.name
        most_bytes = self._smaller(channel, compiled, window)
        if most_bytes is not None:
            self._most_bytes[name] = most_bytes
            return
        self._overlong[name] = self._overlong.get(name, 0) + 1
        if self._overlong[name] >= OVERLONG_TRIES:
            self._runner.give_up(name, window, f"{error} (setting run_limit_s)")
            self._overlong.pop(name)


def _takes_pieces(channel: Channel, compiled: Compiled) -> bool:
    """A continuous one may, unless its query depends on how long a piece is."""
    return channel.kind == "continuous" and len(channel.new) == 1 and not compiled.uses_window


def _beyond(channel: Channel, since: Progress) -> Callable[[Cut], bool]:
    """Whether a cut has something new for a continuous channel."""

    def serves(cut: Cut) -> bool:
        return channel.kind != "continuous" or any(
            since.ends.get(name, 0) < cut.ends.get(name, 0) for name in channel.new
        )

    return serves
