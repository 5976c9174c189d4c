"""Where the bytes of attachments lie: a directory, or an object store."""

from __future__ import annotations

from pathlib import Path

from tocsin.errors import SettingError
from tocsin.settings import without_secrets
from tocsin.storage.content.directory import DirectoryMedium
from tocsin.storage.content.port import Kept, Medium
from tocsin.storage.content.remote import RemoteMedium
from tocsin.storage.content.store import ContentStore, Incoming, unknown

__all__ = ["ContentStore", "Incoming", "Kept", "open_content", "unknown"]

FIELD = "attachments"
_REMEDY = "pip install tocsin[s3]"


def open_content(address: str, data: Path) -> ContentStore:
    """By the setting `attachments`: empty, a directory, or an address such as s3://bucket/folder.
    What is on its way to an object store waits in the data directory."""
    return ContentStore(_medium(address, data))


def _medium(address: str, data: Path) -> Medium:
    if "://" not in address:
        root = Path(address).absolute() if address else data / "attachments"
        try:
            root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SettingError(
                f"cannot keep attachments in {root}: {error.strerror}", field=FIELD
            ) from None
        return DirectoryMedium(root)
    shown = without_secrets(address)
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise SettingError(
            f"attachments at {shown} need fsspec, which is not installed",
            field=FIELD,
            hint=_REMEDY,
        ) from None
    try:
        files, root_path = url_to_fs(address)
    except ImportError as error:  # the package for this kind of address, s3fs for s3://
        raise SettingError(f"attachments at {shown}: {error}", field=FIELD, hint=_REMEDY) from None
    except ValueError as error:
        raise SettingError(f"attachments at {shown}: {error}", field=FIELD) from None
    return RemoteMedium(files, root_path, data / "attachments" / "incoming")
