"""What publishers send to a broker: passed on to the cluster as it comes, whose answer comes back.

Publishers need to know one address only. The cluster decides, as if it were asked itself.
"""

from __future__ import annotations

from collections.abc import Awaitable

from prometheus_client import Gauge
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from tocsin.broker.server.cluster_link import ClusterLink, Relayed
from tocsin.errors import InvalidInput, QuotaExceeded, RecordError, Unconfirmed
from tocsin.model import Attachment
from tocsin.protocol.publishing import Published
from tocsin.service.content import ANY_BYTES
from tocsin.service.multipart import is_form
from tocsin.service.openapi import Media
from tocsin.service.room import Room
from tocsin.service.web import Call, Route

RELAYED = Gauge("tocsin_broker_relayed_bytes", "Of publications on their way to the cluster")
BODIES = 4  # so many of the largest size are held at once; half of them of one sender
CALL_BYTES = 4096  # what any call costs, with the piece of a body that is passed on as it comes


def relay_room(limit_bytes: int) -> Room:
    """For all that is on its way at once; what comes beyond it is told to come again."""
    return Room(BODIES * (limit_bytes + CALL_BYTES), RELAYED)


class RelayCalls:
    def __init__(self, link: ClusterLink, room: Room) -> None:
        self._link = link
        self._room = room

    async def publish(self, call: Call) -> Response:
        form = is_form(call.request.headers.get("content-type"))  # with attachments: as it comes
        names = ("content-length",) if form else ()
        headers = _passed_on(call, "content-type", "idempotency-key", *names)
        with self._room.taking(call.identity.subject) as taking:
            taking.more(CALL_BYTES)
            body = call.request.stream() if form else await call.bytes(taking.more)
            return await _relayed(self._link.publish(call.path["name"], body, headers))

    async def upload(self, call: Call) -> Response:
        headers = _passed_on(call, "content-type", "content-length")
        with self._room.taking(call.identity.subject) as taking:
            taking.more(CALL_BYTES)
            body = call.request.stream()
            return await _relayed(self._link.upload(call.path.get("id"), body, headers))


def _passed_on(call: Call, *names: str) -> dict[str, str]:
    """Headers for the cluster: these, and who asks."""
    given = call.request.headers
    return {name: given[name] for name in names if name in given} | {
        "authorization": f"Bearer {call.token}"
    }


async def _relayed(answer: Awaitable[Relayed]) -> Response:
    try:
        relayed = await answer
    except ClientDisconnect:
        raise InvalidInput("the body was cut short", field="body") from None
    later = None if relayed.retry_after is None else {"retry-after": relayed.retry_after}
    return Response(relayed.body, relayed.status, later, relayed.media_type)


def relay_routes(calls: RelayCalls) -> list[Route]:
    may = ("publish",)
    records = "Publish records: passed on to the cluster, whose answer comes back"
    upload = "Upload an attachment: passed on"
    by_hash = "The same under the SHA-256 of its bytes"
    also = {200: Attachment}
    return [
        Route(
            "POST",
            "/v1/datasets/{name}/records",
            calls.publish,
            may,
            records,
            Media("application/x-ndjson"),
            Published,
            also={422: Published},
            errors=(RecordError, QuotaExceeded, Unconfirmed),
            limit_bytes=None,
        ),
        Route(
            "POST",
            "/v1/attachments",
            calls.upload,
            may,
            upload,
            ANY_BYTES,
            Attachment,
            201,
            also,
            (QuotaExceeded,),
            limit_bytes=None,
        ),
        Route(
            "PUT",
            "/v1/attachments/{id}",
            calls.upload,
            may,
            by_hash,
            ANY_BYTES,
            Attachment,
            201,
            also,
            (QuotaExceeded,),
            limit_bytes=None,
        ),
    ]
