"""From the core's records to the messages that clients read (docs/reference/protocol.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw

from tocsin.broker.machine.effects import (
    Acked,
    AckedMany,
    Answer,
    Ended,
    Gap,
    NotAcked,
    SendInline,
    Signal,
    Welcome,
)
from tocsin.broker.server.message import Message
from tocsin.model import BackendSubscription, Result, Subscription
from tocsin.protocol import client as frames
from tocsin.protocol.client import Missing, ResultInfo, Results, ResultsFrame, SubscriptionInfo
from tocsin.protocol.failure import error_info
from tocsin.protocol.version import VERSION

encode = frames.encode
R = TypeVar("R", bound=Results[Raw])


def results_body(answer: Answer) -> Results[Raw]:
    """The answer to a get by REST."""
    return _as(Results, answer)


def answer_message(answer: Answer, ref: frames.Ref) -> Message:
    """The answer to a get over a WebSocket."""
    return Message("results", encode(_as(ResultsFrame, answer, ref=ref)))


def shortened(answer: Answer, most_bytes: int) -> Answer:
    """As much of the answer as fits, but at least one result: the client asks for the rest."""
    size_bytes = 0
    for kept, result in enumerate(answer.results):
        size_bytes += result.size_bytes
        if size_bytes > most_bytes and kept > 0:
            fetched = min(kept, answer.fetched)
            near = min(kept - fetched, answer.from_neighbours)
            return msgspec.structs.replace(
                answer,
                upto=answer.results[kept - 1].position,
                fetched=fetched,
                from_neighbours=near,
                cached=kept - fetched - near,
                results=answer.results[:kept],
            )
    return answer


def inline_message(effect: SendInline) -> Message:
    frame = ResultsFrame(
        backend=effect.backend,
        epoch=effect.epoch,
        after=effect.after,
        upto=effect.head,
        head=effect.head,
        results=_results(effect.results),
        cached=len(effect.results),
    )
    return Message("results", encode(frame))


def signal_message(effect: Signal | SendInline) -> Message:
    return Message("signal", encode(frames.Signal(effect.backend, effect.epoch, effect.head)))


def welcome_message(broker: str, effect: Welcome, batch: bool) -> Message:
    subscriptions = [info_of(subscription) for subscription in effect.subscriptions]
    frame = frames.Welcome(
        broker, effect.store_id, subscriptions, VERSION, True if batch else UNSET
    )
    return Message("welcome", encode(frame))


def acked_message(effect: Acked) -> Message:
    return Message(
        "acked", encode(frames.Acked(effect.subscription, effect.epoch, effect.position))
    )


def acked_many_message(effect: AckedMany) -> Message:
    return Message("acked_many", encode(frames.AckedMany(effect.markers)))


def not_acked_message(effect: NotAcked) -> Message:
    frame = frames.Failure(error_info(effect.error), subscription=effect.subscription)
    return Message("error", encode(frame))


def ended_message(effect: Ended) -> Message:
    return Message("ended", encode(frames.Ended(effect.subscription)))


def moved_message(broker: str) -> Message:
    return Message("moved", encode(frames.Moved(broker)))


def subscription_of(info: SubscriptionInfo) -> Subscription:
    """A subscription as the core takes it."""
    backend = BackendSubscription(
        id=info.backend,
        channel=info.channel,
        arguments=info.arguments,
        epoch=info.epoch,
        head=info.head,
        floor=info.floor,
        filter=None if info.filter is UNSET else info.filter,
        attachments=() if info.attachments is UNSET else info.attachments,
        keys=() if info.keys is UNSET else info.keys,
        claims=() if info.claims is UNSET else info.claims,
    )
    return Subscription(info.subscription, info.subscriber, info.broker, backend, info.marker)


def info_of(subscription: Subscription) -> SubscriptionInfo:
    """A subscription as clients are told of it."""
    return SubscriptionInfo.of(subscription)


def _as(kind: type[R], answer: Answer, **more: Any) -> R:
    return kind(
        backend=answer.backend,
        epoch=answer.epoch,
        after=answer.after,
        upto=answer.upto,
        head=answer.head,
        results=_results(answer.results),
        gap=_missing(answer.gap),
        cached=answer.cached,
        fetched=answer.fetched,
        from_neighbours=answer.from_neighbours,
        subscription=answer.subscription,
        **more,
    )


def _missing(gap: Gap | None) -> Missing | None:
    return None if gap is None else Missing(gap.first, gap.last)


def _results(results: Sequence[Result]) -> list[ResultInfo[Raw]]:
    """A payload is JSON already: it is copied, never parsed."""
    return [
        ResultInfo(result.position, result.created_at, Raw(result.payload)) for result in results
    ]
