"""Routes as data: each says who may call it, what it takes and what it answers.

From the same list come the Starlette application, the scope check, body limits, typed decoding,
error answers, metrics and the OpenAPI description, so that none of them can disagree.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
import structlog
from msgspec import Struct
from prometheus_client import CONTENT_TYPE_LATEST, Counter, Histogram, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route as StarletteRoute

from tocsin.errors import InvalidInput, NotFound, TocsinError, TooLarge, field_named
from tocsin.service.openapi import describe, page
from tocsin.service.tokens import Identity, bearer, verify

log = structlog.get_logger()

CALLS = Counter("tocsin_http_requests_total", "Answered HTTP calls", ["path", "method", "status"])
CALL_TIME = Histogram("tocsin_http_seconds", "Time to answer an HTTP call", ["path"])

INSTANCE = "SERVICE_INSTANCE"
"""In a service's environment: what its starter knows it by, told by /healthz. Whoever else answers
on its port is not the one that was started."""


class Call:
    """One HTTP call, checked and decoded."""

    def __init__(self, request: Request, identity: Identity, limit_bytes: int) -> None:
        self.request = request
        self.identity = identity
        self._limit_bytes = limit_bytes

    @property
    def path(self) -> dict[str, Any]:
        return self.request.path_params

    def query(self, name: str, kind: type[Any], default: Any = None) -> Any:
        """A query parameter as `kind`; a wrong one is the caller's mistake, by name."""
        text = self.request.query_params.get(name)
        if text is None:
            return default
        try:
            return msgspec.convert(text, kind, strict=False)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"query parameter {name}: {error}", field=name) from None

    async def bytes(self) -> bytes:
        """The whole body, refused as soon as it is known to be too large."""
        announced = self.request.headers.get("content-length", "")
        if announced.isdigit() and int(announced) > self._limit_bytes:
            raise self._too_large()
        parts, size = [], 0
        async for part in self.request.stream():
            size += len(part)
            if size > self._limit_bytes:
                raise self._too_large()
            parts.append(part)
        return b"".join(parts)

    async def body(self, kind: type[Any]) -> Any:
        """The body decoded as `kind`."""
        try:
            return msgspec.json.decode(await self.bytes(), type=kind)
        except msgspec.ValidationError as error:
            told = f"the body does not fit: {error}"
            raise InvalidInput(told, field=field_named(error)) from None
        except msgspec.DecodeError as error:
            raise InvalidInput(f"the body is not JSON: {error}") from None

    def _too_large(self) -> TooLarge:
        return TooLarge(
            f"the body is larger than {self._limit_bytes} bytes",
            field="body",
            hint="send it in several parts, or raise body_limit_bytes",
        )


Handler = Callable[[Call], Awaitable[Any]]


class Route(Struct, frozen=True):
    """A route. `scopes`: any of them suffices; empty: any valid token; None: no token at all."""

    method: str
    path: str
    handler: Handler
    scopes: tuple[str, ...] | None
    summary: str
    takes: Any = None
    answers: Any = None
    status: int = 200


def application(
    title: str,
    routes: Sequence[Route],
    *,
    secret: str,
    limit_bytes: int,
    lifespan: Callable[[Starlette], AbstractAsyncContextManager[None]] | None = None,
    trouble: Callable[[], str | None] = lambda: None,
) -> Starlette:
    """The service: its routes, and beside them /metrics, /healthz, /openapi.json and /docs.
    `trouble` says why it does not do its work, if it does not."""
    description = msgspec.json.encode(describe(title, routes))

    async def metrics(_: Request) -> Response:
        return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)

    async def healthy(_: Request) -> Response:
        why = trouble()
        return health("ok") if why is None else health(why, 503)

    async def openapi(_: Request) -> Response:
        return Response(description, media_type="application/json")

    async def docs(_: Request) -> Response:
        return HTMLResponse(page(title, routes))

    plain = [
        StarletteRoute("/metrics", metrics),
        StarletteRoute("/healthz", healthy),
        StarletteRoute("/openapi.json", openapi),
        StarletteRoute("/docs", docs),
    ]
    served = [
        StarletteRoute(r.path, _endpoint(r, secret, limit_bytes), methods=[r.method])
        for r in routes
    ]
    handlers = {404: _not_found, 405: _not_found}
    return Starlette(routes=[*plain, *served], lifespan=lifespan, exception_handlers=handlers)


def _endpoint(
    route: Route, secret: str, limit_bytes: int
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        started = time.perf_counter()
        response = await _answer(route, request, secret, limit_bytes)
        CALLS.labels(route.path, route.method, str(response.status_code)).inc()
        CALL_TIME.labels(route.path).observe(time.perf_counter() - started)
        return response

    return endpoint


async def _answer(route: Route, request: Request, secret: str, limit_bytes: int) -> Response:
    try:
        identity = NOBODY
        if route.scopes is not None:
            token = bearer(request.headers.get("authorization")) or request.query_params.get(
                "token"
            )
            identity = verify(secret, token)
            identity.require(*route.scopes)
        answer = await route.handler(Call(request, identity, limit_bytes))
    except TocsinError as error:
        return error_response(error)
    except Exception:
        log.exception("a call failed", path=route.path, method=route.method)
        return error_response(TocsinError("an internal error; the service's log has the details"))
    return answer if isinstance(answer, Response) else json_response(answer, route.status)


NOBODY = Identity(subject="", scopes=frozenset(), expires_at=0.0)


async def _not_found(request: Request, _: Exception) -> Response:
    return error_response(
        NotFound(f"no route {request.method} {request.url.path}", hint="GET /docs lists them")
    )


def json_response(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status_code=status, media_type="application/json")


def health(state: str, status: int = 200) -> Response:
    return json_response({"status": state, "instance": os.environ.get(INSTANCE)}, status)


def error_response(error: TocsinError) -> Response:
    return json_response({"error": error.as_dict()}, error.status)


def sse_event(event: str, data: bytes, event_id: str | None = None) -> bytes:
    """One server-sent event. `data` must not contain a newline (compact JSON does not)."""
    head = f"event: {event}\n" + (f"id: {event_id}\n" if event_id else "")
    return head.encode() + b"data: " + data + b"\n\n"
