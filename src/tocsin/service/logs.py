"""How services write their logs."""

from __future__ import annotations

import contextlib
import logging
import sys

import structlog

from tocsin.errors import SettingError
from tocsin.service.redaction import redact_library_logs, redacted


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
    redact_library_logs()
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
            sys.stderr.write(redacted(text))

    def flush(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.flush()
