"""What the poller reads for those who miss results: all of it, in few queries; and to whom it is
given. No Kafka."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cluster.sparkless import sparkless
from tocsin.cluster.deliveries import poller as module
from tocsin.cluster.deliveries.ownership import owner_check
from tocsin.cluster.deliveries.poller import NEAR, Poller, merged
from tocsin.cluster.permissions import Permissions
from tocsin.errors import Unauthenticated
from tocsin.model import Channel, Parameter, Subscription
from tocsin.protocol.consumer_log import MissingResults, decode_missing_results
from tocsin.service.keys.verifier import TokenVerifier
from tocsin.service.tokens import mint
from tocsin.storage.log.kafka import KafkaAddress
from tocsin.storage.store.matches import Match
from tocsin.storage.store.results import Range, ResultRange
from tocsin.storage.store.store import Store

SECRET = "a secret that only the tests know and nobody else"
ASKED = st.lists(
    st.tuples(st.integers(1, 3), st.integers(0, 300), st.integers(0, 30)).map(
        lambda one: (one[0], one[1], one[1] + one[2])
    )
)


@given(ASKED)
def test_what_is_asked_for_is_read_once_with_little_else(asked: list[tuple[int, int, int]]) -> None:
    wanted = {(one, at) for one, after, upto in asked for at in range(after + 1, upto + 1)}
    read = [
        (one.backend, position)
        for one in merged(asked)
        for position in range(one.after + 1, one.upto + 1)
    ]
    assert len(read) == len(set(read))
    assert wanted <= set(read)
    for backend, position in set(read) - wanted:
        beside = range(position - NEAR, position + NEAR + 1)
        assert any((backend, one) in wanted for one in beside)
    assert all(one.limit == one.upto - one.after > 0 for one in merged(asked))


def test_holes_near_each_other_cost_one_query() -> None:
    assert len(merged((1, 3 * one, 3 * one + 1) for one in range(400))) == 1
    assert len(merged([(1, 0, 1), (1, NEAR + 2, NEAR + 3), (2, 0, 1)])) == 3


class Topics:
    """A producer that keeps what it is given; `full`: so often its queue takes nothing."""

    def __init__(self) -> None:
        self.written: dict[str, list[dict[str, Any]]] = {}
        self.full = 0

    def produce(self, topic: str, value: bytes, key: bytes, partition: int) -> None:
        if self.full:
            self.full -= 1
            raise BufferError("the queue is full")
        self.written.setdefault(topic, []).append(json.loads(value))

    def poll(self, _: float) -> None:
        pass

    def flush(self, _: float) -> int:
        return 0


class Bench:
    """Two consumers with logs, and one whose channel has none; three results of each."""

    def __init__(self, store: Store) -> None:
        self.address = KafkaAddress.parse("kafka://nowhere:1/t")
        self.store = store
        kind = (Parameter("kind", "STRING"),)
        for name in ("logged", "plain"):
            store.catalog.create_channel(Channel(name, "continuous", kind, "", (), ()))
        self.ann = self._subscribe("ann", "logged", "flood")
        self.bob = self._subscribe("bob", "logged", "fire")
        self.eve = self._subscribe("eve", "plain", "fire")
        self.topics = Topics()
        self.poller = Poller(self.address, store, {"logged"}.__contains__)

    def _subscribe(self, who: str, channel: str, kind: str) -> Subscription:
        made, _ = self.store.subscriptions.subscribe(who, channel, {"kind": kind}, None)
        values = [b'{"n":%d,"of":"%b"}' % (number, who.encode()) for number in (1, 2, 3)]
        matches = [Match(channel, made.backend.id, n, value) for n, value in enumerate(values)]
        self.store.matches.store(matches)
        return made

    def check_owners(self) -> None:
        """As a cluster does."""
        identify = TokenVerifier(secret=SECRET).verify
        owners = owner_check(Permissions(self.store.grants), identify)
        self.poller = Poller(self.address, self.store, {"logged"}.__contains__, owners)

    def token(self, who: str, *scopes: str, ago_s: float = 0.0, **more: Any) -> str:
        return mint(SECRET, who, scopes, expires_s=600, now=time.time() - ago_s, **more)

    def ask(self, *requests: MissingResults) -> None:
        self.poller._answer_all(set(requests), self.topics)  # type: ignore[arg-type]

    def values(self, whose: Subscription) -> list[Any]:
        written = self.topics.written.get(self.address.consumer_topic(whose.id), [])
        return [record["value"]["n"] for record in written]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with Store.open(f"sqlite:///{tmp_path}/store.db") as store:
        yield Bench(store)


def test_what_is_missing_goes_into_its_owners_log_whoever_asks(bench: Bench) -> None:
    bench.ask(MissingResults(bench.ann.id, 0, 2))
    assert set(bench.topics.written) == {bench.address.consumer_topic(bench.ann.id)}
    assert bench.values(bench.ann) == [1, 2]


@pytest.mark.parametrize(
    ("who", "scopes", "answered"),
    [
        ("ann", ("subscribe",), True),
        ("bob", ("subscribe",), False),
        ("root", ("admin", "subscribe"), False),
        ("edge", ("broker",), False),
        ("ann", ("broker",), False),  # a broker that is called as she is
        ("ann", ("publish",), False),
    ],
)
def test_who_shows_a_token_gets_what_their_own_log_lacks(
    bench: Bench, who: str, scopes: tuple[str, ...], answered: bool
) -> None:
    bench.check_owners()
    bench.ask(MissingResults(bench.ann.id, 0, 2, bench.token(who, *scopes)))
    assert bench.values(bench.ann) == ([1, 2] if answered else [])
    assert set(bench.topics.written) <= {bench.address.consumer_topic(bench.ann.id)}


async def test_a_cluster_reads_tokens_for_its_poller(tmp_path: Path) -> None:
    token = mint(SECRET, "ann", ["subscribe"], expires_s=600, now=time.time())
    async with sparkless(tmp_path) as cluster:
        identity = await asyncio.to_thread(cluster._identify, token)
        assert identity.subject == "ann"
        with pytest.raises(Unauthenticated):
            await asyncio.to_thread(cluster._identify, "garbage")


def test_a_token_that_is_no_longer_good_gets_nothing(bench: Bench) -> None:
    bench.check_owners()
    over = bench.token("ann", "subscribe", ago_s=7200)
    requests = [MissingResults(bench.ann.id, 0, 2, token) for token in (over, "garbage")]
    bench.ask(*requests, MissingResults(bench.bob.id, 0, 1, bench.token("bob", "subscribe")))
    assert (bench.values(bench.ann), bench.values(bench.bob)) == ([], [1])


def test_where_grants_decide_nobody_is_believed(bench: Bench) -> None:
    bench.check_owners()
    bench.ask(MissingResults(bench.ann.id, 0, 1))
    assert bench.values(bench.ann) == [1]  # nothing is granted: who can write to the topic may ask
    bench.store.grants.create_role("readers")
    bench.store.grants.grant("readers", ("subscribe",), "logged")
    bench.ask(MissingResults(bench.ann.id, 1, 2))
    bench.ask(MissingResults(bench.ann.id, 1, 2, bench.token("ann", "subscribe")))
    assert bench.values(bench.ann) == [1]
    granted = bench.token("ann", "subscribe", roles=["readers"])
    bench.ask(MissingResults(bench.ann.id, 1, 2, granted))
    assert bench.values(bench.ann) == [1, 2]


def test_whose_channel_has_no_logs_or_who_is_gone_gets_nothing(bench: Bench) -> None:
    bench.store.subscriptions.unsubscribe(bench.ann.id)
    bench.ask(*(MissingResults(of.id, 0, 3) for of in (bench.ann, bench.eve, bench.bob)))
    assert set(bench.topics.written) == {bench.address.consumer_topic(bench.bob.id)}


def test_a_request_that_cannot_be_answered_keeps_no_other_from_its_answer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_many = bench.store.results.read_many

    def breaking(ranges: Sequence[Range], most_bytes: float) -> list[ResultRange | None]:
        if any(wanted.backend == bench.ann.backend.id for wanted in ranges):
            raise ValueError("poison")
        return read_many(ranges, most_bytes)

    monkeypatch.setattr(bench.store.results, "read_many", breaking)
    bench.ask(MissingResults(bench.ann.id, 0, 3), MissingResults(bench.bob.id, 0, 3))
    assert bench.values(bench.bob) == [1, 2, 3]
    assert bench.values(bench.ann) == []


def test_many_requests_get_so_many_bytes_at_once_and_ask_again_for_the_rest(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 1)
    for _ in range(3):
        have = [(of.id, len(bench.values(of))) for of in (bench.ann, bench.bob)]
        bench.ask(*(MissingResults(number, after, 3) for number, after in have))
    assert bench.values(bench.ann) == bench.values(bench.bob) == [1, 2, 3]


def test_a_full_queue_to_kafka_is_waited_for(bench: Bench) -> None:
    bench.topics.full = 1
    bench.ask(MissingResults(bench.ann.id, 0, 3))
    assert bench.values(bench.ann) == [1, 2, 3]


@pytest.mark.parametrize(
    "text",
    [
        b"no JSON",
        b'{"subscription":1,"after":-1,"upto":3}',
        b'{"subscription":1,"after":0,"upto":%d}' % (1 << 63),
        b'{"subscription":%d,"after":0,"upto":3}' % (1 << 63),
        b'{"subscription":1,"after":0,"upto":3,"x":%b' % (b"[" * 100_000),
    ],
)
def test_what_no_consumer_wrote_is_no_request(text: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_missing_results(text)
