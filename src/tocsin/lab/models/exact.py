"""One broker: which slot a message is in, and how many messages of the cache are alive (survival
4).

State (i, j): i of k messages are alive, the message is in slot j. Alive messages are those on
top, so that it is alive itself if j ≤ i. The printed ranges of t(7) are off by one, and i = 0 is
a state.

The chain is exact if a message that is alive stays so for an exponential time, and if new
messages are alive: clients that come and go are neither, quite, and `all` keeps messages without
clients.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from scipy.sparse import csr_array

from tocsin.errors import InvalidInput
from tocsin.lab.models.absorbing import absorbed, lifetime
from tocsin.lab.models.lifetime import Lifetime, Values
from tocsin.lab.models.rates import Rates

MOST_SLOTS = 300
Start = Literal["stationary", "binomial"]


def exact(rates: Rates, start: Start = "stationary") -> Lifetime:
    if rates.brokers != 1:
        raise InvalidInput(
            f"the exact model is of 1 broker, not {rates.brokers}",
            field="brokers",
            hint="--brokers 1, or --model multi, balanced or wide",
        )
    if rates.slots > MOST_SLOTS:
        raise InvalidInput(
            f"the exact model has at most {MOST_SLOTS} slots, not {rates.slots}",
            field="slots",
            hint="--model reduced",
        )
    return lifetime(absorbed(generator(rates), beginning(rates, start)))


def beginning(rates: Rates, start: Start) -> Values:
    """On top, among so many alive ones. The paper prints a binomial distribution of the others
    (`binomial`); what publications find is ψ (`stationary`), and then the mean is k/λb."""
    k = rates.slots
    chances = np.zeros((k + 1, k))
    if start == "binomial":
        from scipy.stats import binom  # slow to load, and seldom needed

        chances[1:, 0] = binom.pmf(np.arange(k), k - 1, 1.0 - rates.nobody)
    else:
        chances[1:, 0] = rates.alive_count[:-1]
        chances[k, 0] += rates.alive_count[k]
    return np.asarray(rates.kept * chances.ravel())


def generator(rates: Rates) -> Any:
    """As in survival, equation 2, corrected, among the transient states; `nop` has λg = μd = 0."""
    k, g, d = rates.slots, rates.regenerated, rates.degraded
    i, j = (part.ravel() for part in np.mgrid[0 : k + 1, 1 : k + 1])
    alive = j <= i
    dead = ~alive
    new = np.full(len(i), rates.published * rates.kept)
    moves = [  # rate, alive messages then, slot then
        (new, np.minimum(i + 1, k), j + 1),  # t(1): published; from slot k, out
        (g * (alive & (j > 1)), i, 1 + 0 * j),  # t(2): itself, alive
        (g * dead, i + 1, 1 + 0 * j),  # t(3): itself, dead
        (g * alive * (i - j), i, j + 1),  # t(4): an alive one below it
        (g * alive * (k - i), i + 1, j + 1),  # t(5): a dead one below it
        (g * dead * (k - j), i + 1, j + 1),  # t(5)
        (g * dead * (j - i - 1), i + 1, j),  # t(5): a dead one above it
        (d * alive, i - 1, k + 0 * j),  # t(6): itself, to the bottom
        (d * alive * (j - 1), i - 1, j - 1),  # t(7): an alive one above it
        (d * alive * (i - j), i - 1, j),  # t(7): an alive one below it
        (d * dead * i, i - 1, j - 1),  # t(7): an alive one, all are above it
    ]
    size = len(i)
    here = np.arange(size)
    whole = sum(rate for rate, _, _ in moves)
    rows, columns, values = [here], [here], [-whole]
    for rate, alive_then, slot_then in moves:
        inside = (rate > 0) & (slot_then <= k)
        rows.append(here[inside])
        columns.append((alive_then * k + slot_then - 1)[inside])
        values.append(rate[inside])
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    return csr_array(entries, shape=(size, size))
