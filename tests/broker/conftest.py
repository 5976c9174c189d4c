"""A world of real brokers around a fake cluster, on the loop that brokers run on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
import uvloop

from broker.world import World, world


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that brokers run on."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(name="world")
async def _world() -> AsyncIterator[World]:
    async with world() as made:
        yield made
