"""Where the bytes of attachments lie: a directory, or an object store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tocsin import durable
from tocsin.errors import SettingError
from tocsin.storage.content.claim import Claim
from tocsin.storage.content.directory import DirectoryMedium
from tocsin.storage.content.opening import FIELD, open_remote
from tocsin.storage.content.port import Kept, Medium
from tocsin.storage.content.store import ContentStore, Incoming, unknown
from tocsin.storage.identity import Mark

__all__ = ["ContentStore", "Incoming", "Kept", "open_content", "open_medium", "unknown"]


def open_content(
    address: str,
    data: Path,
    *,
    owner: Mark | None = None,
    expected: bool = True,
    require: Callable[[], None] = lambda: None,
) -> ContentStore:
    """By the setting `attachments`: empty, a directory, or an address such as s3://bucket/folder.
    What is on its way to an object store waits in the data directory. With an `owner`, a folder
    that is somebody else's is refused; what it holds is `expected` to be the owner's or not.
    `require` raises Unavailable while nothing may be deleted, since another may be the owner's."""
    medium = open_medium(address, data)
    if owner is None:
        return ContentStore(medium)
    return ContentStore(medium, Claim(medium, owner, expected=expected, require=require))


def open_medium(address: str, data: Path) -> Medium:
    """The same, for whoever looks at what is there: nobody's, and nothing is deleted."""
    if "://" in address:
        return open_remote(address, data / "attachments" / "incoming")
    root = Path(address).absolute() if address else data / "attachments"
    try:
        durable.make_directory(root)
    except OSError as error:
        raise SettingError(
            f"cannot keep attachments in {root}: {error.strerror}", field=FIELD
        ) from None
    return DirectoryMedium(root)
