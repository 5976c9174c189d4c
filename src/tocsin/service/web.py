"""Routes as data: each says who may call it, what it takes and what it answers.

From the same list come the Starlette application, the scope check, body limits, typed decoding,
error answers, metrics and the OpenAPI description, so that none of them can disagree.
"""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cache, partial
from typing import Any, TypeVar

import msgspec
import structlog
from msgspec import Struct
from prometheus_client import CONTENT_TYPE_LATEST, Counter, Histogram, generate_latest
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tocsin import durable
from tocsin.errors import InvalidInput, NotFound, TocsinError, TooLarge, field_named
from tocsin.protocol import numbers
from tocsin.protocol.failure import error_body
from tocsin.protocol.health import Health
from tocsin.protocol.nesting import MOST_DEPTH, too_deep
from tocsin.protocol.version import HEADER, PARAMETER, check_peer, version_header
from tocsin.service.exposure import EVERYTHING_HERE, Exposure
from tocsin.service.http_protocol import KNOWN
from tocsin.service.keys.verifier import TokenVerifier
from tocsin.service.lingering import Linger
from tocsin.service.openapi import TOKEN_PARAMETER, Media, describe, page
from tocsin.service.patience import Patience
from tocsin.service.tokens import Identity, bearer

log = structlog.get_logger()

CALLS = Counter("tocsin_http_requests_total", "Answered HTTP calls", ["path", "method", "status"])
CALL_TIME = Histogram("tocsin_http_seconds", "Time to answer an HTTP call", ["path"])

MODEST_BYTES = 1024 * 1024  # a body that says what somebody wants

Q = TypeVar("Q", bound=Struct)

INSTANCE = "SERVICE_INSTANCE"
"""In a service's environment: what its starter knows it by, told by /healthz. Whoever else answers
on its port is not the one that was started."""


class Call:
    """One HTTP call, checked and decoded."""

    def __init__(
        self,
        route: Route,
        request: Request,
        identity: Identity,
        limit_bytes: int,
        verifier: TokenVerifier,
    ) -> None:
        self.request = request
        self.identity = identity
        self.verifier = verifier  # of tokens that come with the call beside the caller's own
        self._route = route
        self._limit_bytes = limit_bytes

    @property
    def path(self) -> dict[str, Any]:
        return self.request.path_params

    @property
    def token(self) -> str | None:
        return token_of(self.request, self._route)

    def query(self, kind: type[Q]) -> Q:
        """The query parameters, as the route declares them; a wrong one is the caller's mistake, by
        name."""
        assert kind is self._route.query, "a route declares the parameters that it reads"
        given = self.request.query_params
        texts: dict[str, Any] = {
            name: given[name] for name in kind.__struct_fields__ if name in given
        }
        texts |= {name: given.getlist(name) for name in _repeatable(kind)}
        try:
            return msgspec.convert(texts, kind, strict=False)
        except msgspec.ValidationError as error:
            name, reason = field_named(error), str(error).partition(" - at ")[0]
            raise InvalidInput(f"query parameter {name}: {reason}", field=name) from None

    async def bytes(self, taking: Callable[[int], None] | None = None) -> bytes:
        """The whole body, refused as soon as it is known to be too large. `taking` is told how much
        there is to hold before it is held, and may refuse it as well."""
        known = self.check_announced()
        if taking is not None and known:
            taking(known)
        parts, size = [], 0
        async for part in self.request.stream():
            size += len(part)
            if size > self._limit_bytes:
                raise self._too_large()
            if taking is not None and not known:
                taking(len(part))
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    @property
    def limit_bytes(self) -> int:
        return self._limit_bytes

    @property
    def announced_bytes(self) -> int | None:
        """How long the body is said to be."""
        announced = self.request.headers.get("content-length", "")
        return int(announced) if announced.isdigit() else None

    def check_announced(self) -> int:
        """How long the body is said to be, or 0. One that is too large is refused before any of it
        is read."""
        size_bytes = self.announced_bytes or 0
        if size_bytes > self._limit_bytes:
            raise self._too_large()
        return size_bytes

    def known(self) -> None:
        """The caller has shown who they are: their connection is no stranger's any more."""
        _mark_known(self.request)

    async def body(self, kind: type[Any]) -> Any:
        """The body decoded as `kind`."""
        return decoded(await self.bytes(), kind)

    def _too_large(self) -> TooLarge:
        raisable = self._route.limit_bytes is None
        return TooLarge(
            f"the body is larger than {self._limit_bytes} bytes",
            field="body",
            hint="send it in several parts" + (", or raise body_limit_bytes" if raisable else ""),
        )


def decoded(body: bytes, kind: Any) -> Any:
    """A body as `kind`; what does not fit is the caller's mistake, by name."""
    if too_deep(body):
        raise InvalidInput(
            f"the body nests deeper than {MOST_DEPTH} levels", field="body", hint="flatten it"
        )
    try:
        return numbers.decode_as(body, kind)
    except msgspec.ValidationError as error:
        reason = f"the body does not fit: {error}"
        raise InvalidInput(reason, field=field_named(error)) from None
    except msgspec.DecodeError as error:
        raise InvalidInput(f"the body is not JSON: {error}") from None


def _nothing() -> None:
    """A call that came over no connection of ours."""


Handler = Callable[[Call], Awaitable[Any]]


@cache
def _repeatable(query: type[Struct]) -> tuple[str, ...]:
    """Parameters that may be given several times."""
    return tuple(
        field.name for field in msgspec.structs.fields(query) if isinstance(field.default, tuple)
    )


class Route(Struct, frozen=True):
    """A route. `scopes`: any of them suffices; empty: any valid token; None: no token at all.
    What is taken and answered is a record of the protocol, or a `Media`; `query` is the record of
    its query parameters. `also` are further statuses that are no errors; `errors` are kinds that
    not every route may answer with. `limit_bytes`: the largest body; None: the service's limit, for
    what people publish. A route that is `unchecked` answers whoever asks, whatever version they
    speak, and is not counted. `token_in_query`: a browser that calls it can set no header;
    everywhere else a token in the address is refused, for addresses are written down. What is not
    `described` passes calls on, and is described where they go."""

    method: str
    path: str
    handler: Handler
    scopes: tuple[str, ...] | None
    summary: str
    takes: Any = None
    answers: Any = None
    status: int = 200
    also: Mapping[int, Any] = {}
    errors: tuple[type[TocsinError], ...] = ()
    query: type[Struct] | None = None
    unchecked: bool = False
    limit_bytes: int | None = MODEST_BYTES
    token_in_query: bool = False
    described: bool = True


def application(
    title: str,
    routes: Sequence[Route],
    *,
    verifier: TokenVerifier,
    limit_bytes: int,
    lifespan: Callable[[Starlette], AbstractAsyncContextManager[None]] | None = None,
    trouble: Callable[[], str | None] = lambda: None,
    leads: Callable[[], bool | None] = lambda: None,
    exposure: Exposure = EVERYTHING_HERE,
    inner: bool = False,
) -> Starlette:
    """The service: its routes, and beside them /metrics, /healthz, /openapi.json and /docs.
    `trouble` says why it does not do its work, if it does not; `leads`, of a cluster, whether it
    has its store. `inner`: what `exposure` has at the inner address alone, instead."""
    handlers = {404: _not_found, 405: _not_found}
    return Starlette(
        routes=[
            StarletteRoute(
                route.path,
                _endpoint(route, verifier, _limit_of(route, limit_bytes)),
                methods=[route.method],
            )
            for route in exposure.chosen(
                _OwnCalls(title, routes, trouble, leads, exposure).routes, inner=inner
            )
        ],
        lifespan=lifespan,
        exception_handlers=handlers,
        middleware=[
            Middleware(TellVersion),
            *exposure.middleware(),
            Middleware(Linger),
            Middleware(Patience),
        ],
    )


def _limit_of(route: Route, limit_bytes: int) -> int:
    return limit_bytes if route.limit_bytes is None else min(route.limit_bytes, limit_bytes)


class _OwnCalls:
    """What every service answers about itself. `routes` are all of the service, these included."""

    def __init__(
        self,
        title: str,
        routes: Sequence[Route],
        trouble: Callable[[], str | None],
        leads: Callable[[], bool | None],
        exposure: Exposure,
    ) -> None:
        self._trouble = trouble
        self._leads = leads
        open_route = partial(Route, "GET", scopes=None, unchecked=True)
        self.routes = [
            open_route(
                "/metrics", self.metrics, summary="Prometheus metrics", answers=Media("text/plain")
            ),
            open_route(
                "/healthz",
                self.health,
                summary="Whether the service does its work",
                answers=Health,
                also={503: Health},
            ),
            open_route(
                "/openapi.json", self.openapi, summary="This description", answers=dict[str, Any]
            ),
            open_route("/docs", self.docs, summary="The same to read", answers=Media("text/html")),
            *routes,
        ]
        self.routes = exposure.scoped(self.routes)
        described = [route for route in self.routes if route.described]
        self._description = msgspec.json.encode(describe(title, described))
        self._page = page(title, described)

    async def metrics(self, _: Call) -> Response:
        return Response(generate_latest(), media_type=CONTENT_TYPE_LATEST)

    async def health(self, _: Call) -> Response:
        why = self._trouble()
        leads = self._leads()
        return health("ok", leads=leads) if why is None else health(why, 503, leads=leads)

    async def openapi(self, _: Call) -> Response:
        return Response(self._description, media_type="application/json")

    async def docs(self, _: Call) -> Response:
        return HTMLResponse(self._page)


def _endpoint(
    route: Route, verifier: TokenVerifier, limit_bytes: int
) -> Callable[[Request], Awaitable[Response]]:
    async def unchecked(request: Request) -> Response:
        try:
            identity = await _identity(route, request, verifier)
        except TocsinError as error:
            return error_response(error)
        response: Response = await route.handler(
            Call(route, request, identity, limit_bytes, verifier)
        )
        return response

    async def endpoint(request: Request) -> Response:
        started = time.perf_counter()
        response = await _answer(route, request, verifier, limit_bytes)
        CALLS.labels(route.path, route.method, str(response.status_code)).inc()
        CALL_TIME.labels(route.path).observe(time.perf_counter() - started)
        return response

    return unchecked if route.unchecked else endpoint


async def _answer(
    route: Route, request: Request, verifier: TokenVerifier, limit_bytes: int
) -> Response:
    try:
        identity = await _identity(route, request, verifier)
        check_peer(_version(request), _caller(identity), "this service")
        answer = await route.handler(Call(route, request, identity, limit_bytes, verifier))
    except TocsinError as error:
        return error_response(error)
    except Exception as error:
        if isinstance(error, OSError) and error.errno in durable.FULL:
            log.error("a disk is full", path=route.path, reason=str(error))
            return error_response(durable.not_written("what was asked for", error))
        log.exception("a call failed", path=route.path, method=route.method)
        return error_response(TocsinError("an internal error; the service's log has the details"))
    return answer if isinstance(answer, Response) else json_response(answer, route.status)


async def _identity(route: Route, request: Request, verifier: TokenVerifier) -> Identity:
    """Who calls, if the route asks for a token at all."""
    if route.scopes is None:
        return NOBODY
    identity = await verifier.identify(token_of(request, route))
    _mark_known(request)
    identity.require(*route.scopes)
    return identity


def _mark_known(request: Request) -> None:
    request.scope.get("extensions", {}).get(KNOWN, _nothing)()


def token_of(request: Request, route: Route) -> str | None:
    given = bearer(request.headers.get("authorization"))
    if TOKEN_PARAMETER not in request.query_params:
        return given
    if not route.token_in_query:
        raise token_in_address()
    return given or request.query_params[TOKEN_PARAMETER]


def token_in_address() -> InvalidInput:
    return InvalidInput(
        "a token is not taken in the address here",
        field=TOKEN_PARAMETER,
        hint="send the header Authorization: Bearer TOKEN",
    )


def _version(request: Request) -> str | None:
    return request.headers.get(HEADER) or request.query_params.get(PARAMETER)


def _caller(identity: Identity) -> str:
    return f"broker {identity.subject}" if "broker" in identity.scopes else "the caller"


class TellVersion:
    """Every answer says which version of the protocol the service speaks."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def tell(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(version_header())
            await send(message)

        await self._app(scope, receive, tell)


NOBODY = Identity(subject="", scopes=frozenset(), expires_at=0.0)


async def _not_found(request: Request, _: Exception) -> Response:
    return error_response(
        NotFound(f"no route {request.method} {request.url.path}", hint="GET /docs lists them")
    )


def json_response(value: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(value), status_code=status, media_type="application/json")


def health(state: str, status: int = 200, *, leads: bool | None = None) -> Response:
    return json_response(Health(state, os.environ.get(INSTANCE), leads), status)


def error_response(error: TocsinError) -> Response:
    headers = None
    if error.retry_after_s is not None:
        headers = {"retry-after": str(error.retry_after_s)}
    return Response(error_body(error), error.status, headers, media_type="application/json")


def sse_event(event: str, data: bytes, event_id: str | None = None) -> bytes:
    """One server-sent event. `data` must not contain a newline (compact JSON does not)."""
    head = f"event: {event}\n" + (f"id: {event_id}\n" if event_id else "")
    return head.encode() + b"data: " + data + b"\n\n"
