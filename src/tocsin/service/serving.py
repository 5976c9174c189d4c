"""Run services in one event loop until a signal asks them to stop, gracefully."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from collections.abc import AsyncIterator

import structlog
import uvicorn
from starlette.applications import Starlette
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tocsin.errors import SettingError

GRACE_S = 5
ABORT = "tocsin.abort"  # an extension in a request's scope: cut the connection, now


def configure_logs(level: str, style: str) -> None:
    """Structured logs on standard error: JSON lines, or readable ones in a terminal."""
    number = logging.getLevelNamesMapping().get(level.upper())
    if number is None:
        raise SettingError(f"no log level is called {level!r}", field="log_level")
    if style not in ("auto", "json", "console"):
        raise SettingError("log_format is json, console or auto", field="log_format")
    console = style == "console" or (style == "auto" and sys.stderr.isatty())
    # A failure is told with its lines, never with what its variables held: they hold secrets.
    renderers: list[structlog.typing.Processor] = (
        [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
        if console
        else [
            structlog.processors.ExceptionRenderer(
                structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
            ),
            structlog.processors.JSONRenderer(),
        ]
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso"),
            *renderers,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(_StandardError()),  # type: ignore[arg-type]
    )


class _StandardError:
    """Standard error as it is at the moment. Where it is closed or its reader has gone, lines are
    lost: a service does not fail because nobody listens to it."""

    def write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. A taken port is the user's to solve."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise SettingError(
            f"cannot listen on {host}:{port}: {reason}", field="port", hint="choose another"
        ) from None
    listener.listen(2048)
    listener.setblocking(False)
    return listener


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
