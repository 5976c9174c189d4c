"""Calls that a gateway passes on as they are to the cluster that leads, whose answers come back as
they come: neither is held but in pieces.

A small body is held, so that such a call can be made at the next address when nobody leads at the
first: nothing was done there. One that may have been done is never made again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import httpx
from prometheus_client import Gauge
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tocsin.client.addresses import PASSING
from tocsin.client.cluster_http import ClusterHttp
from tocsin.client.http import NOT_SENT
from tocsin.errors import InvalidInput, Unavailable, Unconfirmed
from tocsin.service.http_protocol import ABORT
from tocsin.service.room import busy
from tocsin.service.streaming import disconnected
from tocsin.service.web import Call

MOST_AT_ONCE = 1000
SMALL_BYTES = 64 * 1024
TIMEOUT = httpx.Timeout(10.0, read=90.0, write=30.0)
"""Statements and queries take their time; streams say something every second."""
LIMITS = httpx.Limits(max_connections=MOST_AT_ONCE, max_keepalive_connections=64)

_OF_A_CONNECTION = frozenset(
    (
        *("connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"),
        *("proxy-authenticate", "proxy-authorization"),
    )
)
_NOT_PASSED = _OF_A_CONNECTION | {"host", "expect", "accept-encoding"}
_OF_EACH_ANSWER = _OF_A_CONNECTION | {"date", "server", "tocsin-protocol"}
"""Headers that this service sets itself."""

PASSED = Gauge("tocsin_gateway_passed_on", "Calls on their way through to the cluster")


class Passing:
    def __init__(self, url: str, name: str, authority: str = "") -> None:
        self._http = ClusterHttp(url, f"gateway {name}", authority, TIMEOUT, limits=LIMITS)
        self._answers: set[httpx.Response] = set()
        self._under_way = 0

    async def close(self) -> None:
        await self.end_answers()
        await self._http.client.aclose()

    async def end_answers(self) -> None:
        """Those that have no end have one now."""
        for answer in list(self._answers):
            await answer.aclose()

    async def pass_on(self, call: Call, body: bytes | None = None) -> Response:
        """`body`: if it was read already."""
        if self._under_way >= MOST_AT_ONCE:
            raise busy()
        self._under_way += 1
        PASSED.set(self._under_way)
        try:
            answer = await self._asked(call, body)
        except BaseException:
            self._over()
            raise
        self._answers.add(answer)
        return _Passed(answer, self._ended)

    async def _asked(self, call: Call, body: bytes | None) -> httpx.Response:
        if body is None and _is_held(call):
            body = await call.bytes()
        request, client = call.request, self._http.client
        query = f"?{request.url.query}" if request.url.query else ""
        path = request.scope["raw_path"].decode("ascii") + query  # %2F is no slash
        headers = [("accept-encoding", "identity"), *_kept(request.headers.items(), _NOT_PASSED)]

        async def send(at: str) -> httpx.Response:
            content = request.stream() if body is None else body
            made = client.build_request(request.method, at + path, headers=headers, content=content)
            answer = await client.send(made, stream=True)
            if answer.status_code in PASSING:  # it may say that another leads
                await answer.aread()
            return answer

        try:
            return await self._http.ask(send, repeatable=False, streamed=body is None)
        except ClientDisconnect:
            raise InvalidInput("the body was cut short", field="body") from None
        except Unavailable as error:
            reads = request.method in ("GET", "HEAD")
            if reads or isinstance(error.__cause__, NOT_SENT):
                raise
            raise Unconfirmed.after(error) from error

    async def _ended(self, answer: httpx.Response) -> None:
        self._answers.discard(answer)
        self._over()
        await answer.aclose()

    def _over(self) -> None:
        self._under_way -= 1
        PASSED.set(self._under_way)


class _Passed(Response):
    """An answer as it comes, with its headers and no others."""

    def __init__(
        self, answer: httpx.Response, ended: Callable[[httpx.Response], Awaitable[None]]
    ) -> None:
        super().__init__(status_code=answer.status_code)
        self.raw_headers = [
            (name.encode(), value.encode("latin-1"))
            for name, value in _kept(answer.headers.multi_items(), _OF_EACH_ANSWER)
        ]
        self._answer = answer
        self._ended = ended

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        passing = asyncio.create_task(self._pass(scope, send))
        left = asyncio.create_task(disconnected(receive))
        try:
            await asyncio.wait({passing, left}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (passing, left):
                task.cancel()
            await asyncio.gather(passing, left, return_exceptions=True)
            await asyncio.shield(self._ended(self._answer))

    async def _pass(self, scope: Scope, send: Send) -> None:
        start = {"status": self.status_code, "headers": self.raw_headers}
        await send({"type": "http.response.start", **start})
        try:
            if self._answer.is_stream_consumed:
                await send(_part(self._answer.content))
            else:
                async for piece in self._answer.aiter_raw():
                    await send(_part(piece))
        except (httpx.HTTPError, httpx.StreamError):  # half an answer must not pass for a whole one
            scope["extensions"][ABORT]()
        else:
            await send(_part(b"", more=False))


def _part(body: bytes, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}


def _is_held(call: Call) -> bool:
    """Whether its body is so small that it is."""
    if "transfer-encoding" in call.request.headers:
        return False
    return (call.announced_bytes or 0) <= SMALL_BYTES


def _kept(headers: Iterable[tuple[str, str]], left_out: frozenset[str]) -> list[tuple[str, str]]:
    return [(name.lower(), value) for name, value in headers if name.lower() not in left_out]
