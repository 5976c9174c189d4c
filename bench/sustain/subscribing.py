"""A running system whose channel has many subscriptions."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from tocsin.client import Client
from tocsin.settings import Settings
from tocsin.storage.store.store import Store
from tocsin.storage.store.subscribing import Wish
from tocsin.system import System

Subscribing = tuple[str, str, dict[str, Any]]
"""A subscriber, a channel and its arguments."""
FEW = 2000  # as statements they are made faster than a system is started again
AT_ONCE = 10_000


@asynccontextmanager
async def subscribed_system(
    settings: Settings, statements: list[str], wanted: list[Subscribing]
) -> AsyncIterator[System]:
    """With what the statements make, and subscriptions by whatever makes them fastest: a few as
    statements, many in the store while nobody has it open. A call that takes many at once would
    take the place of both."""
    if len(wanted) <= FEW:
        async with System(settings) as system:
            await run_sql(system, "bench", *statements)
            await _by_statements(system, wanted)
            yield system
        return
    async with System(settings) as system:
        await run_sql(system, "bench", *statements)
    with Store.open(settings.store or f"sqlite:///{settings.data}/store.db") as store:
        wishes = [Wish(*each) for each in wanted]
        for begin in range(0, len(wishes), AT_ONCE):
            store.subscriptions.subscribe_all(wishes[begin : begin + AT_ONCE])
    async with System(settings) as system:
        yield system


async def run_sql(system: System, subscriber: str, *statements: str) -> None:
    token = system.token(subscriber, "admin", "subscribe")
    async with Client(cluster=system.cluster_url, token=token) as client:
        for statement in statements:
            await client.sql(statement)


async def _by_statements(system: System, wanted: Iterable[Subscribing]) -> None:
    by_subscriber: dict[str, list[str]] = {}
    for subscriber, channel, arguments in wanted:
        given = ", ".join(f"{name} => {_literal(value)}" for name, value in arguments.items())
        statement = f"SUBSCRIBE TO {channel}({given})"
        by_subscriber.setdefault(subscriber, []).append(statement)
    for subscriber, statements in by_subscriber.items():
        await run_sql(system, subscriber, "; ".join(statements))


def _literal(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else json.dumps(value)
