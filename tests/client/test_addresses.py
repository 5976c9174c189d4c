"""Services that stand in for each other: calls find the one that serves, and wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

import httpx
import pytest

from tocsin import errors
from tocsin.client import addresses, http
from tocsin.client.addresses import Addresses
from tocsin.client.http import Http
from tocsin.protocol.failure import error_body
from tocsin.protocol.health import Done

BOTH = "http://one, http://two/"
STANDBY = errors.Standby("this cluster is a standby")
NOT_LEADING = errors.NotLeading("another cluster has taken over the store")

Answer = Callable[[], httpx.Response]


def refusing(error: errors.TocsinError) -> Answer:
    return lambda: httpx.Response(error.status, content=error_body(error))


def done() -> httpx.Response:
    return httpx.Response(200, content=b"{}")


def away() -> httpx.Response:
    raise httpx.ConnectError("refused")


def cut() -> httpx.Response:
    raise httpx.ReadError("cut")


class Services:
    """What each host answers, and who was asked."""

    def __init__(self, **answers: Answer) -> None:
        self.answers = answers
        self.asked: list[str] = []
        self.frozen: set[str] = set()

    async def answer(self, request: httpx.Request) -> httpx.Response:
        host = request.url.host
        if host in self.frozen:
            await asyncio.Event().wait()
        if request.url.path == "/healthz":
            serves = self.answers[host] is done
            return httpx.Response(200, json={"status": "", "instance": None, "leads": serves})
        self.asked.append(host)
        return self.answers[host]()

    def client(self, urls: str = BOTH) -> Http:
        made = Http(urls, "token")
        made._client = httpx.AsyncClient(transport=httpx.MockTransport(self.answer))
        return made


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "SILENT_S", 0.05)
    monkeypatch.setattr(http, "TAKEOVER_PAUSE_S", 0.01)
    monkeypatch.setattr(http, "TAKEOVER_S", 0.3)


async def call(client: Http, *, repeatable: bool = True, attempts: int = 6) -> None:
    await client.call("POST", "/v1", Done, repeatable=repeatable, attempts=attempts)


@pytest.mark.parametrize("first", [refusing(STANDBY), away])
async def test_what_one_certainly_did_not_do_is_asked_of_the_next_which_is_kept(
    first: Answer,
) -> None:
    services = Services(one=first, two=done)
    client = services.client()
    await call(client, repeatable=False)
    await call(client)
    assert services.asked == ["one", "two", "two"]


@pytest.mark.parametrize("first", [refusing(NOT_LEADING), cut])
async def test_what_may_have_been_done_is_asked_of_the_next_if_it_may_be_repeated(
    first: Answer,
) -> None:
    services = Services(one=first, two=done)
    with pytest.raises(errors.Unavailable):
        await call(services.client(), repeatable=False)
    services.asked.clear()
    await call(services.client())
    assert services.asked == ["one", "two"]


async def test_one_that_is_to_serve_is_waited_for() -> None:
    services = Services(one=away, two=refusing(STANDBY))
    calling = asyncio.create_task(call(services.client()))
    await asyncio.sleep(0.15)
    assert len(services.asked) > 6  # more than the attempts at a single service
    services.answers["two"] = done
    await calling


async def test_nobody_waits_for_ever() -> None:
    services = Services(one=away, two=refusing(STANDBY))
    async with asyncio.timeout(5):
        with pytest.raises(errors.Unavailable):
            await call(services.client())


async def test_whoever_asks_once_asks_everybody_once() -> None:
    services = Services(one=away, two=refusing(STANDBY))
    with pytest.raises(errors.Unavailable):
        await call(services.client(), attempts=1)
    assert sorted(services.asked) == ["one", "two"]


async def test_who_falls_silent_is_left_as_soon_as_another_serves() -> None:
    services = Services(one=done, two=refusing(STANDBY))
    client = services.client()
    await call(client)
    services.frozen.add("one")
    calling = asyncio.create_task(call(client))
    await asyncio.sleep(0.2)
    assert not calling.done()  # nobody else serves: it may be slow, no more
    services.answers["two"] = done
    async with asyncio.timeout(5):
        await calling
    assert services.asked[-1] == "two"


async def test_who_is_well_and_leads_nothing_may_take_its_time() -> None:
    """As a gateway does while nobody leads: another one would have no answer sooner."""
    services = Services(one=done, two=done)
    going_on = asyncio.Event()

    async def slow(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/healthz":
            return httpx.Response(200, json={"status": "ok", "instance": None})
        services.asked.append(request.url.host)
        await going_on.wait()
        return done()

    client = services.client()
    client._client = httpx.AsyncClient(transport=httpx.MockTransport(slow))
    calling = asyncio.create_task(call(client))
    await asyncio.sleep(0.3)
    assert not calling.done()
    going_on.set()
    await calling
    assert services.asked == ["one"]


def test_callers_begin_at_any_of_several_that_serve_alike() -> None:
    begun = {Addresses(BOTH, spread=Random(seed)).current for seed in range(20)}
    assert begun == {"http://one", "http://two"}
    assert Addresses(BOTH).current == "http://one"


async def test_a_single_address_is_asked_as_often_as_it_is_told() -> None:
    services = Services(one=away)
    with pytest.raises(errors.Unavailable):
        await call(services.client("http://one"), attempts=2)
    assert services.asked == ["one", "one"]


@pytest.mark.parametrize("given", ["", "http://one,", "one:7400,http://two", "ws://one"])
def test_what_is_no_address_is_refused(given: str) -> None:
    with pytest.raises(errors.InvalidInput) as refused:
        Addresses(given, "cluster_url")
    assert refused.value.field == "cluster_url"
