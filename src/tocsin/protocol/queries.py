"""The query parameters of HTTP calls, a record for each set of them. All are optional, and a
service passes over those that it does not know."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from tocsin.protocol.client import DEFAULT_LIMIT, LONGEST_WAIT_S
from tocsin.protocol.fields import (
    MOST_RESULTS,
    BrokerName,
    Epoch,
    Limit,
    Position,
    Subscriber,
    SubscriptionId,
    about,
)

LARGEST_POSITION = (1 << 63) - 1
MediaType = Annotated[str, about("the Content-Type of the answer")]


class ResultsQuery(Struct, frozen=True):
    """Of a get: after which position, how many, and how long to wait for the first."""

    after: Position | UnsetType = UNSET
    epoch: Epoch | UnsetType = UNSET
    limit: Limit = DEFAULT_LIMIT
    wait_s: Annotated[
        float, Meta(ge=0, le=LONGEST_WAIT_S, description="how long to wait if there is none yet")
    ] = 0.0


class EventsQuery(Struct, frozen=True):
    """Of a stream of events."""

    inline: Annotated[
        int, Meta(ge=0, le=1, description="1: results come with the events; 0: signals do")
    ] = 0


class AttachmentQuery(Struct, frozen=True):
    """Of an attachment at the cluster."""

    type: MediaType | UnsetType = UNSET


class LedByQuery(AttachmentQuery, frozen=True):
    """Of an attachment at a broker, with the result that led to it: both or neither."""

    subscription: SubscriptionId | UnsetType = UNSET
    position: Position | UnsetType = UNSET


class LoadQuery(Struct, frozen=True):
    """Of a page of a broker's subscriptions: those behind a number. Without a limit the answer has
    all: brokers of older versions know no pages."""

    after: SubscriptionId = 0
    limit: Limit | UnsetType = UNSET


class NewsQuery(Struct, frozen=True):
    """Of a broker's news."""

    since: Annotated[int, about("the sequence of the newest news that the broker has")] = 0


class SubscriberQuery(Struct, frozen=True):
    """Of subscriptions: brokers and admins may name somebody else than themselves."""

    subscriber: Subscriber | UnsetType = UNSET


class LogQuery(Struct, frozen=True):
    """Of a range of a dataset's log."""

    after: Annotated[
        int, Meta(ge=0, le=LARGEST_POSITION, description="records behind this position")
    ] = 0
    upto: (
        Annotated[int, Meta(ge=0, le=LARGEST_POSITION, description="records up to this position")]
        | UnsetType
    ) = UNSET
    limit: Limit = MOST_RESULTS


class FilterQuery(Struct, frozen=True):
    """Of a filter on a routed dataset."""

    where: Annotated[str, about("the condition, in SQL; empty: every record")] = ""


class BrokerQuery(Struct, frozen=True):
    """Of the choice of a broker."""

    exclude: Annotated[
        tuple[BrokerName, ...], about("brokers that the caller could not reach; repeat it for more")
    ] = ()


def encode_query(query: Struct) -> str:
    """What follows a path: the parameters that are set, with their `?`."""
    return "?" + urlencode(msgspec.to_builtins(query), doseq=True)
