"""One broker: the slot of a message alone, its neighbours in expectation (survival 5).

As in survival, equation 4, with the corrected ψ and a beginning of 1−π0 in slot 1 (printed:
π0). Its mean is k/λb whatever ψ is: what ψ changes is the distribution.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from tocsin.errors import InvalidInput
from tocsin.lab.models.absorbing import absorbed, lifetime
from tocsin.lab.models.lifetime import Lifetime, Values
from tocsin.lab.models.rates import Rates


def reduced(rates: Rates) -> Lifetime:
    if rates.brokers != 1:
        raise InvalidInput(
            f"the reduced model is of 1 broker, not {rates.brokers}",
            field="brokers",
            hint="--brokers 1, or --model multi, balanced or wide",
        )
    start = np.zeros(rates.slots)
    start[0] = rates.kept
    moves = slot_moves(rates, rates.published * rates.kept)
    moves -= np.diag(moves.sum(axis=1))
    return lifetime(absorbed(csr_array(moves[1:, 1:]), start))


def slot_moves(rates: Rates, pushed: float) -> Any:
    """Rates from slot to slot, 0 to k, as a matrix (survival, equation 4), with what is put on top
    of the cache from outside as `pushed`. From slot k it leads out, to 0."""
    k, g, d = rates.slots, rates.regenerated, rates.degraded
    slot = np.arange(1, k + 1)
    moves: Values = np.zeros((k + 1, k + 1))
    moves[slot, (slot + 1) % (k + 1)] += pushed + (k - slot) * g  # t(1), t(3)
    moves[slot[1:], 1] += g  # t(2)
    moves[slot[:-1], k] += rates.alive[1:-1] * d  # t(4)
    moves[slot[1:], slot[:-1]] += rates.ahead[2:] * d  # t(5)
    return moves
