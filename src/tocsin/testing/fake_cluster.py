"""A cluster in memory: the broker-facing routes, real notices, and faults on demand.

For tests of brokers, clients and applications without Spark or a store. It passes the same contract
suite as the real one.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
from starlette.applications import Starlette

from tocsin.beginnings import checked
from tocsin.client.transport import tls
from tocsin.errors import InvalidInput, NotFound, TocsinError, Unavailable
from tocsin.model import Beginning
from tocsin.service.keys.verifier import TokenVerifier
from tocsin.service.on_behalf import on_behalf_of
from tocsin.service.serving import listen, port_of, serving
from tocsin.service.tokens import Identity, sign_notice
from tocsin.service.web import Call, Route, application, json_response
from tocsin.testing.fake_content import FakeContent
from tocsin.testing.fake_routing import FakeRouting
from tocsin.testing.fake_subscriptions import Backend, Frontend

SECRET = "a secret that only the tests know and nobody else"


class FakeCluster:
    """State and faults. `channels` maps a channel to its parameters' names."""

    def __init__(self, secret: str = SECRET) -> None:
        self.secret = secret
        self.store = uuid.uuid4().hex
        self.channels: dict[str, tuple[str, ...]] = {"contract": ("key",), "floods": ("type",)}
        self.push = False
        self.routing = FakeRouting()
        self.content = FakeContent()
        self.brokers: dict[str, str] = {}
        self.backends: dict[int, Backend] = {}
        self.frontends: dict[int, Frontend] = {}
        self.subscription_lists: list[int] = []  # how many were asked for in each
        self.detached: list[tuple[int, str, int]] = []  # sequence, broker, subscription
        self.sequence = 0
        self.numbers = 0
        self.drop_notices = False
        self.down = False
        self.askers: list[Identity | None] = []  # for whom brokers attached and subscribed
        self.fetches: list[list[dict[str, Any]]] = []
        self.fetch_gate = asyncio.Event()
        self.fetch_gate.set()
        self.failing_fetches = 0  # so many more calls for results fail
        self.unsubscribe_gate = asyncio.Event()  # holds back the answer, not the deed
        self.unsubscribe_gate.set()
        self.answer_gate = asyncio.Event()  # closed: whoever asks anything waits
        self.answer_gate.set()
        self.subscribe_gates: dict[str, asyncio.Event] = {}  # by broker: its calls come late
        self.published: list[tuple[str, list[Any]]] = []
        self.lost_answers = 0  # so many publishers more are not told that they succeeded
        self._answers: dict[str, Any] = {}  # by the publication's key
        self.url = ""
        self._http = httpx.AsyncClient(verify=tls())
        self._notices: set[asyncio.Task[None]] = set()

    # What tests do to it

    def produce(self, channel: str, arguments: dict[str, Any], values: list[Any]) -> None:
        """New results for one backend subscription, if anybody is subscribed."""
        backend = self._find(channel, arguments)
        if backend is None:
            return
        self._store(backend, values)
        for broker in self._serving(backend):
            self._post(broker, {"heads": [self._head(backend, len(values))], "detached": []})

    def produce_together(self, channel: str, sets: list[dict[str, Any]], value: Any) -> None:
        """A new result for each of several backend subscriptions that one broker serves, told in
        one notice."""
        heads = []
        for arguments in sets:
            backend = self._find(channel, arguments)
            assert backend is not None
            self._store(backend, [value])
            heads.append(self._head(backend, 1))
            [broker] = self._serving(backend)
        self._post(broker, {"heads": heads, "detached": []})

    def _store(self, backend: Backend, values: list[Any]) -> None:
        for value in values:
            backend.head += 1
            result = {"position": backend.head, "at": time.time(), "value": value}
            backend.results.append(result)
        self.sequence += 1
        backend.changed = self.sequence

    def _serving(self, backend: Backend) -> set[str]:
        return {f.broker for f in self.frontends.values() if f.backend is backend}

    def route(self, dataset: str, records: list[dict[str, Any]]) -> list[int]:
        """New records of a routed dataset; their positions."""
        return [self.routing.logs[dataset].append(record).position for record in records]

    def retire(self, channel: str, arguments: dict[str, Any], floor: int) -> None:
        """Results up to `floor` are no longer kept."""
        backend = self._find(channel, arguments)
        assert backend is not None
        backend.floor = max(backend.floor, floor)
        backend.results = [r for r in backend.results if r["position"] > floor]

    def wipe(self) -> None:
        """As if the store were lost and made anew."""
        self.store = uuid.uuid4().hex
        self.backends.clear()
        self.frontends.clear()
        self.detached.clear()
        self.brokers.clear()
        self.sequence = 0
        self.routing.closed = True
        self.routing = FakeRouting()

    def end(self, subscription: int) -> None:
        """As UNSUBSCRIBE does, whoever says it."""
        frontend = self.frontends.pop(subscription)
        self.sequence += 1
        self.detached.append((self.sequence, frontend.broker, subscription))
        self._post(frontend.broker, {"heads": [], "detached": [self._departure(subscription)]})
        if not any(f.backend is frontend.backend for f in self.frontends.values()):
            del self.backends[frontend.backend.id]

    def move(self, subscription: int, broker: str) -> None:
        """As CHANGE SUBSCRIPTION does."""
        self._move(self.frontends[subscription], broker)

    def marker(self, subscriber: str) -> int:
        (frontend,) = [f for f in self.frontends.values() if f.subscriber == subscriber]
        return frontend.marker

    @contextlib.asynccontextmanager
    async def serve(self, port: int = 0) -> AsyncIterator[FakeCluster]:
        listener = listen("127.0.0.1", port)
        self.url = f"http://127.0.0.1:{port_of(listener)}"
        async with serving(self.app(), listener):
            yield self
            self.routing.closed = True
            for task in list(self._notices):
                task.cancel()
            await asyncio.gather(*self._notices, return_exceptions=True)
            await self._http.aclose()

    def _find(self, channel: str, arguments: dict[str, Any]) -> Backend | None:
        for backend in self.backends.values():
            if backend.channel == channel and backend.arguments == arguments:
                return backend
        return None

    def _head(self, backend: Backend, newest: int) -> dict[str, Any]:
        """As a notice tells it."""
        head: dict[str, Any] = {
            "backend": backend.id,
            "epoch": backend.epoch,
            "head": backend.head,
        }
        if self.push:
            head["results"] = backend.results[-newest:]
        return head

    def _post(self, broker: str, body: dict[str, Any]) -> None:
        if self.drop_notices or broker not in self.brokers:
            return
        notice = body | {"store_id": self.store, "sequence": self.sequence}
        task = asyncio.create_task(self._deliver(self.brokers[broker], msgspec.json.encode(notice)))
        self._notices.add(task)
        task.add_done_callback(self._notices.discard)

    async def _deliver(self, url: str, body: bytes) -> None:
        headers = {"tocsin-signature": sign_notice(self.secret, body, time.time())}
        with contextlib.suppress(httpx.HTTPError):
            await self._http.post(url + "/v1/notices", content=body, headers=headers)

    # The routes

    def app(self) -> Starlette:
        broker = ("broker",)
        table: list[tuple[str, str, Any, tuple[str, ...]]] = [
            ("PUT", "/v1/brokers/{name}", self._register, broker),
            ("GET", "/v1/brokers/{name}/subscriptions", self._load, broker),
            ("POST", "/v1/brokers/{name}/attach", self._attach, broker),
            ("GET", "/v1/brokers/{name}/news", self._news, broker),
            ("POST", "/v1/subscriptions", self._subscribe, broker),
            ("DELETE", "/v1/subscriptions/{id:int}", self._unsubscribe, broker),
            ("POST", "/v1/results", self._results, broker),
            ("POST", "/v1/markers", self._markers, broker),
            ("GET", "/v1/datasets/{name}/log", self._log, broker),
            ("GET", "/v1/routed", self._routed, broker),
            ("PUT", "/v1/attachments/{id}", self.content.put, ("publish",)),
            ("GET", "/v1/attachments/{id}", self.content.get, broker),
            ("GET", "/v1/attachments/{id}/access", self.content.access, broker),
            ("POST", "/v1/statements", self._statements, ("admin",)),
            ("POST", "/v1/datasets/{name}/records", self._publish, ("publish",)),
        ]
        routes = [Route(m, p, self._guarded(h), s, "") for m, p, h, s in table]
        return application(
            "Fake cluster", routes, verifier=TokenVerifier(secret=self.secret), limit_bytes=1 << 26
        )

    def _guarded(self, handler: Any) -> Any:
        async def guarded(call: Call) -> Any:
            await self.answer_gate.wait()
            if self.down:
                raise Unavailable("the cluster is down, as the test wished")
            return await handler(call)

        return guarded

    def _json(self, frontend: Frontend) -> dict[str, Any]:
        backend = frontend.backend
        subscription = {
            "subscription": frontend.id,
            "subscriber": frontend.subscriber,
            "broker": frontend.broker,
            "backend": backend.id,
            "channel": backend.channel,
            "arguments": backend.arguments,
            "epoch": backend.epoch,
            "head": backend.head,
            "floor": backend.floor,
            "marker": frontend.marker,
        }
        if backend.channel in self.content.fields:
            attachments, keys = self.content.fields[backend.channel]
            subscription |= {"attachments": attachments, "keys": keys}
        routed = self.routing.of(backend.channel)
        if routed is not None:
            filter_ = routed.filter_json(backend.arguments["where"])
            subscription |= {"head": routed.end, "floor": routed.floor, "filter": filter_}
        return subscription

    async def _note_asker(self, call: Call, subscriber: str) -> None:
        self.askers.append(await on_behalf_of(call, subscriber))

    def _known(self, call: Call) -> str:
        name = str(call.path["name"])
        if name not in self.brokers:
            raise NotFound(f"no broker is called {name!r}", field="broker")
        return name

    async def _register(self, call: Call) -> Any:
        body = await call.body(dict)
        self.brokers[call.path["name"]] = body["url"]
        return {"name": call.path["name"], "store_id": self.store}

    async def _load(self, call: Call) -> Any:
        name = self._known(call)
        query = call.request.query_params
        after, limit = int(query.get("after", 0)), int(query.get("limit", 1 << 30))
        mine = [f for f in self.frontends.values() if f.broker == name and f.id > after]
        upto = mine[limit - 1].id if len(mine) > limit else None
        page = [self._json(f) for f in mine[:limit]]
        return {"sequence": self.sequence, "subscriptions": page, "upto": upto}

    def _move(self, frontend: Frontend, broker: str) -> None:
        if frontend.broker == broker:
            return
        self.sequence += 1
        self.detached.append((self.sequence, frontend.broker, frontend.id))
        left, frontend.broker = frontend.broker, broker
        self._post(left, {"heads": [], "detached": [self._departure(frontend.id)]})

    def _departure(self, subscription: int) -> dict[str, Any]:
        there = self.frontends.get(subscription)
        return {"subscription": subscription, "to": there.broker if there else None}

    async def _attach(self, call: Call) -> Any:
        name = self._known(call)
        subscriber = (await call.body(dict))["subscriber"]
        await self._note_asker(call, subscriber)
        moved = [f for f in self.frontends.values() if f.subscriber == subscriber]
        for frontend in moved:
            self._move(frontend, name)
        return {"subscriptions": [self._json(f) for f in moved]}

    async def _news(self, call: Call) -> Any:
        name = self._known(call)
        since = int(call.request.query_params.get("since", 0))
        mine = {f.backend.id: f.backend for f in self.frontends.values() if f.broker == name}
        heads = [
            {"backend": b.id, "epoch": b.epoch, "head": b.head}
            for b in mine.values()
            if b.changed > since
        ]
        gone = [s for at, broker, s in self.detached if broker == name and at > since]
        gone = [s for s in gone if s not in self.frontends or self.frontends[s].broker != name]
        detached = [self._departure(number) for number in gone]
        return {"sequence": self.sequence, "heads": heads, "detached": detached}

    async def _subscribe(self, call: Call) -> Any:
        body: Any = await call.body(Any)
        if isinstance(body, dict):
            return await self._subscribe_one(call, body)
        self.subscription_lists.append(len(body))
        for index, wish in enumerate(body):
            try:
                self._check_wish(wish)
            except TocsinError as error:
                error.index = index
                raise
        return [await self._subscribe_one(call, wish) for wish in body]

    def _check_wish(self, body: dict[str, Any]) -> dict[str, Any]:
        given = self._bound(body["channel"], body.get("arguments", {}))
        if body.get("from") is not None:
            checked(msgspec.convert(body["from"], Beginning))
        if body["broker"] not in self.brokers:
            raise NotFound(f"no broker is called {body['broker']!r}", field="broker")
        return given

    async def _subscribe_one(self, call: Call, body: dict[str, Any]) -> Any:
        await self._note_asker(call, body["subscriber"])
        if body["broker"] in self.subscribe_gates:
            await self.subscribe_gates[body["broker"]].wait()
        channel = body["channel"]
        routed = self.routing.of(channel)
        given = self._check_wish(body)
        backend = self._find(channel, given)
        if backend is None:
            self.numbers += 1
            backend = Backend(self.numbers, channel, given, uuid.uuid4().hex)
            self.backends[backend.id] = backend
        for frontend in self.frontends.values():
            if frontend.subscriber == body["subscriber"] and frontend.backend is backend:
                return self._json(frontend)
        self.numbers += 1
        if routed is None:
            marker = backend.marker(body.get("from"))
        else:
            marker = routed.marker(given["where"], body.get("from"))
        made = Frontend(self.numbers, body["subscriber"], body["broker"], backend, marker)
        self.frontends[made.id] = made
        return self._json(made)

    def _bound(self, channel: str, given: Any) -> dict[str, Any]:
        if self.routing.of(channel) is not None:
            return {"where": self.routing.where(channel, given)}
        if channel not in self.channels:
            raise NotFound(f"no channel is called {channel!r}", field="channel")
        names = self.channels[channel]
        named = dict(zip(names, given, strict=False)) if isinstance(given, list) else given
        if set(named) != set(names):
            raise InvalidInput(f"{channel} takes {', '.join(names)}", field="arguments")
        return dict(named)

    async def _log(self, call: Call) -> Any:
        name = call.path["name"]
        log = self.routing.logs.get(name)
        if log is None:
            raise NotFound(f"there is no dataset {name}", field="dataset")
        query = call.request.query_params
        after, upto = int(query.get("after", 0)), int(query.get("upto", log.end))
        return log.range(after, upto, int(query.get("limit", 10_000)))

    async def _routed(self, _: Call) -> Any:
        return self.routing.stream()

    async def _unsubscribe(self, call: Call) -> Any:
        frontend = self.frontends.get(call.path["id"])
        if frontend is None or frontend.subscriber != call.request.query_params["subscriber"]:
            raise NotFound(f"no subscription {call.path['id']}", field="subscription")
        self.end(frontend.id)
        await self.unsubscribe_gate.wait()
        return {}

    async def _results(self, call: Call) -> Any:
        ranges = (await call.body(dict))["ranges"]
        self.fetches.append(ranges)
        await self.fetch_gate.wait()
        if self.failing_fetches:
            self.failing_fetches -= 1
            raise Unavailable("results cannot be read, as the test wished")
        answers: list[dict[str, Any]] = []
        for wanted in ranges:
            backend = self.backends.get(wanted["backend"])
            if backend is None:
                answers.append({"backend": wanted["backend"], "gone": True})
                continue
            routed = self.routing.of(backend.channel)
            bounds = {name: wanted[name] for name in ("after", "upto", "limit") if name in wanted}
            if routed is None:
                answer = backend.between(**bounds)
            else:
                answer = routed.results(backend.arguments["where"], **bounds)
            answers.append({"backend": backend.id, "epoch": backend.epoch, **answer})
        return {"ranges": answers}

    async def _markers(self, call: Call) -> Any:
        unknown = []
        for marker in (await call.body(dict))["markers"]:
            frontend = self.frontends.get(marker["subscription"])
            if frontend is None:
                unknown.append(marker["subscription"])
            elif marker["epoch"] == frontend.backend.epoch:
                routed = self.routing.of(frontend.backend.channel)
                head = frontend.backend.head if routed is None else routed.end
                upto = min(marker["position"], head)
                frontend.marker = max(frontend.marker, upto)
        return {"unknown": unknown}

    async def _statements(self, call: Call) -> Any:
        text = (await call.body(dict))["sql"]
        return {"results": [{"statement": "select", "message": text, "columns": [], "rows": []}]}

    async def _publish(self, call: Call) -> Any:
        if "form-data" in call.request.headers["content-type"]:
            self.content.forms.append(await call.bytes())
            return {"accepted": 1, "rejected": 0, "end": 1, "errors": []}
        lines = (await call.bytes()).splitlines()
        records = [msgspec.json.decode(line) for line in lines if line]
        bad = [n for n, record in enumerate(records, 1) if "bad" in record]
        if len(bad) == len(records):
            errors = [{"line": n, "field": "bad", "reason": "no such column"} for n in bad]
            answer = {"accepted": 0, "rejected": len(bad), "end": 0, "errors": errors}
            return json_response(answer, 422)
        key = call.request.headers["idempotency-key"]
        if key not in self._answers:
            self.published.append((call.path["name"], records))
            answer = {"accepted": len(records), "rejected": 0, "end": len(records), "errors": []}
            self._answers[key] = answer
        if self.lost_answers:
            self.lost_answers -= 1
            raise Unavailable("the answer is lost, as the test wished")
        return self._answers[key]
