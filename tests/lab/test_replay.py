"""A recording played on the core again: the recorded hits under the recorded policy and size."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.trace.made import event, get, publish, subscribe, trace_of
from lab.workloads import workloads
from tocsin.broker.server.recorder import Recorder
from tocsin.lab.simulators.result_cache.live import _LiveRun as LiveRun
from tocsin.lab.simulators.result_cache.replay import replay_trace
from tocsin.lab.simulators.result_cache.simulator import simulate
from tocsin.lab.trace.events import RECORD, EventTrace
from tocsin.lab.trace.workload import to_workload
from tocsin.lab.workloads.network import Network
from tocsin.lab.workloads.workload import Workload
from tocsin.policies import parse_policy
from tocsin.protocol.trace import About

NETWORK = Network(cluster_rtt_s=0.5, cluster_bytes_per_s=1000.0)
SIZE_BYTES = 300


class Hesitant(LiveRun):
    """People who ask only after some more events."""

    def __init__(self, workload: Workload, policy: str, lag: int) -> None:
        super().__init__(parse_policy(policy), SIZE_BYTES, NETWORK)
        self.now = 0.0
        self._asking: list[tuple[str, int]] = []
        recorder = Recorder(self.core, lambda: self.now)
        self.kept = recorder.take()
        columns = (workload.at, workload.kind, workload.subject, workload.value)
        for number, happened in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
            self.now = happened[0]
            if number % lag == 0:
                self._ask()
            self.do(workload.owners, *happened)
        self._ask()
        self.kept += recorder.take()

    def _get(self, subscriber: str, subscription: int, now: float) -> None:
        self._asking.append((subscriber, subscription))

    def _ask(self) -> None:
        asking, self._asking = dict.fromkeys(self._asking), []
        for subscriber, subscription in asking:
            frontend = self.core.table.frontends.get(subscription)
            if frontend is not None and frontend.marker < frontend.backend.fetched:
                super()._get(subscriber, subscription, self.now)

    def trace(self) -> EventTrace:
        return EventTrace(np.frombuffer(self.kept, RECORD), About(duration_s=self.now))


@settings(max_examples=100, deadline=None)
@given(
    workloads(),
    st.sampled_from(["lru", "lsc", "lsd", "ttl", "return-rate"]),
    st.integers(1, 5),
)
def test_under_the_recorded_policy_it_hits_what_was_hit(
    workload: Workload, policy: str, lag: int
) -> None:
    hesitant = Hesitant(workload, policy, lag)
    trace = hesitant.trace()
    live = trace.live()
    again = replay_trace(trace, parse_policy(policy), SIZE_BYTES, NETWORK)
    assert (again.hits, again.misses, again.gets) == (live.hits, live.misses, live.gets)


# Both are there when 100 bytes arrive, and 100 more a moment later; 100 bytes are room for one.
# They ask when both have come: the first result is gone, whoever asks.
LATE = (
    subscribe(0, 0, 0, 0),
    subscribe(0, 1, 1, 0),
    event(0, "arrive", subscriber=0),
    event(0, "arrive", subscriber=1),
    publish(1, 0, 1, 100),
    publish(1, 0, 2, 100),
    get(2, 0, 0, 0, 2, hits=1, hit_bytes=100, misses=1, miss_bytes=100),
    event(2, "ack", subscriber=0, subscription=0, backend=0, position=2),
    get(3, 1, 1, 0, 2, hits=1, hit_bytes=100, misses=1, miss_bytes=100),
)


def test_who_asks_late_misses_what_the_simulator_would_hit() -> None:
    trace = trace_of(*LATE)
    at_once = simulate(to_workload(trace), parse_policy("lru"), 100, NETWORK)
    assert (at_once.hits, at_once.misses) == (4, 0)
    late = replay_trace(trace, parse_policy("lru"), 100, NETWORK)
    assert (late.hits, late.misses, late.gets) == (2, 2, 2)
    assert late.fetched_bytes == 200 + 2 * 100
    assert late.waited_s == pytest.approx(2 * (0.5 + 100 / 1000))
    roomy = replay_trace(trace, parse_policy("lru"), 200, NETWORK)
    assert (roomy.hits, roomy.misses, roomy.fetched_bytes, roomy.waited_s) == (4, 0, 200, 0.0)


def test_results_from_before_the_recording_are_left_out() -> None:
    trace = trace_of(
        event(0, "subscribe", subscriber=0, subscription=0, backend=0, position=-2),
        publish(1, 0, 1, 100),
        get(2, 0, 0, 0, 1, hits=1, hit_bytes=100, misses=2, miss_bytes=50),
        event(3, "unsubscribe", subscription=0),
        event(4, "subscribe", subscriber=0, subscription=1, backend=0, position=5),
        publish(5, 0, 6, 100),
        get(6, 0, 1, 0, 5, misses=2, miss_bytes=20),
        get(6, 0, 1, 0, 6, hits=1, hit_bytes=100),
    )
    again = replay_trace(trace, parse_policy("lru"), 1000, NETWORK)
    assert (again.hits, again.misses, again.gets) == (2, 0, 2)


def test_who_asks_for_one_at_a_time_gets_each_once() -> None:
    one_at_a_time = [get(2, 0, 0, 0, upto, hits=1, hit_bytes=100) for upto in (1, 2)]
    again = replay_trace(trace_of(*LATE[:6], *one_at_a_time), parse_policy("lru"), 200, NETWORK)
    assert (again.hits, again.misses, again.gets) == (2, 0, 2)
