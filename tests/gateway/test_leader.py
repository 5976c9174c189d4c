"""What a gateway makes of the cluster's answers: whether anything of a call may have been taken."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import msgspec
import pytest

from tocsin.errors import (
    Forbidden,
    NotFound,
    Standby,
    TocsinError,
    TooLarge,
    Unauthenticated,
    Unavailable,
)
from tocsin.gateway.catalog import Catalog
from tocsin.gateway.leader import Leader
from tocsin.gateway.relay import Lost, NotTaken
from tocsin.model import Column, Dataset
from tocsin.protocol.appends import Append, AppendOutcome, AppendOutcomes, Appends, EncodedRecord
from tocsin.protocol.failure import error_body

APPENDS = Appends(["token"], [Append("reports", 1.0, 0, [EncodedRecord(b"{}")])])
TAKEN = AppendOutcomes([AppendOutcome(end=7)])
REPORTS = Dataset("reports", (Column("n", "BIGINT"),), created_at=1.0)

Answer = Callable[[httpx.Request], httpx.Response]


class Given:
    def token(self, audience: str = "") -> str:
        return "the gateway's own"


def leader(answer: Answer, urls: str = "http://one") -> Leader:
    made = Leader(urls, Given(), "gateway_1")
    for http in (made._http, made._asking):
        http.client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    return made


def refusing(error: TocsinError) -> Answer:
    return lambda _: httpx.Response(error.status, content=error_body(error))


def taken(_: httpx.Request) -> httpx.Response:
    return httpx.Response(200, content=msgspec.msgpack.encode(TAKEN))


def raising(error: type[httpx.TransportError]) -> Answer:
    def fail(_: httpx.Request) -> httpx.Response:
        raise error("it broke")

    return fail


async def test_an_answer_is_read_and_a_call_shows_who_calls() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.headers["authorization"] == "Bearer the gateway's own"
        assert msgspec.msgpack.decode(request.content, type=Appends) == APPENDS
        return taken(request)

    assert await leader(answer).append(APPENDS) == TAKEN


@pytest.mark.parametrize(
    "answer",
    [
        raising(httpx.ConnectError),
        raising(httpx.ConnectTimeout),
        refusing(Standby("another leads")),
        refusing(Unavailable("no room for another body")),
    ],
)
async def test_what_nobody_who_leads_had_is_not_taken(answer: Answer) -> None:
    with pytest.raises(NotTaken):
        await leader(answer).append(APPENDS)


@pytest.mark.parametrize(
    "answer",
    [
        raising(httpx.ReadError),
        raising(httpx.ReadTimeout),
        raising(httpx.WriteError),
        lambda _: httpx.Response(502, content=b"<html>"),
        lambda _: httpx.Response(503, content=b"<html>"),
        lambda _: httpx.Response(200, content=b"<html>"),
        refusing(TocsinError("an internal error")),
    ],
)
async def test_what_may_have_been_taken_is_lost(answer: Answer) -> None:
    with pytest.raises(Lost):
        await leader(answer).append(APPENDS)


@pytest.mark.parametrize(
    "error",
    [Unauthenticated("an unknown key"), Forbidden("it lacks the scope"), TooLarge("too large")],
)
async def test_a_gateway_that_is_refused_remembers_why_until_it_is_not(error: TocsinError) -> None:
    refused = leader(refusing(error))
    with pytest.raises(type(error)):
        await refused.append(APPENDS)
    assert refused.refused == error.message
    refused._http.client = httpx.AsyncClient(transport=httpx.MockTransport(taken))
    await refused.append(APPENDS)
    assert refused.refused is None


async def test_the_next_cluster_is_asked_at_once_when_the_first_certainly_did_nothing() -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        if request.url.host == "one":
            return refusing(Standby("two leads"))(request)
        return taken(request)

    made = leader(answer, "http://one,http://two")
    for _ in range(2):
        assert await made.append(APPENDS) == TAKEN
    assert asked == ["one", "two", "two"]


async def test_a_call_that_broke_is_not_made_again_by_itself() -> None:
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.host)
        raise httpx.ReadError("it broke")

    with pytest.raises(Lost):
        await leader(answer, "http://one,http://two").append(APPENDS)
    assert asked == ["one"]


async def test_a_dataset_is_asked_for_once_however_many_want_it_and_again_when_forgotten() -> None:
    asked: list[str] = []

    async def ask(name: str) -> Dataset:
        asked.append(name)
        if name == "nothing":
            raise NotFound("there is no dataset nothing", field="name")
        return REPORTS

    catalog = Catalog(ask)
    for _ in range(2):
        assert await catalog.dataset("reports") is REPORTS
    catalog.forget(REPORTS)
    await catalog.dataset("reports")
    for _ in range(2):
        with pytest.raises(NotFound):
            await catalog.dataset("nothing")
    assert asked == ["reports", "reports", "nothing", "nothing"]
