"""The best schedule of a tiny workload by trying all of them, and such workloads.

Told naively and on its own, so that the bounds can be held against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
from hypothesis import strategies as st

from tocsin.lab.workloads.workload import OFFLINE, ONLINE, PUBLISH, SUBSCRIBE, UNSUBSCRIBE, Workload

Arrival = tuple[int, int, int]  # backend, size, how many take it at once
Get = tuple[int, int]  # backend, the object it begins with


def random_workload(seed: int, backends: int, publications: int) -> Workload:
    """Everybody subscribes to something first; then mostly publications and coming and going."""
    random = np.random.default_rng(seed)
    owners = [0, 0, 1, 2, 3]
    events = [(0.0, SUBSCRIBE, slot, slot % backends) for slot in range(len(owners))]
    online: set[int] = set()
    subscribed = set(range(len(owners)))
    at = 1.0
    while publications:
        at += 1.0
        what = random.choice(["publication", "presence", "subscription"], p=[0.55, 0.35, 0.1])
        who = int(random.integers(len(owners)))
        if what == "publication":
            publications -= 1
            size = int(random.choice([1, 2, 3, 5, 7, 9, 20]))
            events.append((at, PUBLISH, int(random.integers(backends)), size))
        elif what == "presence":
            who = owners[who]
            events.append((at, OFFLINE if who in online else ONLINE, who, 0))
            online ^= {who}
        elif who in subscribed:
            events.append((at, UNSUBSCRIBE, who, 0))
            subscribed.remove(who)
        else:
            events.append((at, SUBSCRIBE, who, int(random.integers(backends))))
            subscribed.add(who)
    events += [(at + 1, ONLINE, who, 0) for who in set(owners) - online]
    return Workload.of(events, owners, backends, len(set(owners)))


def tiny_workloads(backends: int = 3, publications: int = 8) -> st.SearchStrategy[Workload]:
    """From seeds, since many small draws would take longer than the tests themselves."""
    counts = st.integers(1, publications)
    return st.builds(random_workload, st.integers(0, 2**32), st.integers(1, backends), counts)


def story(workload: Workload) -> list[Arrival | Get]:
    """The workload as a cache sees it, told naively: one marker for each frontend subscription."""
    told: list[Arrival | Get] = []
    online: set[int] = set()
    backend_of: dict[int, int] = {}
    marker: dict[int, int] = {}
    made = [0] * workload.backends
    for kind, subject, value in zip(workload.kind, workload.subject, workload.value, strict=True):
        subject, value = int(subject), int(value)
        if kind == SUBSCRIBE:
            backend_of[subject], marker[subject] = value, made[value]
        elif kind == UNSUBSCRIBE:
            del backend_of[subject]
        elif kind == OFFLINE:
            online.remove(subject)
        elif kind == ONLINE:
            online.add(subject)
            for slot, backend in backend_of.items():
                if workload.owners[slot] == subject and marker[slot] < made[backend]:
                    told.append((backend, marker[slot]))
                    marker[slot] = made[backend]
        elif subject in backend_of.values():
            there = [
                slot
                for slot, backend in backend_of.items()
                if backend == subject and int(workload.owners[slot]) in online
            ]
            told.append((subject, value, len(there)))
            made[subject] += 1
            for slot in there:
                marker[slot] = made[subject]
    return told


def best_schedule(
    workload: Workload,
    worth: tuple[float, float],
    bonus: float,
    budget_bytes: int,
    price: Sequence[float] | None = None,
) -> float:
    """By trying everything. A delivery is worth worth[0] + worth[1] · size, a whole get the bonus.

    With prices, one for each arrival, room is not limited but paid for.
    """
    sizes: list[list[int]] = [[] for _ in range(workload.backends)]
    states = {(0,) * workload.backends: 0.0}  # the oldest cached object of each: value so far
    arrivals = 0
    for step in story(workload):
        after: dict[tuple[int, ...], float] = {}
        if len(step) == 2:
            backend, begin = step
            for tails, value in states.items():
                hit = sizes[backend][max(begin, tails[backend]) :]
                whole = tails[backend] <= begin
                after[tails] = value + len(hit) * worth[0] + sum(hit) * worth[1] + whole * bonus
        else:
            backend, size, takers = step
            sizes[backend].append(size)
            for tails, value in states.items():
                tails_after = (range(tail, len(sizes[i]) + 1) for i, tail in enumerate(tails))
                for chosen in product(*tails_after):
                    held = sum(sum(sizes[i][tail:]) for i, tail in enumerate(chosen))
                    admitted = chosen[backend] < len(sizes[backend])
                    if (admitted and size > budget_bytes) or (not price and held > budget_bytes):
                        continue
                    gain = admitted * takers * (worth[0] + worth[1] * size + bonus)
                    paid = held * price[arrivals] if price else 0.0
                    after[chosen] = max(after.get(chosen, -np.inf), value + gain - paid)
            arrivals += 1
        states = after
    return max(states.values())
