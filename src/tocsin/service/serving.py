"""Run services in one event loop until a signal asks them to stop, gracefully."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import uvicorn
from starlette.applications import Starlette

from tocsin.errors import SettingError
from tocsin.service.connections import KEEP_ALIVE_S, Connection, ConnectionLimits, Connections
from tocsin.service.http_protocol import ABORT as ABORT
from tocsin.service.http_protocol import Protocol
from tocsin.service.listener import Listener
from tocsin.service.redaction import UVICORN
from tocsin.service.tls import HANDSHAKE_S
from tocsin.settings import Settings

GRACE_S = 5
BACKLOG = 2048


def listen(
    host: str, port: int, setting: str = "port", connections: Connections | None = None
) -> Listener:
    """A listening socket; port 0 takes a free one. A taken port is the user's to solve, with the
    `setting` that chose it. Several listeners of a service share its `connections`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = Listener(family, socket.SOCK_STREAM)
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
    listener.listen(BACKLOG)
    listener.setblocking(False)
    if connections is None:
        connections = Connections(ConnectionLimits.of(Settings()))
    return listener.serve_into(connections)


def taken(port: int, setting: str, by: str = "another program") -> SettingError:
    return SettingError(
        f"port {port} is taken by {by}",
        field=setting,
        hint=f"stop that one, or choose another port: --set {setting}=…",
    )


def port_of(listener: socket.socket) -> int:
    return int(listener.getsockname()[1])


class _Acceptor:
    """Takes connections as the listener lets them in; for uvicorn, a server."""

    def __init__(
        self,
        listener: Listener,
        protocol: Callable[[Connection], asyncio.Protocol],
        tls: ssl.SSLContext | None,
    ) -> None:
        self._listener = listener
        self._protocol = protocol
        self._tls = tls
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(listener, self._accept)

    def close(self) -> None:
        if self._listener.fileno() >= 0:
            self._loop.remove_reader(self._listener)
            self._listener.close()

    async def wait_closed(self) -> None:
        """Uvicorn waits for the connections itself."""

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError):
                return
            except ConnectionError:  # gone before it was let in
                continue
            task = self._loop.create_task(self._take(connection))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _take(self, connection: Connection) -> None:
        protocol = partial(self._protocol, connection)
        try:
            await self._loop.connect_accepted_socket(
                protocol,
                connection,
                ssl=self._tls,
                ssl_handshake_timeout=None if self._tls is None else HANDSHAKE_S,
            )
        except (OSError, TimeoutError):  # the handshake failed: the peer's affair
            connection.connections.count("handshake")
            connection.close()


class _Server(uvicorn.Server):
    """Uvicorn without its own signal handlers, as the process has one place that decides to stop;
    and with connections accepted here."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])
        given: dict[str, Any] = {
            "config": self.config,
            "server_state": self.server_state,
            "app_state": self.lifespan.state,
        }
        protocol = partial(Protocol, **given)
        listeners = [listener for listener in sockets or () if isinstance(listener, Listener)]
        self.servers = [
            _Acceptor(listener, protocol, self.config.ssl)  # type: ignore[misc]
            for listener in listeners
        ]

    @contextlib.contextmanager
    def capture_signals(self):  # type: ignore[no-untyped-def]
        yield


@contextlib.asynccontextmanager
async def serving(
    app: Starlette, listener: Listener, tls: ssl.SSLContext | None = None
) -> AsyncIterator[None]:
    """Serve `app` while the block runs; open calls get a moment to finish after it."""
    config = uvicorn.Config(
        app,
        http=Protocol,
        timeout_keep_alive=int(KEEP_ALIVE_S),
        log_config=UVICORN,
        log_level="warning",
        access_log=False,
        proxy_headers=False,  # nobody asks who is behind a proxy
        timeout_graceful_shutdown=GRACE_S,
        lifespan="on",
        ssl_context_factory=None if tls is None else lambda *_: tls,
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
