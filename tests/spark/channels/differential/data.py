"""Small random datasets, full of NULLs and repeated values, and arguments that meet them."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from tocsin.model import Column, Dataset

Record = dict[str, Any]

REPORTS = Dataset(
    "reports",
    (
        Column("id", "INT"),
        Column("kind", "STRING"),
        Column("sev", "INT"),
        Column("big", "BIGINT"),
        Column("ratio", "FLOAT"),
        Column("score", "DOUBLE"),
        Column("price", "DECIMAL(8,2)"),
        Column("at", "TIMESTAMP"),
        Column("day", "DATE"),
        Column("ok", "BOOLEAN"),
        Column("lat", "DOUBLE"),
        Column("lon", "DOUBLE"),
        Column("tags", "ARRAY<STRING>"),
        Column("info", "STRUCT<a:INT,Label:STRING>"),
        Column("props", "MAP<STRING,INT>"),
        Column("userId", "INT"),
    ),
)
PLACES = Dataset(
    "places",
    (
        Column("pid", "INT"),
        Column("kind", "STRING"),
        Column("sev", "INT"),
        Column("rent", "DECIMAL(8,2)"),
        Column("plat", "DOUBLE"),
        Column("plon", "DOUBLE"),
        Column("reach", "DOUBLE"),
        Column("roomNumber", "INT"),
    ),
)
DATASETS = {dataset.name: dataset for dataset in (REPORTS, PLACES)}

KINDS = ["fire", "flood", "it's", 'a"b\\c', "日本", "", "%", "f_re"]
SPOTS = [(52.5, 13.4), (52.6, 13.5), (0.0, 180.0), (0.1, -179.9), (89.9, 10.0)]
_DAYS = ["2026-01-01", "2026-01-02", "2026-02-28"]
_TIMES = ["2026-01-01T10:00:00Z", "2026-01-01T10:00:00.000001Z", "2026-01-02T00:00:00Z"]
_PRICES = ["0.00", "1.50", "12.25", "-3.10", "99999.99"]
# Quarters are exact, also when many are added in any order.
_QUARTERS = [0.0, 0.25, 1.5, -2.75, 3.0]
_BIG = [0, 1, 2, -5, (1 << 53) + 1]


def report(draw: Random, number: int) -> Record:
    lat, lon = draw.choice(SPOTS)
    record: Record = {
        "kind": draw.choice(KINDS[:3] if draw.random() < 0.7 else KINDS),
        "sev": draw.randrange(4),
        "big": draw.choice(_BIG),
        "ratio": draw.choice(_QUARTERS),
        "score": draw.choice(_QUARTERS),
        "price": draw.choice(_PRICES),
        "at": draw.choice(_TIMES),
        "day": draw.choice(_DAYS),
        "ok": draw.random() < 0.5,
        "lat": lat,
        "lon": lon,
        "tags": [draw.choice([*KINDS[:3], None]) for _ in range(draw.randrange(4))],
        "info": {"a": draw.randrange(3), "Label": draw.choice(KINDS)},
        "props": {
            key: draw.randrange(3) for key in draw.sample(["a", "b", "c"], draw.randrange(3))
        },
        "userId": draw.randrange(3),
    }
    return {"id": number, **_with_nulls(draw, record)}


def place(draw: Random, number: int) -> Record:
    lat, lon = draw.choice(SPOTS)
    record: Record = {
        "kind": draw.choice(KINDS[:3]),
        "sev": draw.randrange(4),
        "rent": draw.choice(_PRICES),
        "plat": lat,
        "plon": lon,
        "reach": draw.choice([0.0, 5.0, 20.0, 300.0]),
        "roomNumber": draw.randrange(3),
    }
    return {"pid": number, **_with_nulls(draw, record)}


def _with_nulls(draw: Random, record: Record) -> Record:
    return {name: None if draw.random() < 0.2 else value for name, value in record.items()}


def lines(draw: Random, dataset: Dataset, most: int) -> list[str]:
    """JSON of the records of a view, positions included; one run in six has none."""
    record = report if dataset is REPORTS else place
    count = 0 if draw.random() < 1 / 6 else draw.randint(1, most)
    start = 100
    return [
        json.dumps({**record(draw, at), "_position": start + at, "_received_at": _TIMES[0]})
        for at in range(count)
    ]


PARAMETERS = {
    "pb": "BOOLEAN",
    "pi": "INT",
    "pj": "INT",
    "pl": "BIGINT",
    "pf": "FLOAT",
    "pd": "DOUBLE",
    "pm": "DECIMAL(8,2)",
    "ps": "STRING",
    "pText": "STRING",
    "pt": "TIMESTAMP",
    "py": "DATE",
    "pLat": "DOUBLE",
    "pLon": "DOUBLE",
    "pKm": "DOUBLE",
}


def arguments(draw: Random) -> Record:
    """A value for every parameter, as a subscription gives it."""
    lat, lon = draw.choice(SPOTS)
    return {
        "pb": draw.random() < 0.5,
        "pi": draw.randrange(4),
        "pj": draw.randrange(-1, 5),
        "pl": draw.choice(_BIG),
        "pf": draw.choice(_QUARTERS),
        "pd": draw.choice(_QUARTERS),
        "pm": draw.choice(_PRICES),
        "ps": draw.choice(KINDS[:3] if draw.random() < 0.7 else [*KINDS, "%e", "f%"]),
        "pText": draw.choice(KINDS),
        "pt": draw.choice(_TIMES),
        "py": draw.choice(_DAYS),
        "pLat": lat,
        "pLon": lon,
        "pKm": draw.choice([0.0, 5.0, 20.0, 300.0, 21000.0]),
    }
