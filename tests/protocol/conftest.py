"""Peers are tested in the brokers' world."""

from broker.conftest import _world, pytest_asyncio_loop_factories

__all__ = ["_world", "pytest_asyncio_loop_factories"]
