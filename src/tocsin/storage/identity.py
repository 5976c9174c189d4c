"""One identity binds a store, a data directory, a log and a folder of attachments: the store's id.

It is written down, as a `Mark`, in each of them when a cluster first uses it. Whatever bears the
mark of another store is refused, so that nobody's files are taken for strays of somebody else.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tocsin import durable
from tocsin.errors import SettingError

NAME = "identity"


class Mark(msgspec.Struct, frozen=True):
    """Whose something is. `store` and `since` are for people."""

    id: str
    store: str = ""  # its address, without secrets
    since: str = ""
    # Of a folder that had content before it was marked: nobody knows whose that is, up to this
    # time of the folder's own clock, so that it is never deleted.
    kept_until: float = 0.0

    def __str__(self) -> str:
        return f"{self.store or 'a store'} (identity {self.id[:8]})"

    def now(self, *, kept_until: float = 0.0) -> Mark:
        """To be left somewhere now."""
        since = datetime.now(UTC).isoformat(timespec="seconds")
        return msgspec.structs.replace(self, since=since, kept_until=kept_until)

    def encode(self) -> bytes:
        return msgspec.json.encode(self) + b"\n"

    @classmethod
    def decode(cls, raw: bytes) -> Mark:
        """Topics were marked by the id alone once."""
        try:
            return msgspec.json.decode(raw, type=cls)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return cls(raw.decode(errors="replace").strip())


def belongs_to_another(what: str, ours: Mark, theirs: Mark, field: str) -> SettingError:
    since = f" since {theirs.since}" if theirs.since else ""
    return SettingError(
        f"{what} belongs to {theirs}{since}, and this cluster's store is {ours}",
        field=field,
        hint="start with the store that it belongs to, or give each store one of its own",
    )


def read_mark(directory: Path) -> Mark | None:
    try:
        return Mark.decode((directory / NAME).read_bytes())
    except FileNotFoundError:
        return None


def write_mark(directory: Path, mark: Mark) -> None:
    """Durable, whole or not at all."""
    durable.write(directory / NAME, mark.encode())
