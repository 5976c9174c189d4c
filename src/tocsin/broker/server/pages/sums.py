"""A checksum for each block of a page, taken while its bytes come. Pure.

They tell whether what is read from a disk is what was written: a CRC-32 against rot, not against
malice. Whether a page is what it is called, its hash tells, once.
"""

from __future__ import annotations

from array import array
from zlib import crc32

BLOCK_BYTES = 64 * 1024


class Sums:
    def __init__(self) -> None:
        self.size_bytes = 0  # of what has come
        self._sums = array("I", [0])  # the last is of the block that is coming

    def add(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            here = view[: BLOCK_BYTES - self.size_bytes % BLOCK_BYTES]
            self._sums[-1] = crc32(here, self._sums[-1])
            self.size_bytes += len(here)
            if self.size_bytes % BLOCK_BYTES == 0:
                self._sums.append(0)
            view = view[len(here) :]

    def fit(self, start: int, block: bytes) -> bool:
        """Is it the block that begins there, as far as it has come?"""
        whole = len(block) == min(BLOCK_BYTES, self.size_bytes - start)
        return whole and crc32(block) == self._sums[start // BLOCK_BYTES]
