"""Who may read a page: the cluster is asked once for all, or once for each who reads privately."""

from __future__ import annotations

import asyncio

import pytest

from tocsin.broker.server.pages.readers import OPEN_S, Readers
from tocsin.errors import Forbidden, NotFound, TocsinError, Unavailable
from tocsin.protocol.queries import LedByQuery
from tocsin.service.tokens import Identity

ANN = Identity("ann", frozenset({"subscribe"}), 1e12)
ROOT = Identity("root", frozenset({"admin"}), 1e12)
LED_BY = LedByQuery(subscription=1, position=2)


class Cluster:
    def __init__(self, answer: bool | TocsinError) -> None:
        self.answer = answer
        self.asked = 0
        self.now = 0.0
        self.readers = Readers(self._ask, lambda: self.now)

    async def _ask(self, page: str, led_by: LedByQuery, token: str) -> bool:
        self.asked += 1
        await asyncio.sleep(0)
        if isinstance(self.answer, TocsinError):
            raise self.answer
        return self.answer

    async def read(self, identity: Identity = ANN, *, mine: bool = True, page: str = "p") -> None:
        await self.readers.check(identity, "token", page, LED_BY, mine)


async def test_while_all_may_read_one_question_is_for_all() -> None:
    cluster = Cluster(False)
    await asyncio.gather(*(cluster.read(page=str(n)) for n in range(50)))
    assert cluster.asked == 1
    cluster.now = OPEN_S
    await cluster.read()
    assert cluster.asked == 2


async def test_a_private_page_is_asked_for_once_for_each_reader_and_subscription() -> None:
    cluster = Cluster(True)
    for _ in range(3):
        await cluster.read()
    assert cluster.asked == 1
    await cluster.read(page="q")
    await cluster.read(mine=False)  # the subscription that led there has ended
    assert cluster.asked == 3
    await cluster.read(ROOT)
    assert cluster.asked == 3


@pytest.mark.parametrize("error", [Forbidden("no"), NotFound("no", field="position")])
async def test_a_refusal_is_told_and_not_remembered(error: TocsinError) -> None:
    cluster = Cluster(error)
    for asked in (1, 2):
        with pytest.raises(type(error)):
            await cluster.read()
        assert cluster.asked == asked
    cluster.answer = True
    await cluster.read()


async def test_a_cluster_that_is_away_changes_nothing() -> None:
    cluster = Cluster(Unavailable("away"))
    with pytest.raises(Unavailable):
        await cluster.read()
    cluster.answer = False
    await cluster.read()
    cluster.answer, cluster.now = Unavailable("away"), 1000.0
    await cluster.read()  # all might, and nobody said otherwise
    cluster.answer = True
    await cluster.read(page="q")
    cluster.answer = Unavailable("away")
    await cluster.read(page="q")
    with pytest.raises(Unavailable):
        await cluster.read(page="r")


async def test_an_older_cluster_lets_all_read() -> None:
    cluster = Cluster(NotFound("no route GET /v1/attachments/p/access"))
    await cluster.read()
    await cluster.read(page="q")
    assert cluster.asked == 1
