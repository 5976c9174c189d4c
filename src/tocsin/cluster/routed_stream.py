"""Routed records as they become durable, for the broker where publications enter the overlay.

Lines of JSON without an end. Of each routed dataset first from where on its records come; then each
record, in the order of the log; every second how far everything was told, or an empty line where
there is nothing to tell of: who hears nothing for longer has lost us. Nothing is kept for a
reader: what it has not taken yet is in the log. One that falls far behind is cut off; it comes
again, and reads what it missed by ranges.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import structlog
from msgspec import Raw

from tocsin.cluster.log_records import placed
from tocsin.errors import TocsinError
from tocsin.model import Dataset
from tocsin.protocol.cluster import RoutedLine, encode_lines
from tocsin.service.tokens import Identity
from tocsin.storage.log import PublicationLog, Reader, open_reader

log = structlog.get_logger()

PASSED_EVERY_S = 1.0
BATCH_BYTES = 256 * 1024
BEHIND_BYTES = 64 * 1024 * 1024  # of records that wait for a reader before it is cut off


class Routed:
    """The routed datasets, and the streams that tell of them. For the event loop's thread, but for
    what the log calls."""

    def __init__(
        self,
        publication_log: PublicationLog,
        refusal: Callable[[Identity], str | None] = lambda _: None,
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        """`refusal`: why a reader that was let in must go. `leads`: whether records still come to
        this log; where another cluster has taken it over, nobody is told so by what comes."""
        self._refusal = refusal
        self._leads = leads
        self._log = publication_log
        self._loop = asyncio.get_running_loop()
        self._unwatch = publication_log.watch(self._moved)
        self._waking = False
        self._streams: set[RoutedStream] = set()
        self.datasets: dict[str, Dataset] = {}

    def add(self, dataset: Dataset) -> None:
        if dataset.routed:
            self.datasets[dataset.name] = dataset
            self._wake()

    def drop(self, name: str) -> None:
        self.datasets.pop(name, None)
        self._wake()

    def stream(self, identity: Identity) -> RoutedStream:
        stream = RoutedStream(
            self._log,
            self.datasets,
            lambda: (
                time.time() < identity.expires_at
                and self._refusal(identity) is None
                and self._leads()
            ),
            self._streams.discard,
        )
        self._streams.add(stream)
        return stream

    def close(self) -> None:
        """All streams end."""
        self._unwatch()
        for stream in list(self._streams):
            stream.close()

    def _moved(self) -> None:
        """On the log's thread. Many commits may come before the loop looks once."""
        if self._streams and not self._waking:
            self._waking = True
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._waking = False
        for stream in self._streams:
            stream.wake.set()


class RoutedStream:
    """What one broker is told. `datasets` changes as they come and go."""

    def __init__(
        self,
        publication_log: PublicationLog,
        datasets: dict[str, Dataset],
        may_read: Callable[[], bool],
        on_close: Callable[[RoutedStream], None],
    ) -> None:
        self.open = True
        self.wake = asyncio.Event()
        self._log = publication_log
        self._datasets = datasets
        self._may_read = may_read
        self._on_close = on_close
        self._known: dict[str, Dataset] = {}
        self._positions: dict[str, int] = {}  # up to where each was told
        self._passed_at = time.monotonic()
        self._reader: Reader = open_reader(publication_log.address)
        # One thread: a reader at the ends is for one caller at a time, and must outlive a call.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="routed")

    def close(self) -> None:
        if self.open:
            self.open = False
            self.wake.set()

    def gone(self, stalled: bool) -> None:
        """Nobody reads it any more."""
        if stalled:
            log.warning("a reader of routed records was cut off: it did not read")
        self.open = False
        self._on_close(self)
        self._thread.submit(self._reader.close)
        self._thread.shutdown(wait=False)

    async def next(self) -> bytes:
        while self.open:
            self.wake.clear()
            body = self._come_and_gone() + await self._news() + self._passed()
            if body:
                return body
            await self._wait()
        return b""

    def _come_and_gone(self) -> bytes:
        lines: list[RoutedLine[Raw]] = []
        for name, dataset in list(self._known.items()):
            if self._datasets.get(name) != dataset:
                del self._known[name], self._positions[name]
                lines.append(RoutedLine(name, left=True))
        ends = self._log.ends()
        for name, dataset in self._datasets.items():
            if name not in self._known:
                end = ends.get(name, 0)
                self._known[name], self._positions[name] = dataset, end
                lines.append(RoutedLine(name, entered=end))
        return encode_lines(lines)

    async def _news(self) -> bytes:
        ends = self._log.ends()
        waiting = {name: at for name, at in self._positions.items() if ends.get(name, 0) > at}
        if not waiting:
            return b""
        behind = sum(self._reader.size_bytes(at, ends[name]) for name, at in waiting.items())
        if behind > BEHIND_BYTES:
            log.warning("a reader of routed records was cut off: it is far behind", bytes=behind)
            self.close()
            return b""
        loop = asyncio.get_running_loop()
        try:
            pieces = await loop.run_in_executor(self._thread, self._read, dict(self._positions))
        except TocsinError as error:
            if all(self._datasets.get(name) == self._known[name] for name in waiting):
                log.warning("routed records cannot be read now", reason=str(error))
                self.close()
            return b""
        for name, (_, end) in pieces.items():
            self._positions[name] = end
        return b"".join(lines for lines, _ in pieces.values())

    def _read(self, starts: dict[str, int]) -> dict[str, tuple[bytes, int]]:
        """On the stream's thread."""
        pieces = {}
        for name, news in self._reader.news(starts, BATCH_BYTES).items():
            lines: list[RoutedLine[Raw]] = []
            for position, body in news.lines:
                record = placed(position, self._reader.end_of(position, body), body)
                if record is not None:
                    after, position, at, value = record
                    lines.append(RoutedLine(name, after, position, at, Raw(value)))
            pieces[name] = (encode_lines(lines), news.end)
        return pieces

    def _passed(self) -> bytes:
        now = time.monotonic()
        if now < self._passed_at + PASSED_EVERY_S:
            return b""
        self._passed_at = now
        if not self._may_read():
            self.close()
        positions = self._positions.items()
        lines = [RoutedLine[Raw](name, passed=end) for name, end in positions]
        return encode_lines(lines) or b"\n"

    async def _wait(self) -> None:
        left_s = self._passed_at + PASSED_EVERY_S - time.monotonic()
        try:
            await asyncio.wait_for(self.wake.wait(), max(0.0, left_s))
        except TimeoutError:
            return
