"""The page for clients in other languages, played against a live system as it is printed.

The page's example is made true first: alice at broker_1, twelve results, three acknowledged. Two
more come before what is printed about fourteen.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from processes.protocol_page import (
    RESULTS,
    agree,
    blocks,
    exchanges,
    named,
    parsed,
    section,
    spans,
    table,
)
from tocsin.system import System

pytestmark = [pytest.mark.processes, pytest.mark.timeout(120)]
PATIENCE_S = 30
DATASET = "protocol_reports"
STATEMENTS = """
CREATE DATASET IF NOT EXISTS protocol_reports (type STRING, severity INT) ROUTED;
CREATE CONTINUOUS CHANNEL IF NOT EXISTS by_type(type STRING) AS
  SELECT r.type FROM NEW protocol_reports r WHERE r.type = :type;
"""


class Stage:
    """The live system with the page's example made true."""

    def __init__(self, live: System) -> None:
        self.live = live
        self.token = live.token("alice", "subscribe", "publish", "admin")
        headers = {"authorization": f"Bearer {self.token}"}
        self.http = httpx.AsyncClient(headers=headers, timeout=PATIENCE_S)
        self.broker = live.broker_urls["broker_1"]
        self.names: dict[str, object] = {"dataset": DATASET}

    async def call(self, method: str, url: str, body: Any = None, status: int = 200) -> Any:
        answer = await self.http.request(method, url, json=body)
        assert answer.status_code == status, (method, url, answer.text)
        return answer.json()

    async def prepare(self) -> None:
        await self.call("POST", f"{self.live.cluster_url}/v1/statements", {"sql": STATEMENTS})
        listed = await self.call("GET", f"{self.broker}/v1/subscriptions")
        for left_over in listed["subscriptions"]:
            number = left_over["subscription"]
            await self.call("DELETE", f"{self.broker}/v1/subscriptions/{number}")
        await self.subscribe()
        await self.publish(12)
        number, epoch = self.names["subscription"], self.names["epoch"]
        body = {"epoch": epoch, "position": 3}
        await self.call("POST", f"{self.broker}/v1/subscriptions/{number}/ack", body)

    async def subscribe(self) -> None:
        wanted = {"channel": "by_type", "arguments": {"type": "flood"}}
        made = await self.call("POST", f"{self.broker}/v1/subscriptions", wanted)
        status = await self.call("GET", f"{self.live.cluster_url}/v1/status")
        self.names |= {key: made[key] for key in ("subscription", "backend", "epoch")}
        self.names["store_id"] = status["store_id"]

    async def keep_fires(self) -> None:
        """Somebody at this broker wants them, so its message cache keeps them."""
        wanted = {"channel": f"dataset/{DATASET}", "arguments": {"where": "type = 'fire'"}}
        headers = {"authorization": f"Bearer {self.live.token('bob', 'subscribe')}"}
        url = f"{self.broker}/v1/subscriptions"
        answer = await self.http.post(url, json=wanted, headers=headers)
        assert answer.status_code == 200, answer.text

    async def recalled(self, url: str, body: Any) -> Any:
        """What is told as soon as there is something: records travel after they are taken."""
        async with asyncio.timeout(PATIENCE_S):
            while not (told := await self.call("POST", url, body))["found"]:
                pass
        return told

    async def publish(self, count: int) -> None:
        """Publish so many more, and wait for their results."""
        head = await self._head() + count
        url = f"{self.live.cluster_url}/v1/datasets/{DATASET}/records"
        await self.call("POST", url, [{"type": "flood"}] * count)
        async with asyncio.timeout(PATIENCE_S):
            while await self._head() < head:  # noqa: ASYNC110 (no event to wait for)
                await asyncio.sleep(0.05)

    async def _head(self) -> int:
        """Up to where the broker can serve."""
        query = f"{self.names['subscription']}/results?after=0&epoch={self.names['epoch']}&limit=1"
        return int((await self.call("GET", f"{self.broker}/v1/subscriptions/{query}"))["head"])

    async def connect(
        self, broker: str = "broker_1", inline: int = 0, batch: int = 0
    ) -> ClientConnection:
        listed = await self.call("GET", f"{self.live.coordinator_url}/v1/brokers")
        (url,) = [one["ws_url"] for one in listed["brokers"] if one["name"] == broker]
        return await connect(f"{url}?token={self.token}&inline={inline}&batch={batch}")

    def printed(self, text: str) -> Any:
        return parsed(text, **self.names)


@pytest.fixture
async def stage(live: System) -> AsyncIterator[Stage]:
    made = Stage(live)
    await made.prepare()
    yield made
    await made.http.aclose()


async def heard(socket: ClientConnection, *skipped: str) -> Any:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            frame = json.loads(await socket.recv())
            if frame["op"] not in skipped:
                return frame


async def closed(socket: ClientConnection) -> int | None:
    async with asyncio.timeout(PATIENCE_S):
        with contextlib.suppress(ConnectionClosed):
            while True:
                await socket.recv()
        return socket.close_code


async def test_printed_requests_get_the_printed_answers(stage: Stage) -> None:
    bases = {"coordinator": stage.live.coordinator_url, "cluster": stage.live.cluster_url}
    for request, answer in exchanges():
        head, _, body = named(request, dataset=DATASET).partition("\n\n")
        (method, url), *lines = [line.split(" ", 1) for line in head.strip().splitlines()]
        for name, base in bases.items():
            url = url.replace(f"{{{name}}}", base)
        headers = {name.rstrip(":"): value for name, value in lines}
        told = await stage.http.request(method, url, headers=headers, content=body)
        agree(stage.printed(answer), told.json(), url)


async def test_an_error_is_as_printed(stage: Stage) -> None:
    (block,) = blocks(section("Errors"), "json")
    wanted = {"channel": "flods", "arguments": {}}
    told = await stage.call("POST", f"{stage.broker}/v1/subscriptions", wanted, 404)
    agree(stage.printed(block), told)
    async with await stage.connect() as socket:
        await heard(socket)
        await socket.send(json.dumps({"op": "subscribe", "ref": 3} | wanted))
        frame = await heard(socket)
        errors = [one for one in spans(section("What you send")) if '"op":"error"' in one]
        of_acknowledgement, error = map(stage.printed, errors)
        agree(error, frame)
        assert frame["error"] == told["error"]
        not_ours = int(str(stage.names["subscription"])) + 1000
        acknowledged = {"subscription": not_ours, "epoch": stage.names["epoch"], "position": 1}
        await socket.send(json.dumps({"op": "ack"} | acknowledged))
        agree(of_acknowledgement | {"subscription": not_ours}, await heard(socket, "signal"))


async def test_frames_are_answered_as_printed(stage: Stage) -> None:
    welcome, _ = blocks(section("WebSocket"), "json")
    unasked = {
        stage.printed(span)["op"]: stage.printed(span)
        for span in spans(section("What you receive unasked"))
        if span.startswith("{")
    }
    async with await stage.connect() as socket:
        agree(stage.printed(welcome), await heard(socket))
        for request, answer in table(section("What you send")):
            frame = stage.printed(spans(request)[0])
            if frame["op"] == "get":
                await stage.publish(2)
                while (signal := await heard(socket))["head"] < 14:
                    pass
                agree(unasked.pop("signal"), signal)
            await socket.send(json.dumps(frame))
            if frame["op"] == "unsubscribe":
                agree(unasked.pop("ended"), await heard(socket, "signal"))
            expected = RESULTS if frame["op"] == "get" else spans(answer)[0]
            agree(stage.printed(expected), await heard(socket, "signal"), frame["op"])
        await stage.subscribe()
        async with await stage.connect("broker_2"):
            agree(unasked.pop("moved"), await heard(socket))
            assert await closed(socket) == 4001
    assert not unasked


async def test_frames_with_batch_are_answered_as_printed(stage: Stage) -> None:
    text = section("With `batch=1`")
    (printed_batch,) = [span for span in spans(text) if span.startswith('{"op":"batch"')]
    await stage.publish(2)
    async with await stage.connect(batch=1) as socket:
        assert (await heard(socket))["batch"] is True
        for request, answer in table(text):
            frame = stage.printed(spans(request)[0])
            await socket.send(json.dumps(frame))
            expected = RESULTS if frame["op"] == "get_many" else spans(answer)[0]
            real = await heard(socket, "signal")
            agree(stage.printed(expected), real)
        await socket.send(json.dumps(frame | {"gets": 3 * frame["gets"]}))
        together = await heard(socket, "signal", "results")
        agree(stage.printed(printed_batch), together)
        assert {frame["op"] for frame in together["frames"]} == {"results"}


async def test_inline_results_are_as_described(stage: Stage) -> None:
    async with await stage.connect(inline=1) as socket:
        await heard(socket)
        await stage.publish(1)
        frame = await heard(socket, "signal")
    assert frame.keys() == stage.printed(RESULTS).keys() - {"ref", "subscription"}
    assert (frame["op"], frame["after"], frame["upto"]) == ("results", 12, 13)


async def test_rest_calls_are_answered_as_printed(stage: Stage) -> None:
    policy = (await stage.call("GET", f"{stage.broker}/v1/cache"))["policy"]
    results = stage.printed(RESULTS)
    del results["op"], results["ref"]
    shown: dict[str, Any] = {}
    photo = await stage.call("POST", f"{stage.live.cluster_url}/v1/attachments", "photo", 201)
    await stage.keep_fires()
    for request, answer in table(section("REST at the broker")):
        for method, path, body in _calls(named(request, **stage.names)):
            url = stage.broker + path
            if path.startswith("/v1/events"):
                async with stage.http.stream(method, url) as response:
                    assert await anext(response.aiter_lines()) == "event: welcome"
            elif "without a token" in answer:
                async with httpx.AsyncClient() as nobody:
                    assert (await nobody.get(url)).status_code == 200, url
            elif "/results" in path:
                await stage.publish(2)
                agree(results, await stage.call(method, url), path)
            elif "/attachments/" in path:
                told = await stage.http.get(url.replace("{id}", photo["id"]).partition("?")[0])
                assert told.json() == "photo"
            elif method == "PUT" and path in shown:
                agree(shown[path] | body, await stage.call(method, url, body), path)
            elif path == "/v1/recall":
                agree(stage.printed(spans(answer)[0]), await stage.recalled(url, body), path)
            else:
                expected = stage.printed(spans(answer)[0])
                agree(expected, await stage.call(method, url, body), path)
                shown[path] = expected
    await stage.call("PUT", f"{stage.broker}/v1/cache", {"policy": policy})
    pages = {"policy": "dc", "capacity_bytes": stage.live.settings.page_cache_bytes}
    await stage.call("PUT", f"{stage.broker}/v1/pages", pages)
    messages = {"policy": "sel-sub-prt", "slots": 1000}
    await stage.call("PUT", f"{stage.broker}/v1/overlay/messages", messages)


async def test_event_streams_are_as_described(stage: Stage) -> None:
    welcome, _ = blocks(section("WebSocket"), "json")
    (closing,) = [one for one in spans(section("Server-sent events")) if one.startswith("{")]
    async with stage.http.stream("GET", f"{stage.broker}/v1/events?inline=0") as response:
        lines = response.aiter_lines()
        assert await anext(lines) == "event: welcome"
        agree(stage.printed(welcome), json.loads((await anext(lines)).removeprefix("data: ")))
        async with await stage.connect("broker_2"):
            rest = [line async for line in lines if line]
    assert rest[0] == "event: moved"
    assert rest[2] == "event: closing"
    agree(stage.printed(closing) | {"code": 4001}, json.loads(rest[3].removeprefix("data: ")))


async def test_close_codes_that_a_client_can_provoke(stage: Stage) -> None:
    limit_bytes = stage.live.settings.frame_limit_bytes
    for text, code in (("no JSON", 4400), ("[]", 4400), ("x" * (limit_bytes + 1), 1009)):
        async with await stage.connect() as socket:
            await socket.send(text)
            assert await closed(socket) == code
    stage.token = stage.live.token("alice", "subscribe", expires_s=2)
    async with await stage.connect() as socket:
        assert await closed(socket) == 4401


def _calls(cell: str) -> list[tuple[str, str, Any]]:
    """The calls in a table's cell, each with its body if one follows."""
    found: list[tuple[str, str, Any]] = []
    for span in spans(cell):
        if span.startswith("{"):
            found[-1] = (*found[-1][:2], json.loads(span))
        elif " /" in span:
            method, path = span.split(" ", 1)
            found.append((method, path, None))
    return found
