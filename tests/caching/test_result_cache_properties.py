"""The result cache does what BAD, Algorithm 1 does with explicit sets of subscribers, for every
policy."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from caching.naive import NaiveCaches, Subscriber
from tocsin.caching import ResultCache, Standing
from tocsin.model import Result
from tocsin.policies import parse_policy, policy_names

POLICIES = [
    *policy_names(),
    "evict=lsc expire=ttl",
    "evict=return-rate expire=ttl",
    "admit=threshold evict=lsc",
    "admit=mean(3) evict=lru",
    "admit=buffer evict=gdsf",
]
BACKENDS = 4
KINDS = ["put"] * 24 + ["get"] * 9 + ["ack"] * 9 + ["presence"] * 9 + ["join"] * 6
KINDS += ["fetch"] * 3 + ["leave"] * 3 + ["wait", "skip", "epoch", "closing"]
ELAPSED_S = [0.0, 0.0, 0.0, 0.5, 1.0, 1.0, 7.0, 150.0]  # before a step
Step = tuple[str, int, int, int, float]


def decode(data: bytes) -> list[Step]:
    """What happens, at which backend, to whom (of those there), how much, after which time."""
    steps = zip(data[::4], data[1::4], data[2::4], data[3::4], strict=False)
    return [
        (KINDS[kind % len(KINDS)], who % BACKENDS, who, 1 + amount % 16, ELAPSED_S[elapsed % 8])
        for kind, who, amount, elapsed in steps
    ]


STEPS = st.binary(min_size=200, max_size=400).map(decode)  # far quicker than lists of tuples


@pytest.mark.parametrize("text", POLICIES)
@settings(max_examples=50, deadline=None)
@given(budget_bytes=st.integers(0, 100), steps=STEPS)
def test_result_cache_equals_algorithm_1(text: str, budget_bytes: int, steps: list[Step]) -> None:
    _live(Both(text, budget_bytes), steps)


@pytest.mark.parametrize("text", POLICIES)
@settings(max_examples=40, deadline=None)
@given(budget_bytes=st.integers(0, 100), steps=STEPS)
def test_so_it_does_where_positions_have_holes(
    text: str, budget_bytes: int, steps: list[Step]
) -> None:
    _live(Both(text, budget_bytes, holes=True), steps)


def _live(both: Both, steps: list[Step]) -> None:
    for backend in range(BACKENDS):
        both.open(backend)
        for _ in range(backend):
            both.join(backend, 0, connected=backend % 2 == 0)
    for kind, backend, who, amount, elapsed_s in steps:
        both.now += elapsed_s
        both.do(kind, backend, who, amount)
        both.compare()


class Both:
    """The real cache and the naive one, told the same."""

    def __init__(self, text: str, budget_bytes: int, *, holes: bool = False) -> None:
        policy = parse_policy(text)
        self.holes = holes  # between positions, where records are that a filter does not match
        self.real = ResultCache(policy, budget_bytes)
        self.naive = NaiveCaches(policy, budget_bytes)
        self.now = 0.0
        self._numbers = 0
        self._standings: dict[int, Standing] = {}

    def do(self, kind: str, backend: int, who: int, amount: int) -> None:
        real, naive, now = self.real, self.naive, self.now
        model = naive.caches[backend]
        if kind == "put":
            position = model.newest + (1 + who % 4 if self.holes else 1)
            result = Result(backend, position, now - amount / 8, b"x" * amount)
            real.put(result, now)
            naive.put(result, now)
        elif kind == "get":
            after = max(0, model.newest - amount % 6)
            upto = max(after, model.newest - who % 3)
            limit = who % 5 or None
            got = real.get(backend, after, upto, now, limit)
            assert got == naive.get(backend, after, upto, now, limit)
        elif kind == "join":
            # a newcomer stands at the newest; one that moved here behind, or ahead of us
            self.join(backend, max(0, model.newest + (0, -2, 1, 3)[amount % 4]), who % 2 == 0)
        elif kind == "fetch":
            real.fetch_took(backend, amount / 8)
            naive.fetch_took(backend, amount / 8)
        elif kind == "skip":
            real.skip(backend, model.newest + amount % 3, now)
            naive.skip(backend, model.newest + amount % 3)
        elif kind == "epoch":
            beginning = amount if self.holes else 0  # the log goes on
            for number in model.subscribers:  # as the broker says of all of them
                self._standings[number].marker = 0
            real.reset(backend, beginning, now)
            naive.reset(backend, beginning)
        elif kind == "closing":
            self._close(backend)
            self.open(backend, amount)
        elif kind == "wait" or not model.subscribers:
            real.expire(now)
            naive.expire(now)
        else:
            self._do_one(
                kind, backend, sorted(model.subscribers)[who % len(model.subscribers)], amount
            )

    def _do_one(self, kind: str, backend: int, number: int, amount: int) -> None:
        """What one subscriber does."""
        real, naive, now = self.real, self.naive, self.now
        model = naive.caches[backend]
        known = model.subscribers[number]
        one = self._standings[number]
        assert (one.marker, one.away_since) == (known.marker, known.away_since)
        if kind == "ack":
            position = max(one.marker, min(model.newest, one.marker + amount % 5))
            real.advance(backend, one, position, now)
            naive.ack(backend, number, position)
        elif kind == "leave":
            real.detach(backend, one, now)
            naive.detach(backend, number, now)
        elif one.away_since is None:
            real.went(backend, one, now)
            naive.go(backend, number, now)
        else:
            real.came(backend, one, now)
            naive.come(backend, number, now)
        moved = model.subscribers.get(number)
        assert moved is None or (one.marker, one.away_since) == (moved.marker, moved.away_since)

    def open(self, backend: int, newest: int = 0) -> None:
        self.real.open(backend, newest)
        self.naive.open(backend, newest)

    def join(self, backend: int, marker: int, connected: bool) -> None:
        away_since = None if connected else self.now
        self._numbers += 1
        one = self._standings[self._numbers] = Standing(marker, away_since)
        self.real.attach(backend, one, self.now)
        self.naive.attach(backend, self._numbers, Subscriber(marker, away_since))

    def _close(self, backend: int) -> None:
        """As the broker does: when the last one left."""
        for number in sorted(self.naive.caches[backend].subscribers):
            self._do_one("leave", backend, number, 0)
        self.real.close(backend, self.now)
        self.naive.close(backend)

    def compare(self) -> None:
        real, naive = self.real, self.naive
        counters = real.counters
        for backend, model in naive.caches.items():
            assert real.contents(backend) == [o.result for o in model.objects]
            assert real.tail(backend) == model.lost + 1
            if model.objects:
                candidate = replace(real.candidate(backend), now=0.0)  # when it was last scored
                assert candidate == naive.candidate(backend)
        for name in ("inserted", "bypassed", "evicted", "expired", "consumed", "dropped"):
            assert getattr(counters, name) == getattr(naive, name), name
        assert (counters.hits, counters.estimates) == (naive.hits, naive.estimates)
        assert real.size_bytes == naive.size_bytes
        if real.policy.evict is not None:
            assert counters.max_bytes <= real.budget_bytes
        cached = sum(len(model.objects) for model in naive.caches.values())
        left = counters.evicted + counters.expired + counters.consumed + counters.dropped
        assert counters.inserted == left + cached
        left_bytes = counters.evicted_bytes + counters.expired_bytes + counters.consumed_bytes
        assert counters.inserted_bytes == left_bytes + counters.dropped_bytes + real.size_bytes
