"""How far a channel is behind: seconds since the oldest record it has not looked at, and how many
such records there are."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from msgspec import Struct

from tocsin.errors import TocsinError
from tocsin.model import Channel, Dataset
from tocsin.spark.tables import Tables


class Lag(Struct, frozen=True):
    seconds: float
    records: int


def lag_of(
    channel: Channel,
    reached: Mapping[str, int],
    ends: Mapping[str, int],
    tables: Tables,
    dataset: Callable[[str], Dataset],
) -> Lag:
    """By where it stands in its NEW datasets, and where they end now."""
    seconds, records = 0.0, 0
    for name in channel.new:
        start, end = reached.get(name, 0), ends.get(name, 0)
        if start >= end:
            continue
        try:
            its = dataset(name)
            received_us = tables.received_us(its, start, end)
            records += tables.count(its, start, end)
        except TocsinError:  # a segment has just become Parquet, or the store is away
            continue
        if received_us is not None:
            seconds = max(seconds, time.time() - received_us / 1e6)
    return Lag(round(max(0.0, seconds), 3), records)
