"""Lets these tests import the packages beside them (broker, contracts), and offers a world."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import uvloop

_TESTS = str(Path(__file__).parents[1])
if _TESTS not in sys.path:
    sys.path.insert(0, _TESTS)

from broker.world import World, world  # noqa: E402


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop that brokers run on."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(name="world")
async def _world() -> AsyncIterator[World]:
    async with world() as made:
        yield made
