"""Run services in one event loop until a signal asks them to stop, gracefully."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
import socket
from collections.abc import AsyncIterator

import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tocsin.errors import SettingError
from tocsin.service.redaction import UVICORN

GRACE_S = 5
ABORT = "tocsin.abort"  # an extension in a request's scope: cut the connection, now


def listen(host: str, port: int, setting: str = "port") -> socket.socket:
    """A listening socket; port 0 takes a free one. A taken port is the user's to solve, with the
    `setting` that chose it."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except (OSError, OverflowError) as error:
        listener.close()
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            raise taken(port, setting) from None
        reason = getattr(error, "strerror", None) or str(error)
        hint = f"choose another with --set {setting}=… or --set host=…"
        raise SettingError(
            f"cannot listen on {host}:{port}: {reason}", field=setting, hint=hint
        ) from None
    listener.listen(2048)
    listener.setblocking(False)
    return listener


def taken(port: int, setting: str, by: str = "another program") -> SettingError:
    return SettingError(
        f"port {port} is taken by {by}",
        field=setting,
        hint=f"stop that one, or choose another port: --set {setting}=…",
    )


def port_of(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


class _Protocol(HttpToolsProtocol):
    """Lets a response cut its connection. Closing would wait until the client has read the rest,
    and one that does not read would keep its connection for ever."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {ABORT: self.transport.abort}  # type: ignore[dict-item]


class _Server(uvicorn.Server):
    """Uvicorn without its own signal handlers: the process has one place that decides to stop."""

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        yield


@contextlib.asynccontextmanager
async def serving(app: Starlette, listener: socket.socket) -> AsyncIterator[None]:
    """Serve `app` while the block runs; open calls get a moment to finish after it."""
    config = uvicorn.Config(
        app,
        http=_Protocol,
        log_config=UVICORN,
        log_level="warning",
        access_log=False,
        proxy_headers=False,  # nobody asks who is behind a proxy
        timeout_graceful_shutdown=GRACE_S,
        lifespan="on",
    )
    server = _Server(config)
    task = asyncio.create_task(server.serve(sockets=[listener]))
    while not server.started and not task.done():  # noqa: ASYNC110 (uvicorn gives no event)
        await asyncio.sleep(0.005)
    if task.done():
        task.result()
        raise RuntimeError("the service did not start")
    try:
        yield
    finally:
        server.should_exit = True
        await task


async def until_stopped() -> None:
    """Wait for SIGINT or SIGTERM."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await stop.wait()
