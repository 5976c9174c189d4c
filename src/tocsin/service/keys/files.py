"""Small files that a person or another process changes while services run.

Whoever reads one finds it whole, as it was before a change or after it; whoever watches one learns
of a change by its identity, size and time, and pays for no more than a look at these.
"""

from __future__ import annotations

from pathlib import Path

from tocsin import durable
from tocsin.errors import InvalidInput


class WatchedFile:
    """A file's content, read again when it is another."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: tuple[int, ...] | None = None

    def changed(self) -> bytes | None:
        """What it holds, if that is new since the last call; None: it is not, or it is not there
        (now). Raises OSError if it cannot be read."""
        try:
            state = self.path.stat()
        except FileNotFoundError:
            return None
        seen = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns)
        if seen == self._seen:
            return None
        body = self.path.read_bytes()
        self._seen = seen
        return body


def write_whole(path: Path, text: str, *, mode: int) -> None:
    """Replace a file's content: all of it or nothing, also if the machine stops."""
    try:
        durable.make_directory(path.parent)
        durable.write(path, text.encode(), mode=mode)
    except OSError as error:
        if error.errno in durable.FULL:
            raise durable.not_written(str(path), error) from None
        raise InvalidInput(f"cannot write {path}: {error.strerror}", field="file") from None
