"""Lines of JSON on standard input and output, by which a benchmark leads its helper processes."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from typing import Any


async def orders() -> AsyncIterator[dict[str, Any]]:
    """Each line that the benchmark writes, until it closes the pipe."""
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        yield json.loads(line)


def answer(**told: Any) -> None:
    print(json.dumps(told), flush=True)
