"""From an event trace to a workload that the simulator plays.

What the model does by itself is left out: whoever is online takes each object as it arrives, so
gets and acknowledgements of those who are connected say nothing new. A get of somebody without a
connection (by REST) is a short visit. Nothing that was published before the recording exists here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tocsin.errors import InvalidInput
from tocsin.lab.trace.events import EventTrace, within
from tocsin.lab.trace.objects import Published, published
from tocsin.lab.workloads import workload
from tocsin.lab.workloads.workload import Workload
from tocsin.protocol.trace import ARRIVE, GET, LEAVE, PUBLISH, SUBSCRIBE, UNSUBSCRIBE

LARGEST_BYTES = 2**31 - 1
SAME = {  # kinds that both know: the workload's kind, and the field of its subject
    SUBSCRIBE: (workload.SUBSCRIBE, "subscription"),
    UNSUBSCRIBE: (workload.UNSUBSCRIBE, "subscription"),
    ARRIVE: (workload.ONLINE, "subscriber"),
    LEAVE: (workload.OFFLINE, "subscriber"),
}


def to_workload(trace: EventTrace) -> Workload:
    records = trace.records
    subscribed = trace.of(SUBSCRIBE)
    if not len(subscribed):
        raise InvalidInput("nobody is subscribed in this trace: there is nothing to play")
    objects = published(trace)
    _check_sizes(objects)
    visits = _visits(records)
    counts = np.isin(records["kind"], list(SAME)).astype(np.int64)
    counts[visits] = 2
    np.add.at(counts, objects.record, 1)
    place = np.repeat(np.arange(len(records)), counts)  # of each event, its record
    kind, subject, value = (np.zeros(len(place), np.int64) for _ in range(3))
    first = np.cumsum(counts) - counts  # of each record, its first event
    for theirs, (ours, field) in SAME.items():
        chosen = np.flatnonzero(records["kind"] == theirs)
        kind[first[chosen]], subject[first[chosen]] = ours, records[field][chosen]
    chosen = np.flatnonzero(records["kind"] == SUBSCRIBE)
    value[first[chosen]] = records["backend"][chosen]
    for step, ours in enumerate((workload.ONLINE, workload.OFFLINE)):
        kind[first[visits] + step], subject[first[visits] + step] = (
            ours,
            records["subscriber"][visits],
        )
    published_at = np.flatnonzero(records["kind"][place] == PUBLISH)
    subject[published_at], value[published_at] = objects.backend, objects.size_bytes
    kind[published_at] = workload.PUBLISH
    return _dense(trace, records["at_s"][place], kind, subject, value)


def _visits(records: NDArray[Any]) -> NDArray[np.int64]:
    """Gets of subscribers that are not connected."""
    places = np.flatnonzero(np.isin(records["kind"], (ARRIVE, LEAVE, GET)))
    kind = records["kind"][places]
    online = within(records["subscriber"][places], kind, ARRIVE, LEAVE)
    gets: NDArray[np.int64] = places[(kind == GET) & (online == 0)]
    return gets


def _dense(
    trace: EventTrace,
    at: NDArray[np.float64],
    kind: NDArray[np.int64],
    subject: NDArray[np.int64],
    value: NDArray[np.int64],
) -> Workload:
    """Whatever numbers a trace uses, a workload counts from 0."""
    subscribed = trace.of(SUBSCRIBE)
    frontends, first = np.unique(subscribed["subscription"], return_index=True)
    subscribers = np.unique(trace.records["subscriber"])
    subscribers = subscribers[subscribers >= 0]
    backends = np.unique(np.concatenate((subscribed["backend"], trace.of(PUBLISH)["backend"])))
    whose = {
        workload.PUBLISH: backends,
        workload.ONLINE: subscribers,
        workload.OFFLINE: subscribers,
        workload.SUBSCRIBE: frontends,
        workload.UNSUBSCRIBE: frontends,
    }
    numbered = np.empty(len(subject), np.int32)
    for event_kind, known in whose.items():
        chosen = kind == event_kind
        numbered[chosen] = np.searchsorted(known, subject[chosen])
    joins = kind == workload.SUBSCRIBE
    value[joins] = np.searchsorted(backends, value[joins])
    return Workload(
        at=at.astype(np.float64),
        kind=kind.astype(np.int8),
        subject=numbered,
        value=value.astype(np.int32),
        owners=np.searchsorted(subscribers, subscribed["subscriber"][first]).astype(np.int32),
        backends=len(backends),
        subscribers=len(subscribers),
        duration_s=trace.duration_s,
    ).check()


def _check_sizes(objects: Published) -> None:
    too_large = objects.size_bytes > LARGEST_BYTES
    if too_large.any():
        record = int(objects.record[np.argmax(too_large)])
        raise InvalidInput(
            f"record {record} of the trace: its size_bytes is above {LARGEST_BYTES}, the most that"
            " the simulator takes",
            field="trace",
        )
