"""A writer of matches and the cluster: what was stored beside the cluster, so that brokers and
deliveries hear of it at once. Whoever misses it asks the store what is new.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Raw, Struct

from tocsin.model import Head
from tocsin.protocol.fields import At, ChannelName, Sequence, about


class StoredResults(Struct, frozen=True):
    """What a commit stored of a channel. `backends`, `positions` and `values` are columns: the same
    place of each is one result. Without them the results are to be fetched."""

    channel: ChannelName
    sequence: Sequence
    heads: Annotated[list[Head], about("of the backend subscriptions that got results")]
    backends: list[int]
    positions: list[int]
    values: Annotated[list[Raw], about("what the results say, as JSON")]
    at: At


class Commits(Struct, frozen=True):
    """In the order in which they were committed."""

    commits: list[StoredResults]
