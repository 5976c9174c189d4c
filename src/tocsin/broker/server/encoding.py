"""From the core's records to the messages that clients read (docs/reference/protocol.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from tocsin.broker.effects import Acked, Answer, Ended, Gap, NotAcked, SendInline, Signal
from tocsin.broker.server.message import Message
from tocsin.client import frames
from tocsin.client.frames import SubscriptionInfo
from tocsin.model import BackendSubscription, Result, Subscription

encode = msgspec.json.Encoder().encode


class _Missing(Struct, frozen=True):
    first: int = msgspec.field(name="from")
    last: int = msgspec.field(name="to")


class _Result(Struct, frozen=True):
    position: int
    at: float
    value: Raw  # the payload is JSON already: it is copied, never parsed


class ResultsBody(Struct, frozen=True):
    """The answer to a get. `op` and `ref` are a WebSocket's; inline ones lack a subscription."""

    backend: int
    epoch: str
    after: int
    upto: int
    head: int
    gap: _Missing | None
    cached: int
    fetched: int
    results: list[_Result]
    near: int = 0  # from a neighbour's cache
    op: str | UnsetType = UNSET
    ref: frames.Ref | UnsetType = UNSET
    subscription: int | UnsetType = UNSET


def results_body(answer: Answer, **envelope: Any) -> ResultsBody:
    return ResultsBody(
        backend=answer.backend,
        epoch=answer.epoch,
        after=answer.after,
        upto=answer.upto,
        head=answer.head,
        gap=_missing(answer.gap),
        cached=answer.cached,
        fetched=answer.fetched,
        results=_results(answer.results),
        near=answer.near,
        subscription=answer.subscription,
        **envelope,
    )


def answer_message(answer: Answer, ref: frames.Ref) -> Message:
    return Message("results", encode(results_body(answer, op="results", ref=ref)))


def shortened(answer: Answer, most_bytes: int) -> Answer:
    """As much of the answer as fits, but at least one result: the client asks for the rest."""
    size_bytes = 0
    for kept, result in enumerate(answer.results):
        size_bytes += result.size_bytes
        if size_bytes > most_bytes and kept > 0:
            fetched = min(kept, answer.fetched)
            near = min(kept - fetched, answer.near)
            return msgspec.structs.replace(
                answer,
                upto=answer.results[kept - 1].position,
                fetched=fetched,
                near=near,
                cached=kept - fetched - near,
                results=answer.results[:kept],
            )
    return answer


def inline_message(effect: SendInline) -> Message:
    body = ResultsBody(
        op="results",
        backend=effect.backend,
        epoch=effect.epoch,
        after=effect.after,
        upto=effect.head,
        head=effect.head,
        gap=None,
        cached=len(effect.results),
        fetched=0,
        results=_results(effect.results),
    )
    return Message("results", encode(body))


def signal_message(effect: Signal | SendInline) -> Message:
    return Message("signal", encode(frames.Signal(effect.backend, effect.epoch, effect.head)))


def welcome_message(broker: str, cluster: str, subscriptions: list[SubscriptionInfo]) -> Message:
    return Message("welcome", encode(frames.Welcome(broker, cluster, subscriptions)))


def acked_message(effect: Acked) -> Message:
    return Message(
        "acked", encode(frames.Acked(effect.subscription, effect.epoch, effect.position))
    )


def not_acked_message(effect: NotAcked) -> Message:
    told = frames.Failure(effect.error.as_dict(), subscription=effect.subscription)
    return Message("error", encode(told))


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
    )
    return Subscription(info.subscription, info.subscriber, info.broker, backend, info.marker)


def _missing(gap: Gap | None) -> _Missing | None:
    return None if gap is None else _Missing(gap.first, gap.last)


def _results(results: Sequence[Result]) -> list[_Result]:
    return [_Result(r.position, r.created_at, Raw(r.payload)) for r in results]
