"""No line that is logged holds a token, wherever it came from: an address, a header, a failure.

Applied to whole lines as they leave the process, so that no place which logs has to think of it.
"""

from __future__ import annotations

import logging
import re

_TOKEN = re.compile(
    r"""eyJ[\w-]+(?:\.[\w-]*)*      # a JSON Web Token, or the begin of one
    |(?<=\btoken=)[^&\s"'\\#;]+    # whatever stands where an address has one
    |(?<=[Bb]earer\ )[^\s"',\\]+  # … or a header
    """,
    re.VERBOSE,
)


def redacted(line: str) -> str:
    return _TOKEN.sub("***", line)


class RedactingFormatter(logging.Formatter):
    """For handlers of Python's own logging: libraries write there."""

    def format(self, record: logging.LogRecord) -> str:
        return redacted(super().format(record))


def redact_library_logs() -> None:
    """Also what libraries log where nobody configured a handler."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(RedactingFormatter())


UVICORN: dict[str, object] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "redacting": {
            "()": RedactingFormatter,
            "fmt": "%(asctime)s %(levelname)s %(message)s",
        }
    },
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": "redacting",
            "stream": "ext://sys.stderr",
        }
    },
    "loggers": {"uvicorn": {"handlers": ["stderr"], "level": "WARNING", "propagate": False}},
}
"""Of uvicorn's own loggers."""
