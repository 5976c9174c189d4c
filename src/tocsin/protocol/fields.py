"""The fields that many records share, each with what it means. JSON Schema, OpenAPI and the
reference page print these lines."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta


def about(text: str) -> Meta:
    """What a field is, and why it exists."""
    return Meta(description=text)


MOST_RESULTS = 10_000
"""Of results or records that one answer holds."""

Number = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
"""What a database, and Kafka, can hold: whoever takes numbers from strangers asks for no more."""

Ref = Annotated[int | str, about("chosen by whoever asks; the answer repeats it")]
SubscriptionId = Annotated[int, about("a frontend subscription")]
BackendId = Annotated[
    int, about("a backend subscription: channel and arguments, shared by all who asked the same")
]
Subscriber = Annotated[str, about("the `sub` of the subscriber's token")]
BrokerName = Annotated[str, about("a broker's name, its own in the whole system")]
ChannelName = Annotated[
    str, about("a channel, or `dataset/NAME` for the records of a routed dataset")
]
DatasetName = Annotated[str, about("a dataset")]
StoreId = Annotated[
    str, about("the id of the cluster's store: ids and positions of another store mean nothing")
]
Epoch = Annotated[str, about("positions of different epochs cannot be compared")]
Position = Annotated[int, Meta(ge=0, description="of a result in its backend subscription")]
After = Annotated[int, about("results behind this position")]
Upto = Annotated[int, about("the position of the last one that the answer covers")]
Head = Annotated[int, about("results up to this position exist")]
Floor = Annotated[int, about("results up to this position are no longer kept")]
MarkerPosition = Annotated[int, about("everything up to here was acknowledged")]
Limit = Annotated[
    int, Meta(ge=1, le=MOST_RESULTS, description="the most results that the answer may hold")
]
LogPosition = Annotated[int, about("the place of a record in its dataset's log")]
Sequence = Annotated[
    int, about("counts what changed at the cluster; a broker asks for what is new since")
]
At = Annotated[float, about("when it was made or received, in seconds since 1970")]
HttpUrl = Annotated[str, about("where the broker takes HTTP calls")]
WebSocketUrl = Annotated[str, about("where the broker takes WebSockets")]
ProtocolVersion = Annotated[
    int, about("the version of this protocol that the sender speaks; absent: not told")
]
Counters = Annotated[
    dict[str, float], about("what was counted since the broker started, by name; more may come")
]
