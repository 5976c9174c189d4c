"""A match that the store cannot take is set aside, and told: what is behind it comes. No Kafka."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tocsin.cluster.matches import MatchConsumer
from tocsin.errors import Unavailable
from tocsin.model import Channel
from tocsin.storage.log.kafka import KafkaAddress
from tocsin.storage.store.match_progress import Place
from tocsin.storage.store.matches import Match
from tocsin.storage.store.runs import Committed
from tocsin.storage.store.store import Store

TOPIC = "matches"
REFUSED = ValueError("no")


class Message:
    def __init__(self, offset: int, value: bytes) -> None:
        self._offset, self._value = offset, value

    def offset(self) -> int:
        return self._offset

    def value(self) -> bytes:
        return self._value


class Bench:
    """A real store, behind which a test may put what raises."""

    def __init__(self, store: Store) -> None:
        self.store = store
        store.catalog.create_channel(Channel("c", "continuous", (), "", (), ()))
        self.backend = store.subscriptions.subscribe("ann", "c", {}, None)[0].backend.id
        self.committed: list[Committed] = []
        self.consumer = MatchConsumer(
            KafkaAddress.parse("kafka://nowhere:1/t"),
            store.matches,
            self.committed.append,
            result_limit_bytes=1000,
        )

    def take(self, *values: object) -> None:
        self.consumer._place = self.store.matches.begin(TOPIC)[0]
        begin = self.consumer._place.up_to
        messages: Any = [
            Message(begin + number, self.match(begin + number, value))
            for number, value in enumerate(values)
        ]
        self.consumer._commit(messages)

    def match(self, record: int, value: object) -> bytes:
        return json.dumps({"c": "c", "b": self.backend, "p": record, "v": {"x": value}}).encode()

    def results(self) -> list[Any]:
        read = self.store.results.read(self.backend, 0, 10**9, 100)
        return [json.loads(result.payload) for result in read.results]

    def break_store(
        self, monkeypatch: pytest.MonkeyPatch, poison: bytes, error: Exception = REFUSED
    ) -> None:
        """It takes nothing with these bytes in it; b"" are in everything that is a match."""
        commit = self.store.matches.commit

        def breaking(
            place: Place, matches: Sequence[Match], upto: int
        ) -> tuple[list[Committed], Place]:
            if any(poison in match.payload for match in matches):
                raise error
            return commit(place, matches, upto)

        monkeypatch.setattr(self.store.matches, "commit", breaking)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with Store.open(f"sqlite:///{tmp_path}/store.db") as store:
        yield Bench(store)


def test_a_match_that_the_store_cannot_take_becomes_a_gap_in_its_place(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.break_store(monkeypatch, b"poison")
    bench.take("a", "poison", "b", "c", "poison")
    first, gap, second, third, last = bench.results()
    assert [first, second, third] == [{"x": "a"}, {"x": "b"}, {"x": "c"}]
    assert gap["_gap"] == {"dataset": "", "first": 1, "end": 2, "records": 1, "cause": "no"}
    assert last["_gap"]["first"] == 4
    assert bench.store.matches.read_up_to(TOPIC) == 5


def test_a_match_that_cannot_even_be_a_gap_is_passed_over(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.break_store(monkeypatch, b"")
    bench.take("a", "b")
    assert bench.results() == []
    assert bench.store.matches.read_up_to(TOPIC) == 2


def test_nothing_is_set_aside_while_the_store_is_away(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as away:
        bench.break_store(away, b"", Unavailable("away"))
        with pytest.raises(Unavailable):
            bench.take("a", "b")
    assert bench.store.matches.read_up_to(TOPIC) == 0
    bench.take("a", "b")
    assert bench.results() == [{"x": "a"}, {"x": "b"}]
