"""What no choice of records can beat: weak duality, as docs/lab/admission.md tells.

The logs compete in two ways. A log has room for so many bytes: an entry that is to be found there
pays a price for each. And one decision is made for all logs: instead, let each window decide for
itself, and pay it a bonus for admitting a record, or a fine; the bonuses and fines of a record
add up to nothing. With both, each window has a best choice of its own, and their sum is a bound,
whatever the prices.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tocsin.lab.bounds.admission.windows import Windows
from tocsin.lab.jit.functions import compiled

ROUNDS = 300
IDLE = 1e-5  # a round that lowers the bound by a smaller part is idle
PATIENCE = 10  # idle rounds, then steps become shorter
HIGHEST_PRICE = 20.0  # of a whole log, in hits: prices may rise and fall, not run away


@compiled
def _each_window_alone(first: Any, size_bytes: Any, retention_bytes: int, reference: int) -> int:
    """Hits if every window could choose for itself: exact. Of the newest entries so many are
    there, and as all hits count alike, those of the fewest bytes are admitted."""
    hits = 0
    for window in range(first.shape[0] - 1):
        chosen = [0]  # the extra bytes of what is admitted, negative: the largest is at the front
        chosen.pop()
        left, best = retention_bytes, 0
        for entry in range(first[window + 1] - 1, first[window] - 1, -1):
            heappush(chosen, -(size_bytes[entry] - reference))
            left -= size_bytes[entry]
            while left < 0 and len(chosen) > 0:
                left -= heappop(chosen)
            if left < 0:
                break  # not even references have room
            best = max(best, len(chosen))
        hits += best
    return hits


@compiled
def _priced(
    first: Any, size_bytes: Any, bonus: Any, price: Any, retention_bytes: int, reference: int,
    takes: Any, held_bytes: Any,
) -> float:  # fmt: skip
    """Each window's best at these prices: an entry of the newest part is a hit and pays, one that
    is older has left the log and is admitted for its bonus alone. Gives the bound."""
    bound = 0.0
    for window in range(first.shape[0] - 1):
        begin, end = first[window], first[window + 1]
        value = 0.0
        for entry in range(begin, end):
            value += max(0.0, bonus[entry])
        best, oldest = value, end
        for entry in range(end - 1, begin - 1, -1):
            extra = (size_bytes[entry] - reference) * price[window]
            value += max(0.0, 1.0 + bonus[entry] - extra) - max(0.0, bonus[entry])
            value -= reference * price[window]
            if value > best:
                best, oldest = value, entry
        held = 0
        for entry in range(begin, end):
            if entry < oldest:
                takes[entry] = bonus[entry] > 0
            else:
                extra = (size_bytes[entry] - reference) * price[window]
                takes[entry] = 1.0 + bonus[entry] > extra
                held += size_bytes[entry] if takes[entry] else reference
        held_bytes[window] = held
        bound += best + price[window] * retention_bytes
    return bound


def limit_of(windows: Windows, reached: int, rounds: int = ROUNDS) -> tuple[float, Any]:
    """The lowest bound found, and which records its windows would rather have admitted: the part of
    them that would. `reached` is some number of hits that is known to be possible."""
    sizes, retention_bytes = windows.size_bytes, windows.retention_bytes
    lowest: float = _each_window_alone(
        windows.first, sizes, retention_bytes, windows.reference_bytes
    )
    entries = np.diff(windows.first)
    wanted_bytes = np.add.reduceat(sizes, windows.first[:-1])
    full = wanted_bytes > retention_bytes
    price = np.where(full, entries / wanted_bytes, 0.0)
    bonus = np.zeros(len(sizes))
    takes, held_bytes = np.zeros(len(sizes), np.bool_), np.zeros(len(entries), np.int64)
    share = np.zeros(windows.records)
    best, idle, reach, step = np.inf, 0, 0.5, 0.3
    for _ in range(rounds if full.any() else 0):
        bound = _priced(
            windows.first, sizes, bonus, price, retention_bytes, windows.reference_bytes, takes,
            held_bytes,
        )  # fmt: skip
        idle = 0 if bound < best * (1 - IDLE) else idle + 1
        if idle > PATIENCE:
            idle, reach, step = 0, reach * 0.7, step * 0.8
        here = shares(windows, takes)
        if bound < best:
            best, share = bound, here
        # Who would admit a record that others would not is paid less for it, and the others more.
        apart = takes - here[windows.record]
        total = float(apart @ apart)
        if total:
            bonus -= reach * max(bound - reached, 0.0) / total * apart
        excess = np.log(np.clip(np.maximum(held_bytes, 1) / retention_bytes, 0.05, 20.0))
        price = np.where(
            price > 0,
            np.minimum(price * np.exp(step * excess), HIGHEST_PRICE),
            np.where(held_bytes > retention_bytes, 1 / retention_bytes, 0.0),
        )
    return min(lowest, best), share


def shares(windows: Windows, takes: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Of each record, the part of its windows that would admit it."""
    taken = np.bincount(windows.record, takes, minlength=windows.records)
    return taken / np.maximum(np.diff(windows.first_of), 1)
