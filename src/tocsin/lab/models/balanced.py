"""Several brokers, with the copies that the caches themselves make (ours).

The paper lets the copies of other messages follow those of the one that is looked at: when it has
one copy left, so has everybody, and its last cache is pushed by k(n−1) others. That is where its
estimate falls short, by a third and more. But other messages do not know of this one. By Little's
law there are λb·MST of them, k of which are in a cache already, so that copies come into every
cache at one rate,

    λcp = λc · (messages that are elsewhere and can be reached) = λc · Σ_s y(s) · (1 − R/n) · f(s)

where y(s) is the time that messages spend in state s, times λb: what the chain itself says, if it
is run with λcp. The rate that agrees with itself is the estimate; then the caches are exactly
full, too. ψ counts copies among what comes into a cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

from tocsin.lab.models.absorbing import Steps, absorbed, lifetime
from tocsin.lab.models.lifetime import Lifetime, Values
from tocsin.lab.models.multi import beginning
from tocsin.lab.models.multisets import Multisets, generator, multisets
from tocsin.lab.models.rates import Rates, rates_of
from tocsin.lab.workloads.messages import MessageLoad
from tocsin.policies.message import MessagePolicy

CLOSE = 1e-4  # of the rate of copies
FIRST_GUESS = 0.2  # of the most: every other cache has only what this one lacks

T = TypeVar("T")


def balanced(load: MessageLoad, policy: MessagePolicy) -> Lifetime:
    rates_of(load, policy)  # refuses what cannot be modelled
    space = multisets(load.brokers, load.slots)

    def chain(copies: float) -> tuple[float, Steps]:
        rates = rates_of(load, policy, copies)
        moves = generator(space, rates, np.full(load.brokers + 1, copies))
        steps = absorbed(moves, beginning(space, rates))
        return copied(space, rates, steps.occupancy), steps

    return lifetime(agreed(chain, rates_of(load, policy)))


def agreed(consequence: Callable[[float], tuple[float, T]], rates: Rates) -> T:
    """What follows from the rate of copies that is its own consequence. More copies, shorter lives,
    fewer messages left to copy: so it lies between a guess and what follows from that. (Under `nop`
    a few copies may first bring about more, by setting caches apart; then everywhere is searched.)
    """
    if rates.together and rates.regenerated == 0.0:
        return consequence(0.0)[1]  # caches that keep all and move nothing are all alike
    known: dict[float, tuple[float, T]] = {}

    def excess(copies: float) -> float:
        if copies not in known:
            known[copies] = consequence(copies)
        return known[copies][0] - copies

    most = (rates.brokers - 1) * rates.slots * rates.client
    low, high = sorted(
        (FIRST_GUESS * most, max(0.0, FIRST_GUESS * most + excess(FIRST_GUESS * most)))
    )
    if high - low <= CLOSE * most:
        return known[FIRST_GUESS * most][1]
    if excess(low) * excess(high) > 0.0:
        low, high = 0.0, most
    from scipy.optimize import brentq  # slow to load, for all who only name a model

    root: float = brentq(excess, low, high, xtol=CLOSE * most, rtol=CLOSE)
    excess(root)
    return known[root][1]


def copied(space: Multisets, rates: Rates, occupancy: Values) -> float:
    """Copies that come into one cache, a second."""
    states = space.states[1:]
    elsewhere = 1.0 - space.copies[1:] / rates.brokers
    reached = 1.0 if rates.floods else 1.0 - np.prod(1.0 - rates.alive[states], axis=1)
    return float(rates.published * rates.client * (occupancy @ (elsewhere * reached)))
