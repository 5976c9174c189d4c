"""A request trace: objects as they were asked for, with their sizes. What cache research shares.

`deliveries` makes one of an event trace: one request for each object that the broker delivered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tocsin.errors import InvalidInput
from tocsin.lab.trace.events import EventTrace
from tocsin.lab.trace.objects import count_up, number, published
from tocsin.protocol.trace import GET, PUBLISH


@dataclass(frozen=True, slots=True)
class RequestTrace:
    at_s: NDArray[np.float64]
    object: NDArray[np.uint64]
    size_bytes: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.object)

    @property
    def objects(self) -> int:
        return len(np.unique(self.object))

    def check(self) -> None:
        """Raise at the first record that cannot be true."""
        if not len(self):
            raise InvalidInput("the trace is empty: it has no requests", field="trace")
        finite = np.isfinite(self.at_s) & (self.at_s >= 0)
        _none(~finite, "its time is not a number of seconds")
        late = np.diff(self.at_s, prepend=self.at_s[0]) < 0
        _none(late, "its time is before the previous record's")
        _none(self.size_bytes <= 0, "its size_bytes is not above 0")


def deliveries(trace: EventTrace) -> RequestTrace:
    """One request an object and delivery: what gets answered, and what was sent at its arrival."""
    records = trace.records
    kind = records["kind"]
    delivered = records[(kind == GET) | ((kind == PUBLISH) & (records["hits"] > 0))]
    if not len(delivered):
        raise InvalidInput("nothing was delivered in this trace: there are no requests")
    is_get = delivered["kind"] == GET
    objects = np.where(is_get, delivered["hits"] + delivered["misses"], 1)
    times = np.where(is_get, 1, delivered["hits"])
    # Up to its position: of a get's range, retention may have taken the first objects.
    whose = np.repeat(np.arange(len(delivered)), objects)
    position = (delivered["position"] - objects + 1)[whose] + count_up(objects)
    numbers, sizes = _number_and_measure(trace, delivered, whose, position)
    repeats = times[whose]
    return RequestTrace(
        at_s=np.repeat(delivered["at_s"][whose], repeats),
        object=np.repeat(numbers, repeats).astype(np.uint64),
        size_bytes=np.repeat(sizes[numbers], repeats),
    )


def _number_and_measure(
    trace: EventTrace, delivered: NDArray[Any], whose: NDArray[Any], position: NDArray[Any]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Delivered objects as numbers, and the size of each number. What was published before the
    recording measures what the first get of it says: the average of its objects."""
    known = published(trace)
    backend = delivered["backend"][whose]
    numbers, count = number(
        np.concatenate((known.backend, backend)), np.concatenate((known.position, position))
    )
    there, numbers = numbers[: len(known.backend)], numbers[len(known.backend) :]
    average = (delivered["hit_bytes"] + delivered["miss_bytes"]) // np.maximum(
        delivered["hits"] + delivered["misses"], 1
    )
    sizes = np.zeros(count, np.int64)
    sizes[numbers[::-1]] = np.maximum(average[whose], 1)[::-1]  # the first mention wins
    sizes[there] = known.size_bytes
    return numbers, sizes


def _none(wrong: NDArray[np.bool_], reason: str) -> None:
    if wrong.any():
        raise InvalidInput(f"record {int(np.argmax(wrong))} of the trace: {reason}", field="trace")
