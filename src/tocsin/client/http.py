"""Calls to services over HTTP: tokens on, typed errors out, retries where they are safe."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random
from typing import Any, TypeVar

import httpx
import msgspec

from tocsin.backoff import Backoff
from tocsin.client.addresses import PASSING, TAKEOVER_PAUSE_S, TAKEOVER_S, Addresses
from tocsin.client.transport import HttpClient, distrust
from tocsin.errors import (
    QuotaExceeded,
    Standby,
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
    """One service's base URL, or those of several that stand in for each other, with the caller's
    token."""

    def __init__(
        self,
        url: str,
        token: Token | None,
        timeout_s: float = 30.0,
        authority: str = "",
        spread: Random | None = None,
    ) -> None:
        self._addresses = Addresses(url, spread=spread)
        self._token = token
        self._client: httpx.AsyncClient = HttpClient(timeout=timeout_s, authority=authority)

    @property
    def url(self) -> str:
        """Where calls go now."""
        return self._addresses.current

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
        While one cluster takes another's place, all that may be sent again is, for some seconds.
        `content` may be a function that gives the body anew, for each attempt.
        """
        content = options.pop("content", None)
        headers = {"authorization": f"Bearer {current(self._token)}"} | options.pop("headers", {})

        async def once() -> T:
            address = self.url

            async def send(at: str) -> httpx.Response:
                body = content() if callable(content) else content
                return await self._client.request(
                    method, at + path, headers=headers, content=body, **options
                )

            try:
                response = await self._addresses.ask(self._client, send)
            except httpx.HTTPError as lost:
                raise _Lost(address, lost, sent=not isinstance(lost, NOT_SENT)) from lost
            if response.is_success:
                return self._decoded(response, kind)
            if response.status_code in also and failure.read_error(response.content) is None:
                return self._decoded(response, kind)
            raise error_of(response)

        counted = not repeatable or "idempotency-key" in headers
        tries = _Tries(attempts, repeatable, counted, len(self._addresses.all))
        return await tries.make(once)

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
        address = self.url
        try:
            async with self._client.stream("GET", address + path, headers=headers) as response:
                if not response.is_success:
                    await response.aread()
                    raise error_of(response)
                async for piece in response.aiter_raw():
                    yield piece
        except httpx.HTTPError as lost:
            self._addresses.leave(address)
            raise _Lost(address, lost, sent=True).error from lost


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


class _Tries:
    """At one call. `counted`: to have done it twice is not the same as once, so that doubt is told.
    Where there are several `addresses`, one that is to serve may take some seconds."""

    def __init__(self, attempts: int, repeatable: bool, counted: bool, addresses: int) -> None:
        self._left = max(attempts, addresses)
        self._patient = attempts > 1
        self._repeatable = repeatable
        self._counted = counted
        self._several = addresses > 1
        self._waits_until: float | None = None  # for somebody who serves
        self._backoff = Backoff(Random())
        self._in_doubt = False

    async def make(self, once: Callable[[], Awaitable[T]]) -> T:
        while True:
            pause_s = self._backoff.next_s()
            try:
                return await once()
            except QuotaExceeded as error:
                failure: TocsinError = error
                room_in_s = error.retry_after_s
                again = self._repeatable and room_in_s is not None and room_in_s <= MOST_PATIENCE_S
                pause_s += room_in_s or 0
            except Unavailable as error:
                failure, again = error, self._repeatable or isinstance(error, Standby)
                self._in_doubt = self._in_doubt or isinstance(error, Unconfirmed)
            except _Lost as lost:
                failure = lost.error
                again = self._repeatable or not lost.sent
                again = again and not isinstance(failure, Untrusted)
                self._in_doubt = self._in_doubt or (self._counted and lost.sent)
            if not again or not self._goes_on(failure):
                raise Unconfirmed.after(failure) if self._in_doubt else failure
            most_s = pause_s if self._waits_until is None else TAKEOVER_PAUSE_S
            await asyncio.sleep(min(pause_s, most_s))

    def _goes_on(self, failure: TocsinError) -> bool:
        """Whether another try is made."""
        takes_over = self._several or isinstance(failure, Standby)
        if self._patient and takes_over and not isinstance(failure, QuotaExceeded):
            now = time.monotonic()
            if self._waits_until is None:
                self._waits_until = now + TAKEOVER_S
            return now < self._waits_until
        self._left -= 1
        return self._left > 0
