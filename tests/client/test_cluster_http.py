"""A broker that knows several clusters: its calls reach the one that leads, and what may have been
taken is not sent again without a key."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest

from tocsin.client.cluster_http import ClusterHttp
from tocsin.client.http import NOT_SENT
from tocsin.errors import NotLeading, Standby, TocsinError, Unavailable
from tocsin.protocol.failure import error_body, read_error

Answer = Callable[[], httpx.Response]


def refusing(error: TocsinError) -> Answer:
    return lambda: httpx.Response(error.status, content=error_body(error))


def done() -> httpx.Response:
    return httpx.Response(200, content=b"{}")


def away() -> httpx.Response:
    raise httpx.ConnectError("refused")


def cut() -> httpx.Response:
    raise httpx.ReadError("cut")


standby = refusing(Standby("this cluster is a standby"))
lapsed = refusing(NotLeading("the lease on the store could not be renewed in time"))
busy = refusing(Unavailable("Spark is still starting"))


class Clusters:
    """Two of them, and which were asked."""

    def __init__(self, first: Answer, second: Answer) -> None:
        self._answers = {"first": first, "second": second}
        self.asked: list[str] = []
        self.http = ClusterHttp("http://first,http://second", "broker b", "", 5.0)
        self.http.client = httpx.AsyncClient(transport=httpx.MockTransport(self._answer))

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.host)
        return self._answers[request.url.host]()

    async def ask(self, *, repeatable: bool = True, streamed: bool = False) -> httpx.Response:
        return await self.http.ask(
            lambda at: self.http.client.post(f"{at}/v1"), repeatable=repeatable, streamed=streamed
        )


@pytest.mark.parametrize("first", [standby, lapsed, away, cut])
async def test_the_one_that_leads_is_found_and_kept(first: Answer) -> None:
    clusters = Clusters(first, done)
    for _ in range(2):
        assert (await clusters.ask()).is_success
    assert clusters.asked == ["first", "second", "second"]


@pytest.mark.parametrize("other", [away, standby])
async def test_while_none_leads_a_standby_answers(other: Answer) -> None:
    clusters = Clusters(other, standby)
    for _ in range(3):  # whichever is asked first
        answer = await clusters.ask(repeatable=False)
        assert isinstance(read_error(answer.content), Standby)


async def test_what_the_leader_cannot_do_now_is_its_answer() -> None:
    clusters = Clusters(busy, standby)
    answer = await clusters.ask()
    assert type(read_error(answer.content)) is Unavailable


async def test_what_may_have_been_taken_is_in_doubt_whatever_others_say() -> None:
    for other in (standby, away):
        clusters = Clusters(cut, other)
        with pytest.raises(Unavailable, match="http://first") as lost:
            await clusters.ask()
        assert not isinstance(lost.value.__cause__, NOT_SENT)


async def test_what_cannot_be_repeated_is_not_sent_again_once_it_may_have_been_taken() -> None:
    clusters = Clusters(cut, done)
    with pytest.raises(Unavailable):
        await clusters.ask(repeatable=False)
    assert clusters.asked == ["first"]


async def test_a_stream_is_sent_once() -> None:
    clusters = Clusters(standby, done)
    assert (await clusters.ask(streamed=True)).status_code == 503
    assert (await clusters.ask(streamed=True)).is_success
    assert clusters.asked == ["first", "second"]


async def test_nobody_there_at_all_is_told() -> None:
    with pytest.raises(Unavailable) as lost:
        await Clusters(away, away).ask()
    assert isinstance(lost.value.__cause__, NOT_SENT)
