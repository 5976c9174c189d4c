"""Bodies of unknown senders never hold more than they may together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from tocsin.errors import TooLarge, Unavailable
from tocsin.service.unverified import Unverified


class Sender:
    """Sends pieces as it is told to."""

    def __init__(self) -> None:
        self._pieces: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def parts(self) -> AsyncIterator[bytes]:
        while (piece := await self._pieces.get()) is not None:
            yield piece

    async def send(self, *pieces: bytes | None) -> None:
        for piece in pieces:
            self._pieces.put_nowait(piece)
        for _ in range(5):
            await asyncio.sleep(0)


async def test_a_whole_body_is_given_and_counts_no_longer() -> None:
    unverified, sender = Unverified(10), Sender()
    reading = asyncio.create_task(unverified.read(sender.parts(), 10))
    await sender.send(b"ab", b"cd")
    assert unverified.held_bytes == 4
    await sender.send(None)
    assert await reading == b"abcd"
    assert unverified.held_bytes == 0


async def test_a_body_over_its_own_limit_is_refused() -> None:
    unverified, sender = Unverified(100), Sender()
    reading = asyncio.create_task(unverified.read(sender.parts(), 3))
    await sender.send(b"abcd")
    with pytest.raises(TooLarge):
        await reading
    assert unverified.held_bytes == 0


async def test_the_oldest_unfinished_body_makes_room_for_those_that_go_on() -> None:
    unverified, senders = Unverified(10), [Sender() for _ in range(4)]
    readings = []
    for sender in senders:
        readings.append(asyncio.create_task(unverified.read(sender.parts(), 8)))
        await sender.send(b"abcd")
        assert unverified.held_bytes <= 10
    for reading in readings[:2]:
        with pytest.raises(Unavailable):
            await reading
    for sender, reading in zip(senders[2:], readings[2:], strict=True):
        await sender.send(None)
        assert await reading == b"abcd"
    assert unverified.held_bytes == 0


async def test_a_sender_who_leaves_takes_its_bytes_along() -> None:
    unverified, sender = Unverified(10), Sender()
    reading = asyncio.create_task(unverified.read(sender.parts(), 10))
    await sender.send(b"abcd")
    reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
    assert unverified.held_bytes == 0
