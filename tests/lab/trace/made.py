"""Event traces made by hand, for tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from tocsin.lab.trace.events import RECORD, EventTrace
from tocsin.protocol.trace import KINDS, About


def event(at_s: float, kind: str, **fields: int) -> tuple[float, str, dict[str, int]]:
    return at_s, kind, fields


def trace_of(*events: tuple[float, str, dict[str, int]], **about: Any) -> EventTrace:
    records = np.zeros(len(events), RECORD)
    for name in ("subscriber", "subscription", "backend"):
        records[name] = -1
    for number, (at_s, kind, fields) in enumerate(events):
        records[number]["at_s"] = at_s
        records[number]["kind"] = KINDS.index(kind) if kind in KINDS else 99
        for name, value in fields.items():
            records[number][name] = value
    return EventTrace(records, About(**about))


def subscribe(at_s: float, subscriber: int, subscription: int, backend: int) -> Any:
    return event(
        at_s, "subscribe", subscriber=subscriber, subscription=subscription, backend=backend
    )


def publish(at_s: float, backend: int, position: int, size_bytes: int, **more: int) -> Any:
    told = {"backend": backend, "after": position - 1, "position": position} | more
    return event(at_s, "publish", size_bytes=size_bytes, **told)


def get(
    at_s: float, subscriber: int, subscription: int, backend: int, upto: int, **counts: int
) -> Any:
    after = upto - counts.get("hits", 0) - counts.get("misses", 0)
    who = {"subscriber": subscriber, "subscription": subscription, "backend": backend}
    return event(at_s, "get", after=after, position=upto, **who, **counts)


SMALL = (
    subscribe(0, 0, 0, 0),
    subscribe(0, 1, 1, 0),
    subscribe(0, 1, 2, 1),
    event(0, "arrive", subscriber=0),
    publish(1, 0, 1, 100),
    get(1, 0, 0, 0, 1, hits=1, hit_bytes=100),
    event(1, "ack", subscriber=0, subscription=0, backend=0, position=1),
    publish(2, 0, 2, 200),
    publish(3, 1, 1, 50),
    event(4, "leave", subscriber=0),
    publish(5, 0, 3, 300),
    event(6, "arrive", subscriber=1),
    get(6, 1, 1, 0, 3, hits=2, hit_bytes=500, misses=1, miss_bytes=100),
    get(6, 1, 2, 1, 1, hits=1, hit_bytes=50),
    event(7, "unsubscribe", subscription=2),
)
