"""What a workload asks of a cache, without its clock: arrivals, and the gets between them.

A cache's content grows only when an object arrives, so the order of arrivals and gets is all that
an offline optimum depends on. An object is numbered by its place in its backend subscription, an
arrival by its rank among all arrivals. A get of one backend subscription takes the objects from its
mark up to the newest: it is a mark and the number of arrivals before it, never a list of objects.

This module must not know budgets, prices or policies.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tocsin.lab.jit.functions import compiled
from tocsin.lab.workloads.workload import OFFLINE, ONLINE, PUBLISH, SUBSCRIBE, Workload

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float64]


class Demand(NamedTuple):
    """Objects and gets, each sorted by backend subscription and then by time.

    `first_object[i] : first_object[i + 1]` are the objects of backend subscription i, and so for
    gets. Numbers of gets are local: 0 is the backend subscription's first. (A named tuple, since
    compiled functions take it whole.)
    """

    first_object: Longs
    size_bytes: Longs
    upto_bytes: Longs  # of all objects before this one, one more for the end
    online: Ints  # subscribers that take the object the moment it arrives
    rank: Ints  # of its arrival among all arrivals
    next_get: Ints  # the first get after the arrival
    last_get: Ints  # the last get that takes it; next_get - 1 if none does
    later: Ints  # how many later gets take it
    oldest: Ints  # how many of these begin with it
    first_get: Longs
    mark: Ints  # a get takes the objects mark, mark + 1, … up to the newest
    arrivals_before: Ints  # a get's place in the order of arrivals
    arrival_backend: Longs  # by rank
    get_backend: Longs  # all gets in order of time
    gets_before: Longs  # how many gets come before the arrival of this rank; one more for the end

    @property
    def objects(self) -> int:
        return len(self.size_bytes)

    @property
    def gets(self) -> int:
        """One for each object taken at once, one for each return that finds something new."""
        return int(self.online.sum()) + len(self.mark)

    @property
    def deliveries(self) -> Longs:
        """How often each object is taken, at once or later."""
        return self.online.astype(np.int64) + self.later


def demand_of(workload: Workload) -> Demand:
    """Replay who is online and attached, and keep only what a cache could ever serve."""
    counts = np.zeros(2, np.int64)
    arrived, got = np.zeros((0, 5), np.int64), np.zeros((0, 3), np.int64)
    for keep in (False, True):
        _replay(
            workload.kind,
            workload.subject,
            workload.value,
            workload.owners,
            workload.backends,
            workload.subscribers,
            counts,
            arrived,
            got,
            keep,
        )
        if not keep:
            arrived, got = np.zeros((counts[0], 5), np.int64), np.zeros((counts[1], 3), np.int64)
    return _sorted(arrived, got, workload.backends)


def _sorted(arrived: Longs, got: Longs, backends: int) -> Demand:
    arrival_backend, get_backend = arrived[:, 0], got[:, 0]
    object_order = np.argsort(arrival_backend, kind="stable")
    get_order = np.argsort(get_backend, kind="stable")
    first_object = _starts(arrival_backend, backends)
    first_get = _starts(get_backend, backends)
    size_bytes = arrived[object_order, 1]
    next_get = arrived[object_order, 3].astype(np.int32)
    mark = got[get_order, 1].astype(np.int32)
    last_get, later, oldest = (np.zeros(len(arrived), np.int32) for _ in range(3))
    _later(first_object, first_get, next_get, mark, last_get, later, oldest)
    return Demand(
        first_object=first_object,
        size_bytes=size_bytes,
        upto_bytes=np.concatenate(([0], np.cumsum(size_bytes))),
        online=arrived[object_order, 2].astype(np.int32),
        rank=object_order.astype(np.int32),
        next_get=next_get,
        last_get=last_get,
        later=later,
        oldest=oldest,
        first_get=first_get,
        mark=mark,
        arrivals_before=got[get_order, 2].astype(np.int32),
        arrival_backend=arrival_backend.copy(),
        get_backend=get_backend.copy(),
        gets_before=np.append(arrived[:, 4], len(got)),
    )


def _starts(backend: Longs, backends: int) -> Longs:
    return np.concatenate(([0], np.cumsum(np.bincount(backend, minlength=backends))))


@compiled
def _replay(
    kind: NDArray[np.int8],
    subject: Ints,
    value: Ints,
    owners: Ints,
    backends: int,
    subscribers: int,
    counts: Longs,
    arrived: Longs,
    got: Longs,
    keep: bool,
) -> None:
    """Count objects and gets into `counts`; if `keep`, also write them in order of time.

    A row of `arrived` is backend, size, online, gets of that backend before, gets of all before;
    a row of `got` is backend, mark, arrivals of all before.
    """
    slots = owners.shape[0]
    attached = np.zeros(backends, np.int64)
    present = np.zeros(backends, np.int64)
    newest = np.zeros(backends, np.int64)
    returns = np.zeros(backends, np.int64)
    online = np.zeros(subscribers, np.bool_)
    backend_of = np.full(slots, -1, np.int64)
    marker = np.zeros(slots, np.int64)
    head = np.full(subscribers, -1, np.int64)
    following = np.full(slots, -1, np.int64)
    previous = np.full(slots, -1, np.int64)
    arrivals = 0
    gets = 0
    for event in range(kind.shape[0]):
        what = kind[event]
        who = subject[event]
        if what == PUBLISH:
            if attached[who] == 0:
                continue
            if keep:
                arrived[arrivals, 0] = who
                arrived[arrivals, 1] = value[event]
                arrived[arrivals, 2] = present[who]
                arrived[arrivals, 3] = returns[who]
                arrived[arrivals, 4] = gets
            newest[who] += 1
            arrivals += 1
        elif what == ONLINE:
            online[who] = True
            slot = head[who]
            while slot >= 0:
                backend = backend_of[slot]
                present[backend] += 1
                if marker[slot] < newest[backend]:
                    if keep:
                        got[gets, 0] = backend
                        got[gets, 1] = marker[slot]
                        got[gets, 2] = arrivals
                    returns[backend] += 1
                    gets += 1
                slot = following[slot]
        elif what == OFFLINE:
            online[who] = False
            slot = head[who]
            while slot >= 0:
                backend = backend_of[slot]
                present[backend] -= 1
                marker[slot] = newest[backend]
                slot = following[slot]
        elif what == SUBSCRIBE:
            owner = owners[who]
            backend = value[event]
            backend_of[who] = backend
            marker[who] = newest[backend]
            previous[who] = -1
            following[who] = head[owner]
            if head[owner] >= 0:
                previous[head[owner]] = who
            head[owner] = who
            attached[backend] += 1
            if online[owner]:
                present[backend] += 1
        else:
            owner = owners[who]
            backend = backend_of[who]
            if previous[who] >= 0:
                following[previous[who]] = following[who]
            else:
                head[owner] = following[who]
            if following[who] >= 0:
                previous[following[who]] = previous[who]
            attached[backend] -= 1
            if online[owner]:
                present[backend] -= 1
    counts[0] = arrivals
    counts[1] = gets


@compiled
def _later(
    first_object: Longs,
    first_get: Longs,
    next_get: Ints,
    mark: Ints,
    last_get: Ints,
    later: Ints,
    oldest: Ints,
) -> None:
    """For each object, the last get that takes it, how many do and how many begin with it.

    A get that takes an object takes all newer ones there are, so the last get of an object is the
    latest one whose mark is not beyond it: a running maximum over the marks.
    """
    for backend in range(first_object.shape[0] - 1):
        start, end = first_object[backend], first_object[backend + 1]
        gets = first_get[backend]
        amount = first_get[backend + 1] - gets
        latest = np.full(end - start, -1, np.int64)
        for get in range(amount):
            latest[mark[gets + get]] = get
            oldest[start + mark[gets + get]] += 1
        last = -1
        marked = 0
        for place in range(end - start):
            last = max(last, latest[place])
            marked += oldest[start + place]
            last_get[start + place] = max(last, next_get[start + place] - 1)
            # Gets before the arrival all have marks up to here, so they are counted in `marked`.
            later[start + place] = marked - next_get[start + place]
