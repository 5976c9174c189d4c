"""A whole live system, up for as long as it is played on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import uvloop

from tocsin.settings import Settings
from tocsin.system import System


@contextlib.contextmanager
def running(settings: Settings, brokers: int) -> Iterator[tuple[asyncio.Runner, System]]:
    """The system, and the event loop that it is watched in."""
    with contextlib.ExitStack() as until:
        runner = until.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))
        system = System(settings, brokers=brokers)
        until.callback(lambda: runner.run(system.stop()))
        runner.run(system.start())
        yield runner, system
