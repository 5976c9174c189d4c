"""Every medium of the content store, for the one contract that all of them keep."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import pytest
from fsspec.implementations.memory import MemoryFileSystem
from s3fs import S3FileSystem

from tocsin.dev.s3 import S3
from tocsin.storage.content import ContentStore, open_content


class Place:
    """A content store, and how to damage what is in it."""

    def __init__(self, store: ContentStore, spoil: Callable[[str, bytes], None]) -> None:
        self.store = store
        self.spoil = spoil

    @property
    def aside(self) -> list[Path]:
        return list(self.store.incoming.iterdir())


class Bucket:
    """An empty bucket of a real server, with a folder for attachments; and somebody else who reads
    and writes there."""

    def __init__(self, server: S3) -> None:
        name, _, options = server.fresh().partition("?")
        self.server = server
        self.address = f"{name}/photos?{options}"
        self.root = f"{name.removeprefix('s3://')}/photos"
        self.other: Any = S3FileSystem(  # one for all tests: its start takes a while
            **dict(parse_qsl(options)),
            use_listings_cache=False,
            config_kwargs={"request_checksum_calculation": "when_required"},
        )

    def path(self, id: str) -> str:
        return f"{self.root}/{id[:2]}/{id[2:4]}/{id}"

    @property
    def objects(self) -> list[str]:
        """Of attachments: the folder's mark is not among them."""
        return [path for path in self.other.find(self.root) if not path.endswith("/identity")]


def _directory(_: pytest.FixtureRequest, tmp_path: Path) -> Place:
    def spoil(id: str, data: bytes) -> None:
        (tmp_path / "content" / id[:2] / id[2:4] / id).write_bytes(data)

    return Place(open_content(str(tmp_path / "content"), tmp_path), spoil)


def _memory(_: pytest.FixtureRequest, tmp_path: Path) -> Place:
    root = f"/{uuid.uuid4().hex}"

    def spoil(id: str, data: bytes) -> None:
        MemoryFileSystem().pipe_file(f"{root}/{id[:2]}/{id[2:4]}/{id}", data)

    return Place(open_content(f"memory:/{root}", tmp_path), spoil)


def _s3(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    bucket = Bucket(request.getfixturevalue("s3"))

    def spoil(id: str, data: bytes) -> None:
        bucket.other.pipe_file(bucket.path(id), data)

    return Place(open_content(bucket.address, tmp_path), spoil)


PLACES: dict[str, Callable[[pytest.FixtureRequest, Path], Place]] = {
    "directory": _directory,
    "memory": _memory,
    "s3": _s3,
}
