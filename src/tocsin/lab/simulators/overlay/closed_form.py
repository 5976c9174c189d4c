"""How long a message stays when no cache is too small: in closed form.

Under basic caching with as many slots as messages, every broker with a client of the message has
it. So it is gone when the last of all its clients leaves, wherever that is: the clients of all
brokers together are an M/M/∞ queue with arrivals at Nλ, and absorption is its first visit to 0,
from the Poisson number of clients that are there when the message is published.
"""

from __future__ import annotations

import math

from tocsin.lab.workloads.tree import TreeLoad


def absorption_without_eviction_s(load: TreeLoad) -> float:
    """The mean, with the zeros of messages that nobody wanted when they were published.

    From j clients to j − 1 it takes Σ_{i≥j} a^(i−j) j!/i! / (jμ), with a = Nρ; and the number at
    the beginning is at least j with probability P(Poisson(a) ≥ j).
    """
    clients, rate = load.brokers * load.client_load, load.departure_rate
    if clients > 700:  # longer than numbers can tell
        return math.inf
    most = math.ceil(clients + 12 * math.sqrt(clients) + 40)  # there are never more
    chances = [math.exp(-clients)]
    for number in range(1, most + 1):
        chances.append(chances[-1] * clients / number)
    total, at_least = 0.0, 0.0
    for number in range(most, 0, -1):
        at_least += chances[number]
        total += at_least * _one_less_s(number, clients, rate)
    return total


def _one_less_s(number: int, clients: float, rate: float) -> float:
    term, total, more = 1.0, 0.0, number
    while term > 1e-18 * total:
        total += term
        more += 1
        term *= clients / more
    return total / (number * rate)
