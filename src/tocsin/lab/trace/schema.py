"""The columns of traces as Parquet. Written by `writing`, read by `reading`."""

from __future__ import annotations

import pyarrow as pa

from tocsin.protocol.trace import FIELDS, KIND_COLUMN, REQUEST_FIELDS, TraceKind

_ARROW = {"d": pa.float64(), "i": pa.int32(), "q": pa.int64()}
EVENTS = pa.schema(
    [
        pa.field(KIND_COLUMN, pa.dictionary(pa.int8(), pa.string()))
        if name == "kind"
        else pa.field(name, _ARROW[code])
        for name, code in FIELDS
    ]
)
"""As the records, with the kind in words and NULL for nobody."""
_REQUEST_TYPES = (pa.float64(), pa.uint64(), pa.int64())
REQUESTS = pa.schema(
    [pa.field(name, kind) for name, kind in zip(REQUEST_FIELDS, _REQUEST_TYPES, strict=True)]
)
SCHEMAS: dict[TraceKind, pa.Schema] = {"events": EVENTS, "requests": REQUESTS}
