"""Content as files of a directory, in two levels of folders: ab/cd/abcd…

Written aside, made durable and renamed, so that a file under its name is always whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tocsin import durable
from tocsin.model import is_attachment_id
from tocsin.storage.content.port import PIECE_BYTES, Kept
from tocsin.storage.identity import Mark, read_mark, write_mark


class DirectoryMedium:
    def __init__(self, root: Path) -> None:
        self._root = root
        self.incoming = root / "incoming"
        self.shown = str(root)

    def info(self, id: str) -> Kept | None:
        try:
            stat = self._path(id).stat()
        except FileNotFoundError:
            return None
        return Kept(id, stat.st_size, stat.st_mtime)

    def take(self, file: Path, id: str) -> None:
        target = self._path(id)
        durable.make_directory(target.parent)
        durable.move(file, target)

    def read(self, id: str, start: int, stop: int) -> Iterator[bytes]:
        with self._path(id).open("rb") as file:
            file.seek(start)
            while start < stop and (piece := file.read(min(PIECE_BYTES, stop - start))):
                start += len(piece)
                yield piece

    def drop(self, id: str) -> None:
        self._path(id).unlink(missing_ok=True)

    def mark(self) -> Mark | None:
        return read_mark(self._root)

    def put_mark(self, mark: Mark) -> None:
        write_mark(self._root, mark)

    def kept(self) -> Iterator[Kept]:
        for path in self._root.glob("??/??/*"):
            kept = self.info(path.name) if is_attachment_id(path.name) else None
            if kept is not None:
                yield kept

    def _path(self, id: str) -> Path:
        return self._root / id[:2] / id[2:4] / id
