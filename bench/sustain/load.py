"""The load generator: records at given moments, however long earlier ones take (open loop).

    python -m bench.sustain.load TARGET … (one line of JSON for each order)

Every 50 ms or so, at an odd moment of each such interval, what is due is published in one batch;
its records carry that moment. A batch that finds everybody before it still waiting is sent late,
and the wait is part of its latency.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import numpy as np
import uvloop

from bench.control import answer, orders
from bench.sustain.shapes import DATASET, SHAPES, Shape, bodies, clock_us

EVERY_S = 0.05
CONNECTIONS = 8


class Target(Protocol):
    """Where records go."""

    async def publish(self, records: list[bytes]) -> None:
        """Returns when they have been taken."""


class Cluster:
    """By HTTP, with as little around it as HTTP allows: publishers are elsewhere."""

    def __init__(self, url: str, token: str) -> None:
        self._place = urlsplit(url)
        self._head = (
            f"POST /v1/datasets/{DATASET}/records HTTP/1.1\r\nHost: cluster\r\n"
            f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\n"
        )
        self._free: asyncio.LifoQueue[tuple[asyncio.StreamReader, asyncio.StreamWriter]]
        self._free = asyncio.LifoQueue()
        self._opened = 0

    async def publish(self, records: list[bytes]) -> None:
        reader, writer = await self._connection()
        body = b"[%b]" % b",".join(records)
        writer.write(f"{self._head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        said = await reader.readexactly(length)
        if b" 200 " not in head.partition(b"\r\n")[0]:
            raise RuntimeError(f"{head.decode()}{said.decode()}")
        self._free.put_nowait((reader, writer))

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._free.empty() and self._opened < CONNECTIONS:
            self._opened += 1
            return await self._connect()
        reader, writer = await self._free.get()
        if reader.at_eof():  # it was idle for so long that the cluster closed it
            writer.close()
            return await self._connect()
        return reader, writer

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self._place.hostname, self._place.port)


class Files:
    """A file of JSON lines for each batch, in a directory that a job watches."""

    def __init__(self, directory: str) -> None:
        self._directory = Path(directory)

    async def publish(self, records: list[bytes]) -> None:
        aside = self._directory / f".{clock_us()}"
        aside.write_bytes(b"\n".join(records) + b"\n")
        aside.rename(self._directory / f"{aside.name[1:]}.json")


class Topic:
    """A topic of Kafka."""

    def __init__(self, address: str, topic: str) -> None:
        from confluent_kafka import Producer

        self._producer = Producer({"bootstrap.servers": address, "linger.ms": 1})
        self._topic = topic

    async def publish(self, records: list[bytes]) -> None:
        for record in records:
            self._producer.produce(self._topic, record)
        while len(self._producer):
            self._producer.poll(0)
            await asyncio.sleep(0.001)


TARGETS: dict[str, type[Any]] = {"cluster": Cluster, "files": Files, "topic": Topic}


class Play:
    """One step."""

    def __init__(
        self, target: Target, shape: Shape, sets: int, held: int, listened_sets: int
    ) -> None:
        self._target = target
        self._shape = shape
        self._sets = sets
        self._held = held  # records concern only the first so many sets
        self._listened_sets = listened_sets
        self._sent_ms: list[float] = []
        self.of_first = 0
        """Records that match the first set."""
        self.matching = 0
        """Records that match a set that there is; of so many sets there may be fewer."""
        self.listened = 0
        """Records that match one of the first sets, to which somebody listens."""
        self._waiting: set[asyncio.Task[None]] = set()

    async def run(self, first: int, rate: float, seconds: float) -> list[float]:
        """How long each batch took to be taken, from its moment, in ms."""
        chance = random.Random(first)
        begun_us = clock_us() + 200_000
        done = 0
        for tick in range(round(seconds / EVERY_S)):
            upto = round((tick + 1) * EVERY_S * rate)
            if upto == done:
                continue
            due_us = begun_us + round(1e6 * EVERY_S * (tick + chance.random()))
            asked = chance.choices(range(self._held), k=upto - done)
            records = list(bodies(self._shape, asked, self._sets, first + done, due_us))
            await asyncio.sleep(max(0, due_us - clock_us()) / 1e6)
            self._send(records, due_us)
            self.of_first += asked.count(0)
            self.matching += sum(number < self._sets for number in asked)
            self.listened += sum(number < self._listened_sets for number in asked)
            done = upto
        while self._waiting:
            await asyncio.gather(*self._waiting)
        return self._sent_ms

    def _send(self, records: list[bytes], due_us: int) -> None:
        async def send() -> None:
            await self._target.publish(records)
            self._sent_ms.append((clock_us() - due_us) / 1000)

        task = asyncio.create_task(send())
        self._waiting.add(task)
        task.add_done_callback(self._waiting.discard)


async def main(kind: str, *given: str) -> None:
    target: Target = TARGETS[kind](*given)
    answer(ready=True)
    async for order in orders():
        shape, held = SHAPES[order["shape"]], order["held"]
        play = Play(target, shape, order["sets"], held, order.get("listened", held))
        try:
            sent_ms = await play.run(order["first"], order["rate"], order["seconds"])
        except Exception as error:
            answer(error=repr(error))
            continue
        answer(
            send_p99_ms=float(np.percentile(sent_ms, 99)),
            of_first=play.of_first,
            matching=play.matching,
            listened=play.listened,
        )


if __name__ == "__main__":
    uvloop.run(main(*json.loads(sys.argv[1])))
