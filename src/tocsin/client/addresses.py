"""Addresses of services that stand in for each other, and the one of them that serves.

Of several clusters one leads, and the others are standbys; any of several coordinators answers.
Calls go to the address that answered last. Who does not answer there, says that another leads, or
cannot do its work, is left for the next address. A call that stays without an answer is not waited
for as soon as another one serves: a process that is frozen, or cut off, does not say so.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from random import Random

import httpx
import msgspec

from tocsin.errors import InvalidInput, NotLeading, Standby, TocsinError
from tocsin.protocol.failure import read_error
from tocsin.protocol.health import Health

TAKEOVER_S = 30.0
"""So long callers who may repeat what they ask for wait until somebody serves: a takeover lasts the
length of a lease, and some seconds."""
TAKEOVER_PAUSE_S = 0.5  # at most, between two tries
SILENT_S = 0.5  # without an answer for so long, the others are asked whether they serve
PASSING = frozenset(
    (502, 503, 504)
)  # the service, or what stands before it, cannot answer just now

Send = Callable[[str], Awaitable[httpx.Response]]
"""Make one call at an address."""


class Addresses:
    def __init__(self, given: str, field: str = "address", spread: Random | None = None) -> None:
        """`given`: separated by commas. `spread`: callers begin anywhere, so that they are not all
        at the first of several that serve alike, as gateways do."""
        self.all = tuple(_checked(part.strip(), field) for part in given.split(","))
        self._at = 0 if spread is None else spread.randrange(len(self.all))

    def __str__(self) -> str:
        return ", ".join(self.all)

    @property
    def current(self) -> str:
        return self.all[self._at]

    @property
    def several(self) -> bool:
        return len(self.all) > 1

    def leave(self, address: str) -> None:
        """It does not serve: the next one may."""
        if address == self.current:
            self._at = (self._at + 1) % len(self.all)

    async def ask(self, http: httpx.AsyncClient, send: Send) -> httpx.Response:
        """One call at the current address, which is left if it does not serve."""
        address = self.current
        if not self.several:
            return await send(address)
        try:
            response = await self._heard(http, send, address)
        except httpx.HTTPError:
            self.leave(address)
            raise
        if response.status_code in PASSING:
            self.leave(address)
        return response

    async def serving(self, http: httpx.AsyncClient) -> str | None:
        """The one that serves, for a call that lasts; None: of several none does now."""
        if not self.several or await serves(http, self.current):
            return self.current
        return await self._another(http, self.current)

    async def _heard(self, http: httpx.AsyncClient, send: Send, address: str) -> httpx.Response:
        call = asyncio.ensure_future(send(address))
        try:
            while not (await asyncio.wait({call}, timeout=SILENT_S))[0]:
                holds, other = await asyncio.gather(
                    _holds(http, address), self._other(http, address)
                )
                if other is not None and not holds:
                    self._at = self.all.index(other)
                    raise httpx.ReadTimeout(f"it is silent, and {other} serves")
            return call.result()
        finally:
            call.cancel()

    async def _another(self, http: httpx.AsyncClient, silent: str) -> str | None:
        """One that serves, which is the current one from now on."""
        other = await self._other(http, silent)
        if other is not None:
            self._at = self.all.index(other)
        return other

    async def _other(self, http: httpx.AsyncClient, silent: str) -> str | None:
        others = [address for address in self.all if address != silent]
        answers = await asyncio.gather(*(serves(http, address) for address in others))
        for address, does in zip(others, answers, strict=True):
            if does:
                return address
        return None


def leads_nowhere(response: httpx.Response) -> bool:
    """Whether a cluster answered that it does not lead."""
    if response.status_code not in PASSING:
        return False
    return isinstance(read_error(response.content), NotLeading | Standby)


async def serves(http: httpx.AsyncClient, address: str) -> bool:
    """Whether who is there does its work: a cluster leads, others are well."""
    well, leads = await _health(http, address)
    return well if leads is None else leads


async def _holds(http: httpx.AsyncClient, address: str) -> bool:
    """Whether who is there is well, and takes its time: a gateway holds what comes while nobody
    leads, and no other one has an answer sooner. Of clusters it counts who leads, alone."""
    well, leads = await _health(http, address)
    return well and leads is None


async def _health(http: httpx.AsyncClient, address: str) -> tuple[bool, bool | None]:
    """Whether who is there says that it is well; of a cluster, whether it leads."""
    with contextlib.suppress(httpx.HTTPError, msgspec.DecodeError, TocsinError, TimeoutError):
        async with asyncio.timeout(SILENT_S):
            answer = await http.get(f"{address}/healthz")
        return answer.is_success, msgspec.json.decode(answer.content, type=Health).leads
    return False, None


def _checked(address: str, field: str) -> str:
    try:
        known = httpx.URL(address)
    except httpx.InvalidURL:
        known = httpx.URL()
    if known.scheme not in ("http", "https") or not known.host:
        raise InvalidInput(
            f"{address!r} is not the address of a service",
            field=field,
            hint="such as http://127.0.0.1:7400; several are separated by commas",
        )
    return address.rstrip("/")
