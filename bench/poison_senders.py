"""One who sends what is costly to refuse, again and again, until its input is closed."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable

import httpx
import uvloop
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from bench.control import answer, orders

MIB = 1024 * 1024
DATASET = "poisoned"


async def bodies(url: str, token: str) -> None:
    """Large bodies of JSON, JSON lines and CSV in which nothing fits. (What fits is no poison, but
    load.)"""
    poisons = [
        (b"[" + b"1," * (3 * MIB // 2) + b"1]", "application/json"),
        (b'{"number":"x"}\n' * 90_000, "application/x-ndjson"),
        (b'{"number":' + b"[" * MIB + b"]" * MIB + b"}", "application/json"),
        (b"number,text\n" + b'"\n",' * MIB, "text/csv"),
    ]
    async with httpx.AsyncClient(timeout=120) as http:
        while True:
            for body, kind in poisons:
                headers = {"authorization": f"Bearer {token}", "content-type": kind}
                await http.post(
                    f"{url}/v1/datasets/{DATASET}/records", content=body, headers=headers
                )


async def statements(url: str, token: str) -> None:
    """A megabyte of statements at a time."""
    texts = [
        "SHOW DATASETS;" * (MIB // 15),
        "INSERT INTO poisoned (number) VALUES ('x')" + ",('x')" * 60_000,
        "INSERT INTO poisoned VALUES (" + "ARRAY(" * 100_000,
        "/*" * 500_000,
    ]
    headers = {"authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(timeout=120) as http:
        while True:
            for text in texts:
                await http.post(f"{url}/v1/statements", json={"sql": text}, headers=headers)


async def frames(url: str, token: str) -> None:
    """Frames as long as a broker takes them; it is dialled again when it hangs up."""
    fill = (60_000 - 100) // 2
    texts = [
        '{"op":"subscribe","ref":1,"channel":"c","arguments":[' + "[" * fill + "]" * fill + "]}",
        '{"op":"subscribe","ref":1,"channel":"c","arguments":[' + "1," * fill + "1]}",
        '{"op":"unknown","ref":1,"filling":[' + "{}," * (fill // 2) + "{}]}",
    ]
    while True:
        for text in texts:
            try:
                async with connect(f"{url}?token={token}") as socket:
                    for _ in range(20):
                        await socket.send(text)
                        await socket.recv()
            except (ConnectionClosed, OSError):
                await asyncio.sleep(0.01)


SENDERS: dict[str, Callable[[str, str], Awaitable[None]]] = {
    "bodies": bodies,
    "statements": statements,
    "frames": frames,
}


async def main(kind: str, url: str, token: str) -> None:
    sending = asyncio.ensure_future(SENDERS[kind](url, token))
    answer(ready=True, at=time.time())
    async for _ in orders():
        pass
    sending.cancel()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
