"""An event trace: what happened at one broker, in order, as one record an event.

`check` finds the first record that cannot be true, and says which and why. It is the only gate:
whatever reads a checked trace need not doubt it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tocsin.errors import InvalidInput
from tocsin.protocol.trace import (
    ACK,
    ARRIVE,
    FIELDS,
    GET,
    KINDS,
    LEAVE,
    LOST,
    OPEN,
    PUBLISH,
    QUIET,
    SIZE,
    SUBSCRIBE,
    UNSUBSCRIBE,
    About,
)

RECORD = np.dtype([(name, {"d": "<f8", "i": "<i4", "q": "<i8"}[code]) for name, code in FIELDS])
"""The same bytes that a broker sends."""

COUNTS = ("size_bytes", "hits", "hit_bytes", "misses", "miss_bytes")
NAMES_WHO = {
    "subscriber": (SUBSCRIBE, ARRIVE, LEAVE, GET, ACK),
    "subscription": (SUBSCRIBE, UNSUBSCRIBE, GET, ACK),
    "backend": (SUBSCRIBE, PUBLISH, SIZE, GET, ACK),
}
"""Which kinds of event must say which subscriber, subscription and backend subscription."""


class Live(Struct, frozen=True, kw_only=True):
    """What the broker itself measured over the trace."""

    gets: int
    gets_with_miss: int
    hits: int
    hit_bytes: int
    misses: int
    miss_bytes: int
    sent: int  # results sent inline, at their arrival: no get was needed
    sent_bytes: int

    @property
    def hit_ratio(self) -> float:
        """Of all deliveries: what was sent at its arrival had no need to be fetched again."""
        served = self.hits + self.sent
        return served / (served + self.misses) if served + self.misses else 0.0


@dataclass(frozen=True, slots=True)
class EventTrace:
    records: NDArray[Any]  # of RECORD
    about: About

    def __len__(self) -> int:
        return len(self.records)

    @property
    def duration_s(self) -> float:
        last = float(self.records["at_s"][-1]) if len(self.records) else 0.0
        return max(last, self.about.duration_s)

    @property
    def lost(self) -> int:
        """Events that the recording had no room for."""
        return int(self.of(LOST)["position"].sum())

    def of(self, kind: int) -> NDArray[Any]:
        events: NDArray[Any] = self.records[self.records["kind"] == kind]
        return events

    def counts(self) -> dict[str, int]:
        """How many events of each kind."""
        counts = np.bincount(self.records["kind"], minlength=len(KINDS))
        return {name: int(counts[kind]) for kind, name in enumerate(KINDS) if kind != QUIET}

    def live(self) -> Live:
        gets, published = self.of(GET), self.of(PUBLISH)
        return Live(
            gets=len(gets),
            gets_with_miss=int((gets["misses"] > 0).sum()),
            hits=int(gets["hits"].sum()),
            hit_bytes=int(gets["hit_bytes"].sum()),
            misses=int(gets["misses"].sum()),
            miss_bytes=int(gets["miss_bytes"].sum()),
            sent=int(published["hits"].sum()),
            sent_bytes=int(published["hit_bytes"].sum()),
        )

    def opened(self) -> tuple[int, int]:
        """How often pages were opened at the broker, and how often they were there."""
        opened = self.of(OPEN)
        return len(opened), int(opened["hits"].sum())

    def check(self) -> None:
        """Raise at the first record that cannot be true."""
        if not len(self.records):
            raise InvalidInput("the trace is empty: it has no events", field="trace")
        _check_numbers(self.records)
        _check_turns(self.records, "subscription", SUBSCRIBE, UNSUBSCRIBE, (GET, ACK), "subscribed")
        _check_turns(self.records, "subscriber", ARRIVE, LEAVE, (), "online")
        _check_positions(self.records)


def _check_numbers(records: NDArray[Any]) -> None:
    at_s, kind = records["at_s"], records["kind"]
    _none(~np.isfinite(at_s) | (at_s < 0), records, "its time is not a number of seconds")
    _none(np.diff(at_s, prepend=at_s[0]) < 0, records, "its time is before the previous record's")
    _none((kind < 0) | (kind >= len(KINDS)), records, "no event is of that kind")
    for name in COUNTS:
        _none(records[name] < 0, records, f"its {name} is negative")
    for name, kinds in NAMES_WHO.items():
        _none(np.isin(kind, kinds) & (records[name] < 0), records, f"it names no {name}")
    ranged = (kind == PUBLISH) | (kind == GET)
    _none(ranged & (records["position"] <= records["after"]), records, "its positions are none")
    _none((kind == SIZE) & (records["size_bytes"] == 0), records, "its size_bytes is 0")


def _check_turns(
    records: NDArray[Any], who: str, begin: int, end: int, between: tuple[int, ...], state: str
) -> None:
    """`begin` and `end` take turns for each, and the others happen between them."""
    kinds = records["kind"]
    places = np.flatnonzero(np.isin(kinds, (begin, end, *between)))
    kind, inside = kinds[places], within(records[who][places], kinds[places], begin, end)
    wrong_begin = (kind == begin) & (inside > 0)
    wrong_rest = (kind != begin) & (inside <= 0)
    wrong = places[wrong_begin | wrong_rest]
    if len(wrong):
        place = int(wrong[0])
        number = records[who][place]
        problem = f"is {state} already" if kinds[place] == begin else f"is not {state}"
        raise _error(records, place, f"{who} {number} {problem}")


def within(who: NDArray[Any], kind: NDArray[Any], begin: int, end: int) -> NDArray[Any]:
    """For each event, how often its own `begin` exceeded its `end` just before it."""
    step = (kind == begin).astype(np.int64) - (kind == end)
    order = np.argsort(who, kind="stable")
    before = np.cumsum(step[order]) - step[order]
    grouped = who[order]
    first = np.flatnonzero(np.diff(grouped, prepend=-2) != 0)
    length = np.diff(np.append(first, len(grouped)))
    inside = np.empty(len(who), np.int64)
    inside[order] = before - np.repeat(before[first], length)
    return inside


def _check_positions(records: NDArray[Any]) -> None:
    """Each backend subscription's objects come in the order of their positions."""
    places = np.flatnonzero(records["kind"] == PUBLISH)
    published = records[places]
    order = np.argsort(published["backend"], kind="stable")
    ordered = published[order]
    same = ordered["backend"][1:] == ordered["backend"][:-1]
    late = same & (ordered["after"][1:] < ordered["position"][:-1])
    if late.any():
        place = int(places[order[1:][late]].min())
        raise _error(records, place, "a later position of its backend subscription came before")


def _none(wrong: NDArray[np.bool_], records: NDArray[Any], reason: str) -> None:
    if wrong.any():
        raise _error(records, int(np.argmax(wrong)), reason)


def _error(records: NDArray[Any], place: int, reason: str) -> InvalidInput:
    kind = int(records["kind"][place])
    name = KINDS[kind] if 0 <= kind < len(KINDS) else f"kind {kind}"
    at_s = float(records["at_s"][place])
    return InvalidInput(
        f"record {place} of the trace ({name} at {at_s:g} s): {reason}", field="trace"
    )
