"""What a broker may rely on from any cluster, over HTTP alone.

`CHECKS` are coroutines that take a driver; run each over every cluster there is. A driver says
where the cluster is and how to make results for the channel `contract(key STRING)`, whose
results for a key must be made in the order asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

import httpx
import msgspec
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tocsin.client.transport import tls
from tocsin.service.serving import listen, port_of, serving
from tocsin.service.tokens import mint, verify_notice

CHANNEL = "contract"
PATIENCE_S = 60.0


class Driver(Protocol):
    url: str
    secret: str

    async def produce(self, key: str, count: int) -> None:
        """Make `count` more results for contract(key); return when they are stored."""

    async def publish(self, records: list[dict[str, Any]]) -> None:
        """Publish to `contract_routed (key STRING, n BIGINT) ROUTED`; return when durable."""


class Probe:
    """A broker as the cluster sees it: a name, a place for notices, and calls."""

    def __init__(self, driver: Driver, name: str, notices_url: str) -> None:
        self.name = name
        self.notices: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self.notices_url = notices_url
        self.secret = driver.secret
        token = mint(driver.secret, name, ["broker"], expires_s=600, now=time.time())
        self._http = httpx.AsyncClient(
            base_url=driver.url,
            headers={"authorization": f"Bearer {token}"},
            timeout=30,
            verify=tls(),
        )

    async def call(
        self, method: str, path: str, body: Any = None, status: int = 200, *, on_behalf: str = ""
    ) -> Any:
        """`on_behalf`: the token of the subscriber for whom it is asked."""
        headers = {"tocsin-subscriber-token": on_behalf} if on_behalf else {}
        response = await self._http.request(method, path, json=body, headers=headers)
        assert response.status_code == status, (method, path, response.text)
        return msgspec.json.decode(response.content)

    def token_of(self, subscriber: str, *scopes: str) -> str:
        """What a subscriber shows."""
        now = time.time()
        return mint(self.secret, subscriber, scopes or ("subscribe",), expires_s=600, now=now)

    async def register(self) -> Any:
        return await self.call("PUT", f"/v1/brokers/{self.name}", {"url": self.notices_url})

    async def subscribe(
        self, subscriber: str, key: str, *, beginning: Any = None, status: int = 200
    ) -> Any:
        body = {
            "subscriber": subscriber,
            "broker": self.name,
            "channel": CHANNEL,
            "arguments": {"key": key},
            **({} if beginning is None else {"from": beginning}),
        }
        return await self.call("POST", "/v1/subscriptions", body, status)

    async def news(self, since: int) -> Any:
        return await self.call("GET", f"/v1/brokers/{self.name}/news?since={since}")

    async def load(self, query: str = "") -> Any:
        return await self.call("GET", f"/v1/brokers/{self.name}/subscriptions{query}")

    async def fetch(self, backend: int, after: int, upto: int, limit: int = 1000) -> Any:
        wanted = {"backend": backend, "after": after, "upto": upto, "limit": limit}
        (answer,) = (await self.call("POST", "/v1/results", {"ranges": [wanted]}))["ranges"]
        return answer

    async def notice(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                told = await self.notices.get()
                if wanted(told):
                    return told

    @contextlib.asynccontextmanager
    async def lines(self, path: str) -> AsyncIterator[AsyncIterator[Any]]:
        """The lines of an answer without an end."""

        async def decoded() -> AsyncIterator[Any]:
            async for line in response.aiter_lines():
                yield msgspec.json.decode(line)

        async with self._http.stream("GET", path) as response:
            assert response.status_code == 200
            yield decoded()

    async def close(self) -> None:
        await self._http.aclose()


@contextlib.asynccontextmanager
async def probe(driver: Driver) -> AsyncIterator[Probe]:
    """A registered probe that hears notices."""
    listener = listen("127.0.0.1", 0)

    async def hear(request: Request) -> Response:
        body = await request.body()
        verify_notice(driver.secret, body, request.headers.get("tocsin-signature"), time.time())
        made.notices.put_nowait(msgspec.json.decode(body))
        return Response(b"{}", media_type="application/json")

    app = Starlette(routes=[Route("/v1/notices", hear, methods=["POST"])])
    name = f"probe_{uuid.uuid4().hex[:8]}"
    made = Probe(driver, name, f"http://127.0.0.1:{port_of(listener)}")
    async with serving(app, listener):
        await made.register()
        yield made
        await made.close()


def fresh(word: str) -> str:
    return f"{word}_{uuid.uuid4().hex[:8]}"


async def registering_twice_is_fine_and_names_the_store(driver: Driver) -> None:
    async with probe(driver) as broker:
        first, second = await broker.register(), await broker.register()
        assert first == second
        assert first["name"] == broker.name
        assert first["store_id"]


async def subscribing_is_idempotent_and_shares_the_backend_subscription(driver: Driver) -> None:
    alice, bob, key = fresh("alice"), fresh("bob"), fresh("key")
    async with probe(driver) as broker:
        one = await broker.subscribe(alice, key)
        assert await broker.subscribe(alice, key) == one
        other = await broker.subscribe(bob, key)
        assert other["subscription"] != one["subscription"]
        assert (other["backend"], other["epoch"]) == (one["backend"], one["epoch"])
        assert one["arguments"] == {"key": key}
        assert one["broker"] == broker.name
        listed = (await broker.load())["subscriptions"]
        assert {s["subscription"] for s in listed} == {one["subscription"], other["subscription"]}


async def subscriptions_are_loaded_by_pages(driver: Driver) -> None:
    async with probe(driver) as broker:
        made = [await broker.subscribe(fresh("alice"), fresh("key")) for _ in range(5)]
        whole = await broker.load()
        assert whole.get("upto") is None  # as brokers load that know no pages
        loaded: list[Any] = []
        page = await broker.load("?limit=2")
        since = page["sequence"]
        while page.get("upto") is not None:
            assert len(page["subscriptions"]) == 2
            loaded += page["subscriptions"]
            if len(loaded) == 2:  # behind the page that it was on, and on the page to come
                await broker.call("DELETE", _path_of(made[0]))
                await broker.call("DELETE", _path_of(made[2]))
                late = await broker.subscribe(fresh("bob"), fresh("key"))
            page = await broker.load(f"?limit=2&after={page['upto']}")
        loaded += page["subscriptions"]
        numbers = [info["subscription"] for info in loaded]
        wanted = [made[at]["subscription"] for at in (0, 1, 3, 4)] + [late["subscription"]]
        assert numbers == wanted
        news = await broker.news(since)
        left = {departure["subscription"] for departure in news["detached"]}
        assert made[0]["subscription"] in left


def _path_of(made: Any) -> str:
    return f"/v1/subscriptions/{made['subscription']}?subscriber={made['subscriber']}"


async def arguments_may_be_given_by_place(driver: Driver) -> None:
    alice, key = fresh("alice"), fresh("key")
    async with probe(driver) as broker:
        named = await broker.subscribe(alice, key)
        body = {"subscriber": alice, "broker": broker.name, "channel": CHANNEL, "arguments": [key]}
        assert await broker.call("POST", "/v1/subscriptions", body) == named


async def a_list_is_made_whole_or_not_at_all(driver: Driver) -> None:
    alice, keys = fresh("alice"), [fresh("key") for _ in range(3)]
    async with probe(driver) as broker:
        known = await broker.subscribe(alice, keys[1])
        wanted = [
            {"subscriber": alice, "broker": broker.name, "channel": CHANNEL, "arguments": [key]}
            for key in keys
        ]
        wrong = {**wanted[0], "arguments": {"unknown": 1}}
        refused = await broker.call("POST", "/v1/subscriptions", [*wanted, wrong], status=400)
        assert refused["error"]["index"] == 3
        assert (await broker.load())["subscriptions"] == [known]
        made = await broker.call("POST", "/v1/subscriptions", wanted)
        assert [one["arguments"] for one in made] == [{"key": key} for key in keys]
        assert made[1] == known
        there = (await broker.load())["subscriptions"]
        assert sorted(one["subscription"] for one in there) == sorted(
            one["subscription"] for one in made
        )


async def results_are_dense_ordered_and_limited(driver: Driver) -> None:
    key = fresh("key")
    async with probe(driver) as broker:
        made = await broker.subscribe(fresh("alice"), key)
        await driver.produce(key, 3)
        await driver.produce(key, 2)
        answer = await broker.fetch(made["backend"], 0, 100)
        assert [r["position"] for r in answer["results"]] == [1, 2, 3, 4, 5]
        assert answer["head"] == 5
        assert answer["floor"] == 0
        assert answer["epoch"] == made["epoch"]
        assert all(isinstance(r["value"], dict) for r in answer["results"])
        part = await broker.fetch(made["backend"], 1, 4, limit=2)
        assert [r["position"] for r in part["results"]] == [2, 3]


async def a_range_of_an_unknown_backend_subscription_harms_no_other(driver: Driver) -> None:
    key = fresh("key")
    async with probe(driver) as broker:
        made = await broker.subscribe(fresh("alice"), key)
        await driver.produce(key, 1)
        ranges = [
            {"backend": backend, "after": 0, "upto": 10, "limit": 10}
            for backend in (10**9, made["backend"])
        ]
        gone, known = (await broker.call("POST", "/v1/results", {"ranges": ranges}))["ranges"]
        assert gone == {"backend": 10**9, "gone": True}
        assert [r["position"] for r in known["results"]] == [1]


async def a_notice_tells_the_new_head(driver: Driver) -> None:
    key = fresh("key")
    async with probe(driver) as broker:
        made = await broker.subscribe(fresh("alice"), key)
        await driver.produce(key, 2)
        told = await broker.notice(
            lambda n: any(h["backend"] == made["backend"] and h["head"] == 2 for h in n["heads"])
        )
        assert told["store_id"] == (await broker.register())["store_id"]
        assert told["sequence"] > 0


async def news_never_misses_a_head(driver: Driver) -> None:
    key = fresh("key")
    async with probe(driver) as broker:
        made = await broker.subscribe(fresh("alice"), key)
        since = (await broker.load())["sequence"]
        await driver.produce(key, 2)
        news = await broker.news(since)
        assert {"backend": made["backend"], "epoch": made["epoch"], "head": 2} in [
            {k: h[k] for k in ("backend", "epoch", "head")} for h in news["heads"]
        ]
        assert news["sequence"] > since
        again = await broker.news(news["sequence"])
        assert made["backend"] not in [h["backend"] for h in again["heads"]]


async def attaching_moves_a_subscriber_and_tells_the_broker_it_left(driver: Driver) -> None:
    alice, key = fresh("alice"), fresh("key")
    async with probe(driver) as old, probe(driver) as new:
        made = await old.subscribe(alice, key)
        since = (await old.load())["sequence"]
        body = {"subscriber": alice}
        (moved,) = (await new.call("POST", f"/v1/brokers/{new.name}/attach", body))["subscriptions"]
        assert moved == made | {"broker": new.name}
        assert (await old.load())["subscriptions"] == []
        departure = {"subscription": made["subscription"], "to": new.name}
        assert departure in (await old.news(since))["detached"]
        told = await old.notice(lambda n: departure in n["detached"])
        assert told["sequence"] > since


async def unsubscribing_tells_the_broker_that_it_ended(driver: Driver) -> None:
    alice, key = fresh("alice"), fresh("key")
    async with probe(driver) as broker:
        made = await broker.subscribe(alice, key)
        since = (await broker.load())["sequence"]
        number = made["subscription"]
        await broker.call("DELETE", f"/v1/subscriptions/{number}?subscriber={alice}")
        departure = {"subscription": number, "to": None}
        assert departure in (await broker.news(since))["detached"]
        await broker.notice(lambda n: departure in n["detached"])


async def subscribing_again_moves_nothing(driver: Driver) -> None:
    alice, key = fresh("alice"), fresh("key")
    async with probe(driver) as here, probe(driver) as there:
        made = await here.subscribe(alice, key)
        assert await there.subscribe(alice, key) == made
        assert (await here.load())["subscriptions"] == [made]
        assert (await there.load())["subscriptions"] == []


async def markers_never_move_backwards_and_survive_a_move(driver: Driver) -> None:
    alice, key = fresh("alice"), fresh("key")
    async with probe(driver) as broker, probe(driver) as other:
        made = await broker.subscribe(alice, key)
        await driver.produce(key, 3)

        async def store(position: int, epoch: str = made["epoch"]) -> Any:
            marker = {"subscription": made["subscription"], "epoch": epoch, "position": position}
            return await broker.call("POST", "/v1/markers", {"markers": [marker]})

        assert await store(2) == {"unknown": []}
        await store(1)
        await store(3, epoch="an epoch of long ago")
        (listed,) = (await broker.load())["subscriptions"]
        assert listed["marker"] == 2
        path = f"/v1/brokers/{other.name}/attach"
        (moved,) = (await other.call("POST", path, {"subscriber": alice}))["subscriptions"]
        assert moved["marker"] == 2


async def unknown_markers_are_named_and_the_others_stored(driver: Driver) -> None:
    key = fresh("key")
    async with probe(driver) as broker:
        made = await broker.subscribe(fresh("alice"), key)
        await driver.produce(key, 1)
        number = made["subscription"]
        markers = [
            {"subscription": 10**9, "epoch": made["epoch"], "position": 1},
            {"subscription": number, "epoch": made["epoch"], "position": 1},
        ]
        told = await broker.call("POST", "/v1/markers", {"markers": markers})
        assert told == {"unknown": [10**9]}
        (listed,) = (await broker.load())["subscriptions"]
        assert listed["marker"] == 1


async def a_newcomer_begins_in_the_past_if_it_says_so(driver: Driver) -> None:
    key = fresh("key")
    async with probe(driver) as broker:
        await broker.subscribe(fresh("alice"), key)
        await driver.produce(key, 5)
        last = await broker.subscribe(bob := fresh("bob"), key, beginning={"last": 2})
        assert (last["marker"], last["head"]) == (3, 5)
        assert (await broker.subscribe(bob, key, beginning={"last": 4}))["marker"] == 3
        more = await broker.subscribe(fresh("carol"), key, beginning={"last": 100})
        assert more["marker"] == 0
        recent = await broker.subscribe(fresh("dave"), key, beginning={"seconds": 3600})
        assert recent["marker"] == 0
        assert (await broker.subscribe(fresh("erin"), key))["marker"] == 5
        for wrong in ({"last": 0}, {"seconds": -1}, {}, {"last": 1, "seconds": 1}):
            told = await broker.subscribe(fresh("eve"), key, beginning=wrong, status=400)
            assert told["error"]["field"] == "from"


async def unsubscribing_is_the_subscribers_own_right(driver: Driver) -> None:
    alice, key = fresh("alice"), fresh("key")
    async with probe(driver) as broker:
        made = await broker.subscribe(alice, key)
        path = f"/v1/subscriptions/{made['subscription']}?subscriber="
        await broker.call("DELETE", path + fresh("mallory"), status=404)
        assert await broker.call("DELETE", path + alice) == {}
        await broker.call("DELETE", path + alice, status=404)
        assert (await broker.load())["subscriptions"] == []


async def wrong_subscriptions_are_refused_with_typed_errors(driver: Driver) -> None:
    async with probe(driver) as broker:
        base = {"subscriber": "x", "broker": broker.name, "channel": CHANNEL, "arguments": {}}
        for change, status, code in (
            ({"channel": "nobody_made_this"}, 404, "not_found"),
            ({"arguments": {"wrong": 1}}, 400, "invalid_input"),
            ({"broker": fresh("nobody"), "arguments": {"key": "k"}}, 404, "not_found"),
        ):
            told = await broker.call("POST", "/v1/subscriptions", base | change, status)
            assert told["error"]["code"] == code


async def only_brokers_may_call(driver: Driver) -> None:
    token = mint(driver.secret, "alice", ["subscribe", "publish"], expires_s=60, now=time.time())
    async with httpx.AsyncClient(base_url=driver.url, verify=tls()) as http:
        for method, path in (
            ("PUT", "/v1/brokers/x"),
            ("GET", "/v1/brokers/x/subscriptions"),
            ("POST", "/v1/brokers/x/attach"),
            ("GET", "/v1/brokers/x/news"),
            ("POST", "/v1/results"),
            ("POST", "/v1/markers"),
            ("GET", "/v1/datasets/x/log"),
            ("GET", "/v1/routed"),
        ):
            headers = {"authorization": f"Bearer {token}"}
            assert (await http.request(method, path, headers=headers)).status_code == 403
            assert (await http.request(method, path)).status_code == 401


Check = Callable[[Driver], Awaitable[None]]

CHECKS: list[Check] = [
    registering_twice_is_fine_and_names_the_store,
    subscribing_is_idempotent_and_shares_the_backend_subscription,
    subscriptions_are_loaded_by_pages,
    arguments_may_be_given_by_place,
    a_list_is_made_whole_or_not_at_all,
    results_are_dense_ordered_and_limited,
    a_range_of_an_unknown_backend_subscription_harms_no_other,
    a_notice_tells_the_new_head,
    news_never_misses_a_head,
    attaching_moves_a_subscriber_and_tells_the_broker_it_left,
    unsubscribing_tells_the_broker_that_it_ended,
    subscribing_again_moves_nothing,
    markers_never_move_backwards_and_survive_a_move,
    unknown_markers_are_named_and_the_others_stored,
    a_newcomer_begins_in_the_past_if_it_says_so,
    unsubscribing_is_the_subscribers_own_right,
    wrong_subscriptions_are_refused_with_typed_errors,
    only_brokers_may_call,
]
