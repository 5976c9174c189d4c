"""A process of publishers, each with a connection that is kept, who send a record at a time.

They speak HTTP by hand: a client's own work is not what is measured.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

import msgspec
import uvloop

CONNECTIONS = 32
DATASET = "reports"
RECORD = b'{"type":"flood","severity":3,"message":"' + b"x" * 200 + b'"}'


async def publish(token: str, seconds: float, urls: Sequence[str]) -> None:
    began = time.perf_counter()
    counts = await asyncio.gather(
        *(
            _publisher(urls[number % len(urls)], token, began + seconds)
            for number in range(CONNECTIONS)
        )
    )
    told = {"records": float(sum(counts)), "seconds": time.perf_counter() - began}
    print(msgspec.json.encode(told).decode())


async def _publisher(url: str, token: str, until: float) -> int:
    place = urlsplit(url)
    assert place.hostname is not None
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    head = (
        f"POST /v1/datasets/{DATASET}/records HTTP/1.1\r\nhost: {place.netloc}\r\n"
        f"authorization: Bearer {token}\r\ncontent-type: application/json\r\n"
        f"content-length: {len(RECORD)}\r\n\r\n"
    )
    request, count = head.encode() + RECORD, 0
    while time.perf_counter() < until:
        writer.write(request)
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200"), answer
        await reader.readexactly(_length(answer))
        count += 1
    writer.close()
    return count


def _length(head: bytes) -> int:
    _, _, rest = head.lower().partition(b"content-length:")
    return int(rest.split(b"\r\n", 1)[0])


if __name__ == "__main__":
    uvloop.run(publish(sys.argv[1], float(sys.argv[2]), sys.argv[3:]))
