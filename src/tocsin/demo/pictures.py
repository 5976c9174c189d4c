"""The pictures that the city's reports carry: small PNGs, drawn here, the same for the same seed.

Pure. A picture is a sky over ground in the colours of its kind of emergency, with grain that does
not compress, as a photo's would not.
"""

from __future__ import annotations

import struct
import zlib
from random import Random

from tocsin.demo import city

TYPE = "image/png"
LEAST_SEVERITY = 2  # nobody takes a picture of less
SIDES = (16, 24, 32, 48)
GRAIN = 32


def draw(kind: str, seed: str) -> bytes:
    random = Random(f"picture {seed}")
    side = random.choice(SIDES)
    hue = city.TYPES.index(kind) if kind in city.TYPES else 0
    sky = (140 + 7 * hue % 90, 120 + 31 * hue % 100, 110 + 53 * hue % 110)
    ground = tuple(100 - value // 3 for value in sky)
    horizon = random.randrange(side // 4, 3 * side // 4)
    lines = []
    for row in range(side):
        colour = sky if row < horizon else ground
        grain = random.randbytes(3 * side)
        line = bytes(colour[i % 3] + value % GRAIN for i, value in enumerate(grain))
        lines.append(b"\x00" + line)  # 0: this line is not predicted from another
    return _png(side, b"".join(lines))


def _png(side: int, lines: bytes) -> bytes:
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)  # 8 bits each of red, green, blue
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(lines)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in parts)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
