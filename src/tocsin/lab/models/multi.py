"""Several brokers, as the paper has it (survival 6, equation 5): every other message is copied as
often as the one that is looked at, so that its caches are pushed by copies of ⌊k(n/R − 1)⌋
others, where R is the number of its own copies.

With f_sub = λc(1 − ∏(1 − π^alive)) over the caches that have it. A copy is made when a client
asks for a message that its broker does not have; whether every client or only the first asks, the
paper's rate is the same.
"""

from __future__ import annotations

import numpy as np

from tocsin.lab.models.absorbing import absorbed, lifetime
from tocsin.lab.models.lifetime import Lifetime, Values
from tocsin.lab.models.multisets import Multisets, generator, multisets
from tocsin.lab.models.rates import Rates


def multi(rates: Rates) -> Lifetime:
    space = multisets(rates.brokers, rates.slots)
    chain = generator(space, rates, copies_by_replicas(rates))
    return lifetime(absorbed(chain, beginning(space, rates)))


def copies_by_replicas(rates: Rates) -> Values:
    """λcp of survival 6, by the number of copies; 0 copies: nowhere."""
    copies = np.arange(1, rates.brokers + 1)
    others = np.floor(rates.slots * (rates.brokers / copies - 1.0) + 1e-9)
    held = 1.0 if rates.floods else 1.0 - rates.nobody**copies
    return np.concatenate([[0.0], others * held * rates.client])


def beginning(space: Multisets, rates: Rates) -> Values:
    """On top of the caches that keep it, any number of them."""
    chances = np.zeros(len(space.states))
    for copies in range(rates.brokers + 1):
        chance = rates.kept**copies * (1.0 - rates.kept) ** (rates.brokers - copies)
        chances[space.on_top(copies)] = space.choose[rates.brokers, copies] * chance
    return chances[1:]
