"""The objects of an event trace: when each was published, and its size.

A broker without a cache passes results over without a look, so that a trace of it may tell sizes
late (when somebody got them) or never. What was never told is taken to be of average size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tocsin.errors import InvalidInput
from tocsin.lab.trace.events import EventTrace
from tocsin.protocol.trace import PUBLISH, SIZE

Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Published:
    """One row an object, in the order of the trace."""

    record: Numbers  # the record that tells of it
    backend: Numbers
    position: Numbers
    size_bytes: Numbers
    guessed: int  # how many sizes were never told


def published(trace: EventTrace) -> Published:
    records = trace.records
    places = np.flatnonzero(records["kind"] == PUBLISH)
    published = records[places]
    objects = published["position"] - published["after"]
    backend = np.repeat(published["backend"], objects).astype(np.int64)
    position = np.repeat(published["after"] + 1, objects) + count_up(objects)
    size_bytes = np.repeat(published["size_bytes"], objects)
    _tell(size_bytes, backend, position, trace.of(SIZE))
    unknown = size_bytes == 0
    guessed = int(unknown.sum())
    if guessed:
        size_bytes[unknown] = _average(backend, size_bytes)[backend[unknown]]
    return Published(np.repeat(places, objects), backend, position, size_bytes, guessed)


def number(backend: NDArray[Any], position: NDArray[Any]) -> tuple[Numbers, int]:
    """A dense number for each object, and how many objects there are."""
    order = np.lexsort((position, backend))
    grouped = np.stack((backend[order], position[order]))
    fresh = (np.diff(grouped, axis=1, prepend=grouped[:, :1]) != 0).any(axis=0)
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(fresh)
    return numbers, int(fresh.sum()) + 1 if len(order) else 0


def count_up(lengths: NDArray[Any]) -> Numbers:
    """0, 1, … for each length, one after the other."""
    starts = np.cumsum(lengths) - lengths
    counted: Numbers = np.arange(int(lengths.sum())) - np.repeat(starts, lengths)
    return counted


def _tell(size_bytes: Numbers, backend: Numbers, position: Numbers, later: NDArray[Any]) -> None:
    """Fill in the sizes that were told later."""
    if not len(later):
        return
    numbers, count = number(
        np.concatenate((backend, later["backend"])), np.concatenate((position, later["position"]))
    )
    sizes = np.zeros(count, np.int64)
    sizes[numbers[len(backend) :]] = later["size_bytes"]
    size_bytes[:] = np.where(size_bytes == 0, sizes[numbers[: len(backend)]], size_bytes)


def _average(backend: Numbers, size_bytes: Numbers) -> Numbers:
    """The mean size of each backend subscription's objects; of all, where none was told."""
    known = size_bytes > 0
    if not known.any():
        raise InvalidInput(
            "the trace tells no object's size",
            field="trace",
            hint="the broker cached nothing and nobody got anything: record while people get",
        )
    count = np.bincount(backend[known], minlength=int(backend.max()) + 1)
    total = np.bincount(backend[known], size_bytes[known], minlength=len(count))
    mean = np.where(count > 0, total / np.maximum(count, 1), size_bytes[known].mean())
    return np.maximum(np.rint(mean), 1).astype(np.int64)
