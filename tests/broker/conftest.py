"""Lets these tests import the packages beside them (broker, contracts), and offers a world."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

_TESTS = str(Path(__file__).parents[1])
if _TESTS not in sys.path:
    sys.path.insert(0, _TESTS)

from broker.world import World, world  # noqa: E402


@pytest.fixture(name="world")
async def _world() -> AsyncIterator[World]:
    async with world() as made:
        yield made
