"""The cluster's calls by which an administrator revokes, and brokers hear of it."""

from __future__ import annotations

import asyncio

import structlog

from tocsin.protocol.keys import RevocationChange, Revoked
from tocsin.service.keys.revocations import Revocations
from tocsin.service.web import Call, Route

log = structlog.get_logger()


class RevocationCalls:
    def __init__(self, revocations: Revocations) -> None:
        self._revocations = revocations
        self._changing = asyncio.Lock()

    async def show(self, _: Call) -> Revoked:
        return self._revocations.all

    async def change(self, call: Call) -> Revoked:
        change: RevocationChange = await call.body(RevocationChange)
        async with self._changing:
            await asyncio.to_thread(self._revocations.write, change)
            self._revocations.poll()
        log.info("revocations were changed", by=call.identity.subject)
        return self._revocations.all


def revocation_routes(calls: RevocationCalls) -> list[Route]:
    path, about = "/v1/revocations", "whose tokens are no longer taken"
    return [
        Route("GET", path, calls.show, ("admin", "broker"), about, answers=Revoked),
        Route(
            "POST",
            path,
            calls.change,
            ("admin",),
            "revoke keys, subjects or single tokens, or take them again",
            RevocationChange,
            Revoked,
        ),
    ]
