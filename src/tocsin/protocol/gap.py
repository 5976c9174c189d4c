"""The payload of a result that stands for results that could not be computed.

The store writes it and the client library reads it; in between it is a payload like any other. No
column of a subscriber's result begins with `_`, so no other payload looks like it.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Struct, field

from tocsin.protocol.fields import about

GAP = "_gap"


class LostRecords(Struct, frozen=True):
    """Records in [first, end) of a dataset that a channel gave no answer for."""

    cause: Annotated[str, about("why the channel gave no answer")]
    dataset: Annotated[str, about("empty: no records are to blame")] = ""
    first: Annotated[int, about("the position of the first in the dataset's log")] = 0
    end: Annotated[int, about("the position behind the last")] = 0
    records: Annotated[int, about("how many they are; 0: nobody counted them")] = 0


class GapPayload(Struct, frozen=True):
    """The whole payload: nothing stands beside the gap."""

    gap: LostRecords = field(name=GAP)


def decode_gap(payload: Any) -> LostRecords | None:
    """What a decoded payload tells of a gap; None: it is a result of a query."""
    if not (isinstance(payload, dict) and len(payload) == 1 and GAP in payload):
        return None
    return msgspec.convert(payload, GapPayload).gap
