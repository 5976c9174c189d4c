"""What a recorder writes of a core is what happened to it, whenever it begins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.workloads import workloads
from tocsin.broker.machine.watching import NOBODY
from tocsin.broker.server.recorder import Recorder
from tocsin.lab.simulators.result_cache.live import _LiveRun as LiveRun
from tocsin.lab.trace.events import RECORD, EventTrace
from tocsin.lab.trace.objects import published
from tocsin.lab.trace.workload import to_workload
from tocsin.lab.workloads.network import Network
from tocsin.lab.workloads.workload import OFFLINE, ONLINE, PUBLISH, SUBSCRIBE, UNSUBSCRIBE, Workload
from tocsin.policies import parse_policy
from tocsin.protocol.trace import RECORD as WIRE
from tocsin.protocol.trace import About

AT_ONCE = Network(cluster_rtt_s=0.0, cluster_bytes_per_s=1e12)


class Played:
    """A workload on a live core, recorded from its event number `since` on."""

    def __init__(self, workload: Workload, policy: str, since: int = 0, most: int = 10**6) -> None:
        self.now = 0.0
        self.run = LiveRun(parse_policy(policy), 300, AT_ONCE)
        self.kept = b""
        self.recorder: Recorder | None = None
        columns = (workload.at, workload.kind, workload.subject, workload.value)
        for number, event in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
            if number == since:
                self.recorder = self._begin(most)
            self.now = event[0]
            self.run.do(workload.owners, *event)
        if self.recorder is None:
            self.recorder = self._begin(most)
        self.drain()

    def _begin(self, most_bytes: int) -> Recorder:
        counters = self.run.core.cache.counters
        self.before = counters.hits, counters.misses
        recorder = Recorder(self.run.core, lambda: self.now, most_bytes)
        self.kept += recorder.take()
        return recorder

    def drain(self) -> None:
        assert self.recorder is not None
        while part := self.recorder.take():
            self.kept += part

    def trace(self) -> EventTrace:
        return EventTrace(np.frombuffer(self.kept, RECORD), About(duration_s=self.now))


def told(workload: Workload) -> Iterator[tuple[Any, ...]]:
    """What a workload tells, whatever its numbers are: subscribers and backend subscriptions by
    their first appearance, subscriptions by what they are to. Results for nobody are none."""
    names: dict[tuple[str, int], int] = {}
    held: dict[int, tuple[int, int]] = {}
    served: dict[int, int] = {}

    def name(kind: str, number: int) -> int:
        return names.setdefault((kind, number), len(names))

    columns = (workload.at, workload.kind, workload.subject, workload.value)
    for at, kind, subject, value in zip(*(c.tolist() for c in columns), strict=True):
        if kind == SUBSCRIBE:
            owner = int(workload.owners[subject])
            held[subject] = (owner, value)
            served[value] = served.get(value, 0) + 1
            yield at, kind, name("subscriber", owner), name("backend", value)
        elif kind == UNSUBSCRIBE:
            owner, backend = held.pop(subject)
            served[backend] -= 1
            yield at, kind, name("subscriber", owner), name("backend", backend)
        elif kind in (ONLINE, OFFLINE):
            yield at, kind, name("subscriber", subject)
        elif served.get(subject):
            yield at, kind, name("backend", subject), value


def test_a_record_has_the_same_bytes_on_both_sides() -> None:
    assert WIRE.size == RECORD.itemsize == 80
    packed = WIRE.pack(1.5, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
    assert np.frombuffer(packed, RECORD)[0].item() == (1.5, *range(2, 13))


@settings(max_examples=200, deadline=None)
@given(workloads(), st.sampled_from(["lru", "lsc", "ttl"]))
def test_a_recording_from_the_beginning_is_the_workload(workload: Workload, policy: str) -> None:
    played = Played(workload, policy)
    trace = played.trace()
    if not any(kind == SUBSCRIBE for kind in workload.kind):
        return
    trace.check()
    assert list(told(to_workload(trace))) == list(told(workload))
    counters = played.run.core.cache.counters
    live = trace.live()
    assert (live.hits, live.misses) == (counters.hits, counters.misses)
    assert (live.hit_bytes, live.miss_bytes) == (counters.hit_bytes, counters.miss_bytes)


@settings(max_examples=200, deadline=None)
@given(workloads(), st.integers(0, 40))
def test_a_recording_from_the_middle_replays_by_itself(workload: Workload, since: int) -> None:
    played = Played(workload, "lru", since)
    trace = played.trace()
    if not len(trace):
        return
    trace.check()
    counters, live = played.run.core.cache.counters, trace.live()
    hits, misses = played.before
    assert (live.hits, live.misses) == (counters.hits - hits, counters.misses - misses)
    if trace.counts()["subscribe"]:
        after = [e for e in list(told(workload)) if e[1] == PUBLISH][-trace.counts()["publish"] :]
        made = [e for e in told(to_workload(trace)) if e[1] == PUBLISH]
        assert [e[3] for e in made] == [e[3] for e in after][: len(made)]


@settings(max_examples=200, deadline=None)
@given(workloads(), st.integers(0, 40), st.integers(1, 8))
def test_a_full_buffer_loses_events_and_says_so_but_never_the_state(
    workload: Workload, since: int, room: int
) -> None:
    played = Played(workload, "lru", since, room * WIRE.size)
    trace = played.trace()
    if not len(trace):
        return
    trace.check()
    core = played.run.core.table
    counts = trace.counts()
    assert counts["subscribe"] - counts["unsubscribe"] == len(core.frontends)
    online = sum(bool(one.connections) for one in core.subscribers.values())
    assert counts["arrive"] - counts["leave"] == online


def test_sizes_of_what_nobody_looked_at_are_told_when_somebody_gets_it() -> None:
    events = [
        (0.0, SUBSCRIBE, 0, 0),
        (0.0, SUBSCRIBE, 1, 0),
        (1.0, PUBLISH, 0, 100),
        (2.0, PUBLISH, 0, 200),
        (3.0, ONLINE, 0, 0),
        (4.0, OFFLINE, 0, 0),
        (4.0, ONLINE, 1, 0),
        (4.5, OFFLINE, 1, 0),
        (5.0, PUBLISH, 0, 60),
    ]
    trace = Played(Workload.of(events, [0, 1], 1, 2), "none").trace()
    assert trace.counts()["size"] == 2  # each once, whoever else gets it
    objects = published(trace)
    assert objects.size_bytes.tolist() == [100, 200, 150]  # the last one is the average
    assert objects.guessed == 1
    workload = to_workload(trace)
    assert workload.value[workload.kind == PUBLISH].tolist() == [100, 200, 150]


def test_a_recorder_that_fails_ends_itself_and_nothing_else() -> None:
    run = LiveRun(parse_policy("lru"), 300, AT_ONCE)
    owners = np.zeros(1, np.int32)
    run.do(owners, 0.0, SUBSCRIBE, 0, 0)

    def broken() -> float:
        raise RuntimeError("no clock")

    recorder = Recorder(run.core, lambda: 0.0)
    recorder.take()
    recorder._clock = broken
    run.do(owners, 1.0, PUBLISH, 0, 100)
    assert not recorder.open
    assert run.core.table.watcher is NOBODY
    run.do(owners, 2.0, ONLINE, 0, 0)
    assert run.core.cache.counters.hits == 1
