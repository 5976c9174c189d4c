"""Calls to services over HTTP: tokens on, typed errors out, retries where they are safe."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random
from typing import Any, TypeVar

import httpx
import msgspec

from tocsin.backoff import Backoff
from tocsin.client.transport import HttpClient, distrust
from tocsin.errors import (
    InvalidInput,
    QuotaExceeded,
    TocsinError,
    Unauthenticated,
    Unavailable,
    Unconfirmed,
    Untrusted,
)
from tocsin.protocol import failure, numbers

T = TypeVar("T")
Token = str | Callable[[], str]
"""A token, or a function that gives a fresh one whenever one is needed."""

PASSING = (502, 503, 504)  # the service, or what stands before it, cannot answer just now
MOST_PATIENCE_S = 60  # a quota that has room later than that is told at once
NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


def current(token: Token | None) -> str:
    """The token to use now."""
    text = token() if callable(token) else token
    if not text:
        raise Unauthenticated("this client has no token", hint='give one: Client(…, token="…")')
    return text


def error_of(response: httpx.Response) -> TocsinError:
    """The typed error that a service answered with."""
    error = failure.read_error(response.content)
    if error is not None:
        return error
    kind = Unavailable if response.status_code in PASSING else TocsinError
    return kind(f"{response.request.url} answered {response.status_code} without a reason")


class Http:
    """One service's base URL, with the caller's token."""

    def __init__(
        self, url: str, token: Token | None, timeout_s: float = 30.0, authority: str = ""
    ) -> None:
        self.url = _checked(url).rstrip("/")
        self._token = token
        self._client: httpx.AsyncClient = HttpClient(timeout=timeout_s, authority=authority)

    async def close(self) -> None:
        await self._client.aclose()

    async def call(
        self,
        method: str,
        path: str,
        kind: type[T],
        *,
        repeatable: bool,
        attempts: int = 6,
        also: tuple[int, ...] = (),
        **options: Any,
    ) -> T:
        """The answer as `kind`; `also` are statuses whose bodies may be answers too.

        A call that is not `repeatable` is only sent again if the service certainly did not get it.
        `content` may be a function that gives the body anew, for each attempt.
        """
        content = options.pop("content", None)
        headers = {"authorization": f"Bearer {current(self._token)}"} | options.pop("headers", {})

        async def once() -> T:
            try:
                body = content() if callable(content) else content
                response = await self._client.request(
                    method, self.url + path, headers=headers, content=body, **options
                )
            except httpx.HTTPError as lost:
                raise _Lost(self.url, lost, sent=not isinstance(lost, NOT_SENT)) from lost
            if response.is_success:
                return self._decoded(response, kind)
            if response.status_code in also and failure.read_error(response.content) is None:
                return self._decoded(response, kind)
            raise error_of(response)

        counted = not repeatable or "idempotency-key" in headers
        return await _retried(once, attempts, repeatable, counted)

    def _decoded(self, response: httpx.Response, kind: type[T]) -> T:
        try:
            answer: T = numbers.decode_as(response.content, kind)
            return answer
        except msgspec.DecodeError as error:
            raise TocsinError(
                f"the answer of {response.request.url} was not understood: {error}",
                hint="is that the address of a Tocsin service?",
            ) from None

    async def stream(self, path: str) -> AsyncIterator[bytes]:
        """The bytes of a GET as they come; what breaks in the middle raises."""
        headers = {"authorization": f"Bearer {current(self._token)}"}
        try:
            async with self._client.stream("GET", self.url + path, headers=headers) as response:
                if not response.is_success:
                    await response.aread()
                    raise error_of(response)
                async for piece in response.aiter_raw():
                    yield piece
        except httpx.HTTPError as lost:
            raise _Lost(self.url, lost, sent=True).error from lost


def _checked(url: str) -> str:
    try:
        known = httpx.URL(url)
    except httpx.InvalidURL:
        known = httpx.URL()
    if known.scheme not in ("http", "https") or not known.host:
        raise InvalidInput(
            f"{url!r} is not the address of a service",
            field="address",
            hint="such as http://127.0.0.1:7400",
        )
    return url


class _Lost(Exception):
    """No answer came. Not of the tree of errors: that is what services tell, by code."""

    def __init__(self, url: str, error: Exception, *, sent: bool) -> None:
        reason = str(error) or type(error).__name__
        message = f"no answer from {url}: {reason}"
        super().__init__(message)
        self.error = Unavailable(message, hint="is the service running?")
        untrusted = distrust(error)
        if untrusted is not None:
            self.error = Untrusted(f"no answer from {url}: {untrusted}", field="authority")
        self.sent = sent


async def _retried(
    once: Callable[[], Awaitable[T]], attempts: int, repeatable: bool, counted: bool
) -> T:
    """`counted`: to have done it twice is not the same as once, so that doubt is told."""
    backoff = Backoff(Random())
    in_doubt = False
    failure: TocsinError
    for left in range(attempts - 1, -1, -1):
        pause_s = backoff.next_s()
        try:
            return await once()
        except QuotaExceeded as error:
            failure, room_in_s = error, error.retry_after_s
            again = repeatable and room_in_s is not None and room_in_s <= MOST_PATIENCE_S
            pause_s += room_in_s or 0
        except Unavailable as error:
            failure, again = error, repeatable
            in_doubt = in_doubt or isinstance(error, Unconfirmed)
        except _Lost as lost:
            failure, again = lost.error, repeatable or not lost.sent
            in_doubt = in_doubt or (counted and lost.sent)
            again = again and not isinstance(failure, Untrusted)
        if left == 0 or not again:
            raise Unconfirmed.after(failure) if in_doubt else failure
        await asyncio.sleep(pause_s)
    raise AssertionError("unreachable")
