"""Traces as Parquet: columns, and the label by which a file says what it is.

Written by `writing`, read by `reading`; they share this and the `journal`.
"""

from __future__ import annotations

from typing import Literal

import pyarrow as pa
from msgspec import Struct

from tocsin.broker.server.recorder import FIELDS
from tocsin.lab.trace.events import About

KEY = b"tocsin.trace"
VERSION = 1

_ARROW = {"d": pa.float64(), "i": pa.int32(), "q": pa.int64()}
EVENTS = pa.schema(
    [
        pa.field("event", pa.dictionary(pa.int8(), pa.string()))
        if name == "kind"
        else pa.field(name, _ARROW[code])
        for name, code in FIELDS
    ]
)
"""As the records, with the kind in words and nothing for nobody."""
REQUESTS = pa.schema(
    [
        pa.field("at_s", pa.float64()),
        pa.field("object", pa.uint64()),
        pa.field("size_bytes", pa.int64()),
    ]
)
Kind = Literal["events", "requests"]
SCHEMAS: dict[Kind, pa.Schema] = {"events": EVENTS, "requests": REQUESTS}


class Label(Struct, frozen=True):
    """What a file says of itself in its footer."""

    kind: Kind
    version: int
    about: About = About()
