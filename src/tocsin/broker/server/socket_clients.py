"""What clients ask for over WebSockets, done by the driver and answered in kind.

The `Handler` of sockets.py: requests come parsed, in order, and one connection's wait for the
cluster keeps no other waiting.
"""

from __future__ import annotations

import asyncio
from typing import Any

import structlog

from tocsin.broker.effects import Answer
from tocsin.broker.server import encoding
from tocsin.broker.server.cluster_link import Interest
from tocsin.broker.server.driver import Driver
from tocsin.broker.server.message import Message
from tocsin.broker.server.sockets import Socket, failure
from tocsin.client import frames
from tocsin.errors import TocsinError, Unavailable
from tocsin.service.backoff import Backoff

log = structlog.get_logger()


class SocketClients:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def opened(self, connection: Socket) -> None:
        self._driver.spawn(self._welcome(connection))

    def gone(self, connection: Socket) -> None:
        self._driver.left(connection)

    def received(self, connection: Socket, request: frames.Request) -> None:
        subscriber = connection.identity.subject
        match request:
            case frames.Get():
                self._driver.get(
                    SocketGet(self._driver, connection, request.ref),
                    subscriber,
                    request.subscription,
                    after=request.after,
                    epoch=request.epoch,
                    limit=request.limit,
                )
            case frames.Ack():
                self._driver.ack(
                    subscriber,
                    request.subscription,
                    request.epoch,
                    request.position,
                    connection=connection.number,
                )
            case frames.Ping():
                _send(connection, "pong", frames.Pong(request.ref))
            case frames.Subscribe():
                self._driver.spawn(self._subscribe(connection, request))
            case frames.Unsubscribe():
                self._driver.spawn(self._unsubscribe(connection, request))
            case frames.Publish():
                self._driver.spawn(self._publish(connection, request))

    async def _welcome(self, connection: Socket) -> None:
        backoff = Backoff()
        while connection.open:
            try:
                await self._driver.attach(connection.identity.subject, connection)
            except Unavailable as error:
                log.info("a client waits for the cluster", reason=str(error))
                await asyncio.sleep(backoff.next_s())
            except TocsinError as error:
                connection.send(failure(None, error))
                connection.close(frames.GOING_AWAY, error.message)
            else:
                connection.go_on()
                return

    async def _subscribe(self, connection: Socket, request: frames.Subscribe) -> None:
        subscriber = connection.identity.subject
        try:
            wanted = Interest(request.channel, request.arguments, request.beginning)
            info = await self._driver.subscribe(subscriber, wanted, connection)
        except TocsinError as error:
            connection.send(failure(request.ref, error))
        else:
            _send(connection, "subscribed", frames.Subscribed(request.ref, info))
        connection.go_on()

    async def _unsubscribe(self, connection: Socket, request: frames.Unsubscribe) -> None:
        try:
            await self._driver.unsubscribe(connection.identity.subject, request.subscription)
        except TocsinError as error:
            connection.send(failure(request.ref, error))
        else:
            _send(connection, "unsubscribed", frames.Unsubscribed(request.ref))
        connection.go_on()

    async def _publish(self, connection: Socket, request: frames.Publish) -> None:
        headers = {
            "authorization": f"Bearer {connection.token}",
            "content-type": "application/json",
        }
        if request.key is not None:
            headers["idempotency-key"] = request.key
        body = frames.encode(request.records)
        try:
            connection.identity.require("publish")
            told = (await self._driver.link.publish(request.dataset, body, headers)).told()
        except TocsinError as error:
            connection.send(failure(request.ref, error))
        else:
            _send(connection, "published", frames.Published(request.ref, **told))
        connection.go_on()


class SocketGet:
    """A get that a WebSocket waits for."""

    __slots__ = ("_driver", "_ref", "_socket")

    def __init__(self, driver: Driver, socket: Socket, ref: frames.Ref) -> None:
        self._driver = driver
        self._socket = socket
        self._ref = ref

    def answered(self, answer: Answer) -> None:
        answer = encoding.shortened(answer, self._driver.settings.connection_bytes // 4)
        self._driver.counts.delivered += len(answer.results)
        self._socket.send(encoding.answer_message(answer, self._ref))
        self._socket.answered_get()

    def failed(self, error: TocsinError) -> None:
        self._socket.send(failure(self._ref, error))
        self._socket.answered_get()


def _send(connection: Socket, name: str, frame: Any) -> None:
    connection.send(Message(name, frames.encode(frame)))
