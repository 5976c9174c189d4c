"""Single files where tables lie, whatever file system that is. Knows no Delta."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyarrow.fs import FileInfo, FileSelector, FileType

from tocsin import durable
from tocsin.errors import Unavailable, is_bug
from tocsin.storage.tables.address import FIELD, TableAddress, first_line

PIECE_BYTES = 1024 * 1024


class Place:
    """Paths are relative to the address. Unavailable if it cannot be reached."""

    def __init__(self, address: TableAddress) -> None:
        self.address = address
        self.folder = address.folder()
        self._files = self.folder.filesystem

    def info(self, path: str) -> FileInfo | None:
        """None: there is no such file."""
        with self.reached(path):
            info: FileInfo = self._files.get_file_info(self.folder.path(path))
        return info if info.type == FileType.File else None

    def files(self, path: str) -> list[FileInfo]:
        """Those in a folder, which need not exist."""
        return [info for info in self._listed(path) if info.type == FileType.File]

    def folders(self) -> list[str]:
        """The names of all folders at the address."""
        return sorted(
            info.base_name for info in self._listed("") if info.type == FileType.Directory
        )

    def read(self, path: str) -> bytes | None:
        """None: there is no such file."""
        if self.info(path) is None:
            return None
        return b"".join(self.pieces(path))

    def pieces(self, path: str) -> Iterator[bytes]:
        """FileNotFoundError if it is not there."""
        with self.reached(path), self._files.open_input_stream(self.folder.path(path)) as stream:
            while piece := stream.read(PIECE_BYTES):
                yield piece

    def write(self, path: str, data: bytes | Iterator[bytes]) -> None:
        """Whole and durable, or not at all."""
        pieces = iter([data]) if isinstance(data, bytes) else data
        if self.address.directory is not None:
            target = self.address.directory / path
            durable.make_directory(target.parent)
            durable.write_pieces(target, pieces)
            return
        with self.reached(path), self._files.open_output_stream(self.folder.path(path)) as stream:
            for piece in pieces:
                stream.write(piece)

    def delete(self, path: str) -> None:
        with self.reached(path):
            self._files.delete_file(self.folder.path(path))

    def delete_folder(self, path: str) -> None:
        with self.reached(path):
            self._files.delete_dir(self.folder.path(path))

    @contextmanager
    def reached(self, path: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise
        except Exception as error:  # of libraries that the address chooses
            if is_bug(error):
                raise
            raise away(self.address, path, error) from None

    def _listed(self, path: str) -> list[FileInfo]:
        selector = FileSelector(self.folder.path(path).rstrip("/"), allow_not_found=True)
        with self.reached(path):
            listed: list[FileInfo] = self._files.get_file_info(selector)
            return listed


def away(address: TableAddress, path: str, error: Exception) -> Unavailable:
    return Unavailable(
        f"{address.of(path).rstrip('/')} cannot be reached: {first_line(error)}",
        field=FIELD,
        hint="look at what the setting tables names, and at the keys that reach it",
    )
