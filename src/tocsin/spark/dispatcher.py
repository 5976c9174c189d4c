"""Which channel runs when, and beside which others.

A continuous channel runs when there are new records for it, a repetitive one on its ticks; none
runs twice at a time. Channels whose runs are quick share some threads. One that is slow has to
share a single thread with its like, so that it holds up nobody else; it falls behind by itself.
A run that the machinery broke is tried again, after growing pauses, for as long as it takes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random

import structlog
from prometheus_client import Counter

from tocsin.backoff import Backoff
from tocsin.errors import Damaged, Unavailable
from tocsin.model import Channel
from tocsin.service.trouble import Troubles
from tocsin.spark.failures import Overlong, reason
from tocsin.spark.repetition import Schedule

log = structlog.get_logger()

OVERRUNS = Counter("tocsin_overruns_total", "Ticks of a channel that passed unused", ["channel"])

QUICK_THREADS = 24  # most wait for Spark, which answers many at once (`shared_jobs`)
QUICK_LIMIT_S = 10.0  # a run that takes longer goes on among the slow ones, from its beginning
SLOW_S = 2.0  # a slow channel whose run takes less is a quick one again
LONGEST_WAIT_S = 1.0


@dataclass
class _Task:
    channel: Channel
    running: bool = False
    slow: bool = False
    due: bool = False  # a repetitive channel's tick has come, or its run is to be tried again
    retry_at: float = 0.0  # by the steady clock
    backoff: Backoff = field(default_factory=lambda: Backoff(Random(), first_s=0.2, most_s=10.0))
    overruns: int = 0


class Dispatcher:
    """`run` runs a channel with a time limit; `has_news` returns whether a continuous one should.
    `troubles` takes the channels that the machinery keeps from running."""

    def __init__(
        self,
        run: Callable[[str, float], None],
        has_news: Callable[[Channel], bool],
        troubles: Troubles,
        *,
        limit_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._run = run
        self._troubles = troubles
        self._has_news = has_news
        self._limit_s = limit_s
        self._clock = clock
        self._quick_limit_s = min(QUICK_LIMIT_S, limit_s)
        self._tasks: dict[str, _Task] = {}
        self._schedule = Schedule()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._quick = ThreadPoolExecutor(QUICK_THREADS, thread_name_prefix="quick")
        self._slow = ThreadPoolExecutor(1, thread_name_prefix="slow")
        self._thread = threading.Thread(target=self._dispatch, name="dispatcher", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, *, wait: bool = True) -> None:
        """`wait`: until no run is under way."""
        self._stopping.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()
        for pool in (self._quick, self._slow):
            pool.shutdown(wait=wait, cancel_futures=True)

    def add(self, channel: Channel) -> None:
        with self._lock:
            self._tasks[channel.name] = _Task(channel)
            if channel.period_s is not None:
                self._schedule.add(
                    channel.name, channel.period_s, channel.created_at, self._clock()
                )
        self._wake.set()

    def remove(self, name: str) -> None:
        with self._lock:
            self._tasks.pop(name, None)
            self._schedule.remove(name)
        self._troubles.clear(name)

    def wake(self) -> None:
        """There may be news. Called from any thread; does not wait."""
        self._wake.set()

    def is_slow(self, name: str) -> bool:
        with self._lock:
            return name in self._tasks and self._tasks[name].slow

    def overruns(self, name: str) -> int:
        """Ticks of a repetitive channel that passed unused since the start."""
        with self._lock:
            return self._tasks[name].overruns if name in self._tasks else 0

    def _dispatch(self) -> None:
        while not self._stopping.is_set():
            self._wake.clear()
            now, steady = self._clock(), time.monotonic()
            with self._lock:
                for name in self._schedule.due(now):
                    self._tasks[name].due = True
                idle = [task for task in self._tasks.values() if not task.running]
                waits = [task.retry_at - steady for task in idle if task.retry_at > steady]
                next_at = self._schedule.next_at()
            for task in idle:
                if task.retry_at <= steady and (task.due or self._is_wanted(task.channel)):
                    self._begin(task)
            waits += [] if next_at is None else [next_at - self._clock()]
            wait_s = min([LONGEST_WAIT_S, *waits])
            self._wake.wait(max(0.0, wait_s))

    def _is_wanted(self, channel: Channel) -> bool:
        return channel.period_s is None and self._has_news(channel)

    def _begin(self, task: _Task) -> None:
        with self._lock:
            task.running, task.due = True, False
        (self._slow if task.slow else self._quick).submit(self._carry_out, task)

    def _carry_out(self, task: _Task) -> None:
        name, began = task.channel.name, time.monotonic()
        limit_s = self._limit_s if task.slow else self._quick_limit_s
        again = False
        try:
            self._run(name, limit_s)
        except Overlong as error:
            log.warning("a run was stopped", channel=name, reason=str(error))
            task.slow = again = True
        except Exception as error:
            again = True
            self._failed(task, error)
        else:
            task.slow = task.slow and time.monotonic() - began > SLOW_S
            task.retry_at = _next_at(task.channel, began)
            task.backoff.reset()
            self._troubles.clear(name)
        finally:
            with self._lock:
                missed = self._schedule.finished(name)
                task.overruns += missed
                task.running = False
                task.due = task.due or (again and task.channel.period_s is not None)
            if missed:
                OVERRUNS.labels(name).inc(missed)
                log.warning("a channel overran its period", channel=name, ticks=missed)
            self._wake.set()

    def _failed(self, task: _Task, error: Exception) -> None:
        if self._stopping.is_set():
            return
        name = task.channel.name
        with self._lock:
            if self._tasks.get(name) is not task:  # dropped while it ran
                return
        if self._troubles.put(name, reason(error)):
            report_trouble("a run could not be made and is tried again", error, name)
        task.retry_at = time.monotonic() + task.backoff.next_s()


def _next_at(channel: Channel, began: float) -> float:
    """A channel in real-time mode runs for its newcomers alone, who leave the other half of the
    time to everybody else's."""
    now = time.monotonic()
    return now + (now - began) if channel.mode == "real-time" else 0.0


def report_trouble(what: str, error: Exception, channel: str) -> None:
    """What is away for now, or damaged on the disk, needs no trace of the code."""
    if isinstance(error, Unavailable | Damaged | OSError):
        log.warning(what, reason=reason(error), channel=channel)
    else:
        log.exception(what, channel=channel)
