"""A recording played again on the broker's core, gets and acknowledgements when they really came.

People of the simulator take each result the moment it arrives. Real ones ask a little later, and a
small cache may have dropped it by then. This is slower than the compiled simulator and nearer to
life: under the recorded policy and size it gives the recorded hits.
"""

from __future__ import annotations

from collections import defaultdict

from msgspec import Struct

from tocsin.broker.machine.core import BrokerCore
from tocsin.broker.machine.effects import Answer, Effect, Fetch
from tocsin.broker.machine.events import Cursor, NewHead, RangeAnswer
from tocsin.lab.trace.events import EventTrace
from tocsin.lab.trace.objects import published
from tocsin.lab.workloads.network import Network
from tocsin.model import BackendSubscription, Result, Subscription
from tocsin.policies import CachePolicy
from tocsin.protocol.trace import ACK, ARRIVE, GET, LEAVE, PUBLISH, SUBSCRIBE, UNSUBSCRIBE

_EPOCH = "lab"
_FIELDS = ("at_s", "kind", "subscriber", "subscription", "backend", "after", "position")


class Replayed(Struct, frozen=True, kw_only=True):
    hits: int
    misses: int
    gets: int
    fetched_bytes: int  # pulled ahead to be cached, and missed
    waited_s: float  # for missed results, summed over gets


def replay_trace(
    trace: EventTrace, policy: CachePolicy, budget_bytes: int, network: Network
) -> Replayed:
    player = _Replay(trace, policy, budget_bytes, network)
    columns = (trace.records[name].tolist() for name in _FIELDS)
    for record in zip(*columns, strict=True):
        player.do(*record)
    counters = player.core.cache.counters
    return Replayed(
        hits=counters.hits,
        misses=counters.misses,
        gets=player.gets,
        fetched_bytes=player.pulled_bytes + counters.miss_bytes,
        waited_s=player.waited_s,
    )


class _Replay:
    """Positions are the trace's own: results from before the recording do not exist."""

    def __init__(
        self, trace: EventTrace, policy: CachePolicy, budget_bytes: int, network: Network
    ) -> None:
        self.core = BrokerCore(policy, budget_bytes, 0.0, fetch_limit=10**9)
        self.gets = self.pulled_bytes = 0
        self.waited_s = 0.0
        self._network = network
        objects = published(trace)
        self._sizes = {
            (backend, position): size_bytes
            for backend, position, size_bytes in zip(
                objects.backend.tolist(),
                objects.position.tolist(),
                objects.size_bytes.tolist(),
                strict=True,
            )
        }
        self._heads: dict[int, int] = defaultdict(int)
        self._subscriptions: dict[int, Subscription] = {}
        self._of: dict[int, dict[int, None]] = defaultdict(dict)  # subscriber -> its subscriptions

    def do(
        self,
        now: float,
        kind: int,
        subscriber: int,
        subscription: int,
        backend: int,
        after: int,
        position: int,
    ) -> None:
        core, number = self.core, subscription + 1
        if kind == PUBLISH:
            self._publish(backend, position, now)
        elif kind == GET:
            self._get(subscriber, number, backend, after, position, now)
        elif kind == ACK:
            core.ack(str(subscriber), number, _EPOCH, position, now)
        elif kind == SUBSCRIBE:
            self._subscribe(subscriber, number, backend, max(position, 0), now)
        elif kind == UNSUBSCRIBE:
            gone = self._subscriptions.pop(number)
            del self._of[int(gone.subscriber)][number]
            core.unsubscribed(number, now)
        elif kind == ARRIVE:
            held = [self._subscriptions[key] for key in self._of[subscriber]]
            core.connected(subscriber, str(subscriber), False, held, core.query_token, now)
        elif kind == LEAVE:
            core.disconnected(subscriber, now)

    def _subscribe(
        self, subscriber: int, number: int, backend: int, marker: int, now: float
    ) -> None:
        head = self._heads[backend] = max(self._heads[backend], marker)
        stored = BackendSubscription(backend, "", {}, _EPOCH, head)
        subscription = Subscription(number, str(subscriber), None, stored, marker)
        self._subscriptions[number] = subscription
        self._of[subscriber][number] = None
        self.core.subscribed(subscription, self.core.query_token, now)

    def _publish(self, backend: int, head: int, now: float) -> None:
        self._heads[backend] = head
        made_at = now - self._network.fetch_s(self._sizes[backend, head])
        for effect in self.core.notice([NewHead(backend, _EPOCH, head)], [], made_at):
            if isinstance(effect, Fetch):
                pulled = self._range(effect, made_at)
                self.pulled_bytes += sum(result.size_bytes for result in pulled.results)
                self.core.fetched(effect.fetch, pulled, now)

    def _get(
        self, subscriber: int, number: int, backend: int, after: int, upto: int, now: float
    ) -> None:
        while after < upto and (backend, after + 1) not in self._sizes:
            after += 1  # from before the recording
        if after == upto:
            return
        effects = self.core.get(
            None, str(subscriber), number, now, Cursor(after, _EPOCH), limit=upto - after
        )
        self.gets += 1
        if isinstance(fetch := effects[0], Fetch):
            missed = self._range(fetch, now)
            took_s = self._network.fetch_s(sum(result.size_bytes for result in missed.results))
            self.waited_s += took_s
            effects = self.core.fetched(fetch.fetch, missed, now + took_s)
        assert _answered(effects)

    def _range(self, fetch: Fetch, made_at: float) -> RangeAnswer:
        results = [
            Result(fetch.backend, position, made_at, bytes(self._sizes[fetch.backend, position]))
            for position in range(fetch.after + 1, fetch.upto + 1)
        ]
        return RangeAnswer(_EPOCH, 0, self._heads[fetch.backend], results)


def _answered(effects: list[Effect]) -> bool:
    return any(isinstance(effect, Answer) for effect in effects)
