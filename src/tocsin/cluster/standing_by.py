"""What a cluster tells while it has no store: it waits for a server, or for the leader's place.

A standby is well as a standby; but whoever asks `/healthz` is about to send calls, so that this
says 503. Whether the process lives is told by `/v1/status`, which answers 200.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import structlog
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tocsin.errors import SettingError, Standby, Unavailable
from tocsin.protocol.cluster import ClusterStatus
from tocsin.service.web import TellVersion, error_response, health, json_response
from tocsin.settings import Settings, without_secrets
from tocsin.spark.warm_session import WarmSession
from tocsin.storage.identity import read_mark
from tocsin.storage.log.kafka import is_kafka
from tocsin.storage.store.standby import Leader
from tocsin.storage.store.standby import Standby as Waiting

log = structlog.get_logger()

METHODS = ["GET", "POST", "PUT", "DELETE"]
LOOK_AFTER_JAVA_S = 1.0
UNMARKED_S = 10.0  # a leader that has just begun marks the data directory


def require_servers(settings: Settings) -> None:
    """SettingError unless a leader's place can be taken at all: the locks of files stay with a
    process that is frozen, and are not seen from other machines."""
    for field, address, remote in (
        ("store", settings.store, "://" in settings.store and "sqlite" not in settings.store),
        ("log", settings.log, is_kafka(settings.log)),
    ):
        if not remote:
            raise SettingError(
                "a standby needs a store on PostgreSQL or MariaDB and a log on Kafka, and"
                f" {field} is {without_secrets(address) or 'in the data directory'}",
                field="standby",
                hint="move the system there (tocsin migrate), or leave standby out: a cluster on"
                " files is started again by whoever supervises it",
            )


async def keep_awake(warm: WarmSession) -> None:
    """Spark, whose Java may end."""
    while True:
        await asyncio.to_thread(warm.keep)
        await asyncio.sleep(LOOK_AFTER_JAVA_S)


class WithoutStore:
    """A cluster without a store, or without its log."""

    def __init__(
        self, settings: Settings, warm: WarmSession | None, waiting: Waiting | None
    ) -> None:
        self._data = Path(settings.data).absolute()
        self._warm = warm
        self._waiting = waiting
        self._reason: Unavailable | None = None

    def waits(self, reason: Unavailable) -> None:
        """For a server."""
        if self._reason is None or self._reason.message != reason.message:
            log.warning("the cluster waits", reason=reason.message, hint=reason.hint)
        self._reason = reason

    def app(self) -> Starlette:
        routes = [Route("/{path:path}", self._answer, methods=METHODS)]
        return Starlette(routes=routes, middleware=[Middleware(TellVersion)])

    @property
    def _leader(self) -> Leader | None:
        return None if self._waiting is None else self._waiting.leader

    async def _answer(self, request: Request) -> Response:
        if request.url.path == "/v1/status":
            return json_response(self._status())
        if request.url.path == "/healthz":
            return health("waits" if self._leader is None else "standby", 503, leads=False)
        return error_response(self._refusal())

    def _refusal(self) -> Unavailable:
        leader = self._leader
        if leader is None:
            return self._reason or Standby("this cluster is starting", hint="try again in a moment")
        where = leader.address or leader.process
        return Standby(
            f"this cluster is a standby, and the leader is {where}", hint=f"ask that one: {where}"
        )

    def _status(self) -> ClusterStatus:
        leader = self._leader
        if leader is None:
            waits_for = None if self._reason is None else self._reason.message
            return ClusterStatus(ready=False, waits_for=waits_for)
        asleep = self._warm is not None and not self._warm.is_awake
        return ClusterStatus(
            ready=False,
            role="standby",
            leader=leader.address or leader.process,
            leader_silent_s=round(leader.silent_s, 3),
            waits_for="Spark, which is starting" if asleep else None,
            trouble=self._trouble(leader),
        )

    def _trouble(self, leader: Leader) -> str | None:
        """Why it could not take the leader's place."""
        mark = read_mark(self._data)
        if (mark is not None and mark.id == leader.store_id) or leader.seen_s < UNMARKED_S:
            return None
        return (
            f"the data directory {self._data} is not the leader's, whose tables this cluster needs"
            " to take its place; let both use one directory"
        )
