"""What clients ask for over WebSockets, done by the driver and answered in kind.

The `Handler` of sockets.py: requests come parsed, in order, and one connection's wait for the
cluster keeps no other waiting.
"""

from __future__ import annotations

import time
from typing import Any

from msgspec.structs import asdict

from tocsin.broker.machine.effects import Answer, Subscribed, Unsubscribed
from tocsin.broker.machine.events import Cursor
from tocsin.broker.server import encoding
from tocsin.broker.server.driver import Driver
from tocsin.broker.server.message import Message
from tocsin.broker.server.relay import CALL_BYTES
from tocsin.broker.server.sockets import Socket, failure
from tocsin.errors import TocsinError
from tocsin.protocol import client as frames


class SocketClients:
    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def opened(self, connection: Socket) -> None:
        self._driver.connect(connection)

    def gone(self, connection: Socket) -> None:
        self._driver.left(connection)

    def received(self, connection: Socket, request: frames.SingleRequest) -> None:
        driver, machine, now = self._driver, self._driver.machine, time.monotonic()
        subscriber, number = connection.identity.subject, connection.number
        match request:
            case frames.Get(subscription=subscription, limit=limit):
                asker = SocketGet(driver, connection, request.ref)
                cursor = Cursor(request.after, request.epoch)
                driver.perform(
                    machine.get(asker, subscriber, subscription, now, cursor, limit=limit)
                )
            case frames.Ack(subscription=subscription, epoch=epoch, position=position):
                driver.perform(
                    machine.ack(subscriber, subscription, epoch, position, now, connection=number)
                )
            case frames.AckMany(markers=markers):
                driver.perform(machine.ack_many(subscriber, markers, now, number))
            case frames.Ping():
                _send(connection, "pong", frames.Pong(request.ref))
            case frames.Subscribe():
                newcomer = SocketSubscribe(driver, connection, request.ref)
                driver.shown.arriving(connection.identity)
                token = connection.token
                driver.perform(
                    machine.subscribe(
                        newcomer, subscriber, request, now, connection=number, token=token
                    )
                )
            case frames.Unsubscribe(subscription=subscription):
                leaver = SocketUnsubscribe(connection, request.ref)
                driver.perform(machine.unsubscribe(leaver, subscriber, subscription, now))
            case frames.Publish():
                driver.spawn(self._publish(connection, request))

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
            with self._driver.relaying.taking(connection.identity.subject) as taking:
                taking.more(CALL_BYTES + len(body))
                answer = await self._driver.link.publish(request.dataset, body, headers)
            published = frames.PublishedFrame(**asdict(answer.published()), ref=request.ref)
        except TocsinError as error:
            connection.send(failure(request.ref, error))
        else:
            _send(connection, "published", published)
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


class _Holding:
    """A wish whose answer the client's next requests wait for."""

    __slots__ = ("_ref", "_socket")

    def __init__(self, socket: Socket, ref: frames.Ref) -> None:
        self._socket = socket
        self._ref = ref

    def failed(self, error: TocsinError) -> None:
        self._socket.send(failure(self._ref, error))
        self._socket.go_on()


class SocketSubscribe(_Holding):
    """A wish to subscribe."""

    __slots__ = ("_shown",)

    def __init__(self, driver: Driver, socket: Socket, ref: frames.Ref) -> None:
        super().__init__(socket, ref)
        self._shown = driver.shown

    def answered(self, answer: Subscribed) -> None:
        info = encoding.info_of(answer.subscription)
        self._shown.arrived(self._socket.identity)
        _send(self._socket, "subscribed", frames.Subscribed(self._ref, info))
        self._socket.go_on()


class SocketUnsubscribe(_Holding):
    """A wish to end a subscription."""

    __slots__ = ()

    def answered(self, _: Unsubscribed) -> None:
        _send(self._socket, "unsubscribed", frames.Unsubscribed(self._ref))
        self._socket.go_on()


def _send(connection: Socket, name: str, frame: Any) -> None:
    connection.send(Message(name, frames.encode(frame)))
