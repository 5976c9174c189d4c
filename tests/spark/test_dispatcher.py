"""Channels run when they should, beside each other, and again for as long as it takes."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
from msgspec.structs import replace

from tocsin.clock import Clock
from tocsin.errors import Unavailable
from tocsin.model import Channel
from tocsin.service.trouble import Troubles
from tocsin.spark import dispatcher as module
from tocsin.spark.dispatcher import Dispatcher
from tocsin.spark.failures import Overlong


def channel(name: str) -> Channel:
    return Channel(name, "continuous", (), "", ("r",), ("r",))


class Bench:
    """Runs that do what a test says; each channel has news until it has run `news` times well."""

    def __init__(self) -> None:
        self.troubles = Troubles()
        self.did: Counter[str] = Counter()
        self.limits: dict[str, list[float]] = {}
        self.at_once: Counter[str] = Counter()
        self.most_at_once: Counter[str] = Counter()
        self.news: Counter[str] = Counter()
        self.acts: dict[str, Callable[[], None]] = {}
        self._lock = threading.Lock()
        self.dispatcher = Dispatcher(self._run, self._has_news, self.troubles, limit_s=60.0)

    def add(self, name: str, news: int = 1, *, act: Callable[[], None] | None = None) -> None:
        self.news[name] = news
        if act is not None:
            self.acts[name] = act
        self.dispatcher.add(channel(name))

    def _has_news(self, asked: Channel) -> bool:
        return self.did[asked.name] < self.news[asked.name]

    def _run(self, name: str, limit_s: float) -> None:
        with self._lock:
            self.limits.setdefault(name, []).append(limit_s)
            self.at_once[name] += 1
            self.most_at_once[name] = max(self.most_at_once[name], self.at_once[name])
        try:
            self.acts.get(name, lambda: None)()
            with self._lock:
                self.did[name] += 1
        finally:
            with self._lock:
                self.at_once[name] -= 1


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setattr(module, "LONGEST_WAIT_S", 0.05)
    made = Bench()
    made.dispatcher.start()
    yield made
    made.dispatcher.stop()


def until(condition: Callable[[], object]) -> None:
    ends_at = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < ends_at, "it never came to be"
        time.sleep(0.01)


class Machine:
    """Its wall clock is what a test says; its steady clock goes on."""

    def __init__(self) -> None:
        self.wall_offset = 0.0

    def wall(self) -> float:
        return time.monotonic() + self.wall_offset


@pytest.mark.parametrize("step_s", [-3600.0, 3600.0])
def test_a_repetitive_channel_goes_on_when_the_clock_is_set(
    monkeypatch: pytest.MonkeyPatch, step_s: float
) -> None:
    monkeypatch.setattr(module, "LONGEST_WAIT_S", 0.05)
    machine, runs = Machine(), Counter[str]()
    clock = Clock(machine.wall, time.monotonic)

    def run(name: str, limit_s: float) -> None:
        runs[name] += 1

    dispatcher = Dispatcher(run, lambda _: False, Troubles(), limit_s=60.0, clock=clock.now)
    dispatcher.start()
    try:
        every = replace(channel("c"), kind="repetitive", period_s=0.1, created_at=clock.now())
        dispatcher.add(every)
        until(lambda: runs["c"] >= 2)
        machine.wall_offset += step_s
        so_far = runs["c"]
        until(lambda: runs["c"] >= so_far + 3)
    finally:
        dispatcher.stop()


def test_channel_with_news_runs_until_there_are_none_and_never_twice_at_a_time(
    bench: Bench,
) -> None:
    bench.add("c", 5, act=lambda: time.sleep(0.02))
    for _ in range(50):
        bench.dispatcher.wake()
        time.sleep(0.002)
    until(lambda: bench.did["c"] == 5)
    time.sleep(0.1)
    assert bench.did["c"] == 5
    assert bench.most_at_once["c"] == 1


def test_slow_channels_hold_up_nobody_else(bench: Bench) -> None:
    """More of them than there are threads for quick ones."""
    release = threading.Event()

    def slow() -> None:
        if threading.current_thread().name.startswith("quick"):
            raise Overlong("it took longer than 10 s")
        release.wait(20)

    for number in range(module.QUICK_THREADS + 2):
        bench.add(f"slow{number}", act=slow)
    until(lambda: all(bench.dispatcher.is_slow(f"slow{n}") for n in range(3)))
    bench.add("cheap", 20)
    until(lambda: bench.did["cheap"] == 20)
    assert not any(bench.did[name] for name in bench.news if name != "cheap")
    release.set()
    until(lambda: all(bench.did[name] for name in bench.news))
    assert bench.limits["slow0"] == [module.QUICK_LIMIT_S, 60.0]


def test_a_slow_channel_that_is_quick_again_goes_back(bench: Bench) -> None:
    turns = iter([Overlong("it took longer than 10 s")])

    def once_too_long() -> None:
        for error in turns:
            raise error

    bench.add("c", 3, act=once_too_long)
    until(lambda: bench.did["c"] == 3)
    assert bench.limits["c"] == [10.0, 60.0, 10.0, 10.0]
    assert not bench.dispatcher.is_slow("c")


def test_run_that_the_machinery_broke_is_tried_again_and_told_until_it_works(
    bench: Bench,
) -> None:
    away = threading.Event()
    away.set()

    def broken() -> None:
        if away.is_set():
            raise Unavailable("the store is away")

    bench.add("c", act=broken)
    until(lambda: len(bench.limits.get("c", ())) > 3)
    trouble = bench.troubles.of("c")
    assert trouble is not None
    assert "the store is away" in trouble.reason
    assert trouble.since < time.time() - 0.2  # as old as the first failure
    away.clear()
    until(lambda: bench.did["c"] == 1)
    until(lambda: bench.troubles.of("c") is None)


def test_repetitive_channel_does_not_wait_for_its_next_tick_to_try_again(bench: Bench) -> None:
    failures = iter([Unavailable("the store is away")])

    def once_broken() -> None:
        for error in failures:
            raise error

    bench.acts["c"] = once_broken
    soon = time.time() - 3600.0 + 0.2
    hourly = replace(channel("c"), kind="repetitive", period_s=3600.0, created_at=soon)
    bench.dispatcher.add(hourly)
    until(lambda: bench.did["c"] == 1)


def test_channel_dropped_while_its_run_fails_leaves_no_trouble_behind(bench: Bench) -> None:
    began, release = threading.Event(), threading.Event()

    def fail_later() -> None:
        began.set()
        release.wait(20)
        raise Unavailable("the store is away")

    bench.add("c", act=fail_later)
    began.wait(20)
    bench.dispatcher.remove("c")
    release.set()
    until(lambda: not bench.at_once["c"])
    time.sleep(0.1)
    assert bench.troubles.of("c") is None
