"""Connections make room for newcomers in the order in which they are missed least."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Iterator

import pytest

from tocsin.service.connections import Connection, ConnectionLimits, Connections
from tocsin.service.listener import A_TURN, TURNS, Listener


def limits(**given: float) -> ConnectionLimits:
    values = {"connections": 6, "strangers": 4, "head_s": 60.0} | given
    return ConnectionLimits(**values)  # type: ignore[arg-type]


class World:
    """Connections of made-up addresses; `cut` are those that were closed, in order."""

    def __init__(self, connections: Connections) -> None:
        self.connections = connections
        self.cut: list[Connection] = []
        self._sockets: list[socket.socket] = []

    def arrive(self, address: str) -> Connection | None:
        here, there = socket.socketpair()
        self._sockets.append(there)
        connection = self.connections.admit(here, address)
        if connection is not None:
            self._sockets.append(connection)
            connection.cut = lambda: self.cut.append(connection)
        return connection

    def let_in(self, address: str) -> Connection:
        connection = self.arrive(address)
        assert connection is not None
        connection.known()
        connection.head_came()
        return connection

    def close(self) -> None:
        for opened in self._sockets:
            opened.close()


@pytest.fixture
def world() -> Iterator[World]:
    made = World(Connections(limits()))
    yield made
    made.close()


async def test_the_oldest_stranger_makes_room_for_the_next(world: World) -> None:
    arrived = [world.arrive(f"10.0.0.{n}") for n in range(6)]
    assert world.cut == arrived[:2]
    assert world.connections.strangers == 4


async def test_a_crowd_of_one_address_pushes_out_its_own_alone(world: World) -> None:
    other = world.arrive("10.0.0.9")
    crowd = [world.arrive("10.0.0.1") for _ in range(20)]
    assert other not in world.cut
    assert world.cut == crowd[:17]


async def test_a_stranger_who_asked_something_goes_after_those_who_said_nothing(
    world: World,
) -> None:
    asking, *silent = [world.arrive(f"10.0.0.{n}") for n in range(4)]
    assert asking is not None
    asking.head_came()
    world.arrive("10.0.0.9")
    assert world.cut == silent[:1]


async def test_whoever_is_served_is_never_cut_and_idle_ones_go_after_strangers(
    world: World,
) -> None:
    served = [world.let_in("10.0.0.1") for _ in range(4)]
    idle = world.let_in("10.0.0.1")
    idle.answered(next_began=False)
    stranger = world.arrive("10.0.0.2")
    assert world.arrive("10.0.0.3") is not None
    assert world.cut == [stranger]
    third = world.arrive("10.0.0.4")
    assert third is not None
    third.known()
    third.head_came()
    assert len(world.cut) == 2
    assert world.let_in("10.0.0.5") is not None
    assert idle in world.cut
    assert not set(served) & set(world.cut)
    assert world.arrive("10.0.0.6") is None  # all six are being served


async def test_a_closed_connection_leaves_its_place(world: World) -> None:
    for _ in range(20):
        world.let_in("10.0.0.1").close()
    assert len(world.connections) == 0
    assert world.cut == []


async def test_a_head_that_does_not_come_in_time_ends_its_connection() -> None:
    world = World(Connections(limits(head_s=0.05, sweep_s=0.01)))
    silent, served = world.arrive("10.0.0.1"), world.let_in("10.0.0.2")
    async with asyncio.timeout(5):
        while world.cut != [silent]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert served not in world.cut
    world.close()


async def test_a_reader_who_takes_nothing_is_cut_and_a_slow_one_is_not() -> None:
    world = World(Connections(limits(unread_s=0.05, sweep_s=0.01)))
    stuck, slow = world.let_in("10.0.0.1"), world.let_in("10.0.0.2")
    left_bytes = 10_000_000

    def taken() -> int:
        nonlocal left_bytes
        left_bytes -= 100_000
        return left_bytes

    stuck.unsent_bytes, slow.unsent_bytes = lambda: 10_000_000, taken
    for connection in (stuck, slow):
        world.connections.unread(connection)
    async with asyncio.timeout(5):
        while not world.cut:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert world.cut == [stuck]
    world.close()


class Accepting:
    """A listener, and clients in its queue."""

    def __init__(self, connections: Connections, clients: int) -> None:
        self.listener = Listener().serve_into(connections)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(100)
        self.listener.setblocking(False)
        address = self.listener.getsockname()
        self.clients = [socket.create_connection(address) for _ in range(clients)]
        self.accepted: list[Connection] = []

    def take(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                self.accepted.append(self.listener.accept()[0])

    def close(self) -> None:
        for opened in (self.listener, *self.clients, *self.accepted):
            opened.close()


async def test_a_turn_of_the_loop_lets_in_a_few() -> None:
    for strangers, a_turn in ((1000, A_TURN), (4 * TURNS, 4)):
        room = limits(connections=1000, strangers=strangers)
        accepting = Accepting(Connections(room), a_turn + 3)
        accepting.take()
        assert len(accepting.accepted) == a_turn
        await asyncio.sleep(0)
        accepting.take()
        assert len(accepting.accepted) == a_turn + 3
        accepting.close()


async def test_without_files_newcomers_are_turned_away_and_the_queue_is_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    accepting = Accepting(Connections(limits(connections=1000, strangers=1000)), 5)
    accept, failing = socket.socket.accept, True

    def out_of_files(listener: socket.socket) -> tuple[socket.socket, object]:
        reserved = getattr(listener, "_reserve", None)
        if failing and reserved is not None:
            raise OSError(errno.EMFILE, "too many open files")
        return accept(listener)

    monkeypatch.setattr(socket.socket, "accept", out_of_files)
    accepting.take()
    assert accepting.accepted == []
    failing = False
    for client in accepting.clients:
        client.settimeout(5)
        assert client.recv(1) == b""  # each was hung up on
    accepting.close()
