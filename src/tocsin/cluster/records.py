"""The store's and the log's words as the protocol carries them. Payloads are JSON already: they are
copied, never parsed."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET, Raw

from tocsin.cluster.log_records import Placed
from tocsin.model import Channel, Head, Result, Subscription
from tocsin.protocol.client import ResultInfo, SubscriptionInfo
from tocsin.protocol.cluster import HeadNews, LogRecord


def result_info(result: Result) -> ResultInfo[Raw]:
    return ResultInfo(result.position, result.created_at, Raw(result.payload))


def head_news(head: Head, results: Sequence[Result] = ()) -> HeadNews:
    return HeadNews(
        head.backend, head.epoch, head.head, [result_info(result) for result in results]
    )


def routed_result(placed: Placed) -> ResultInfo[Raw]:
    """A record of a routed dataset, as a result of a subscription to it."""
    return ResultInfo(placed.position, placed.at, Raw(placed.record))


def log_record(placed: Placed) -> LogRecord[Raw]:
    return LogRecord(placed.position, placed.at, Raw(placed.record))


def subscription_info(
    subscription: Subscription, channel: Channel | None = None, claims: tuple[str, ...] = ()
) -> SubscriptionInfo:
    """A frontend subscription, with what only brokers need. `claims`: what it is bound to."""
    filter = subscription.backend.filter
    attached = channel is not None and bool(channel.attachments)
    return SubscriptionInfo.of(
        subscription,
        filter=UNSET if filter is None else filter,
        attachments=channel.attachments if channel is not None and attached else UNSET,
        keys=channel.keys if channel is not None and attached else UNSET,
        claims=claims or UNSET,
    )
