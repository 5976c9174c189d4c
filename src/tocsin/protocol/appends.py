"""A gateway and the cluster: what publishers sent, checked and encoded, in a call for all who wait.

These records travel as MessagePack, which carries bytes as they are; the cluster's leader decides
about rights, quotas and schemas, request by request, and its log takes the bytes unread.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from tocsin.protocol.failure import ErrorInfo
from tocsin.protocol.fields import At, DatasetName, about

MESSAGE_PACK = "application/msgpack"

Count = Annotated[int, Meta(ge=0)]


class EncodedRecord(Struct, frozen=True, array_like=True):
    """A record as the log keeps it."""

    declared: Annotated[bytes, about("JSON of the columns that the dataset declares")]
    extra: Annotated[bytes | None, about("JSON of what an open dataset keeps besides")] = None


class Append(Struct, frozen=True, omit_defaults=True):
    """A publisher's request. Without records it asks whether they might publish at all."""

    dataset: DatasetName
    created_at: Annotated[At, about("of the dataset that the records fit; one made anew differs")]
    token: Annotated[int, Meta(ge=0, description="the publisher's, by its place among the tokens")]
    good: Annotated[list[EncodedRecord], about("what fits the dataset")] = []
    letters: Annotated[list[bytes], about("dead letters of the rest, each as JSON")] = []
    refused: Annotated[Count, about("how many records these letters stand for")] = 0
    size_bytes: Annotated[Count, about("of the body as it was sent: quotas count these")] = 0
    key: (
        Annotated[str, about("by which the log knows the request when it comes again")] | UnsetType
    ) = UNSET


class Appends(Struct, frozen=True):
    """All that waited at a gateway. Each request is answered for itself."""

    tokens: Annotated[list[str], about("of the publishers, each once")]
    appends: list[Append]


class AppendOutcome(Struct, frozen=True, omit_defaults=True):
    """What became of one request: it is durable, or there is an error, or it must be checked
    anew."""

    end: Annotated[int, about("the log position behind the last record of the dataset")] = 0
    error: ErrorInfo | UnsetType = UNSET
    stale: Annotated[
        bool, about("nothing was done: the dataset is another than the one it was checked against")
    ] = False


class GatewayStatus(Struct, frozen=True, omit_defaults=True):
    """What a gateway says of itself."""

    ready: Annotated[bool, about("whether publications reach a cluster that leads")]
    cluster: Annotated[str, about("where it hands them on now")]
    waiting: Annotated[int, about("publishers' requests that no call to the cluster has yet")] = 0
    held_bytes: Annotated[int, about("of these, and of those that a call has")] = 0
    waits_for: Annotated[str | None, about("what must come first")] = None
    trouble: Annotated[str | None, about("why publications are refused")] = None


class AppendOutcomes(Struct, frozen=True):
    """In the order of the requests."""

    outcomes: list[AppendOutcome]
