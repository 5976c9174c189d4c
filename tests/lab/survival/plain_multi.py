"""The multi-broker chain without lumping: every broker by itself, (k+1)^n states, a dense matrix.
Written from the equations alone, to hold the multisets against."""

from __future__ import annotations

from collections import defaultdict
from itertools import product

import numpy as np

from tocsin.lab.models.rates import Rates, Values

State = tuple[int, ...]


def moves(rates: Rates, pushed: Values, state: State) -> dict[State, float]:
    k = rates.slots
    found: dict[State, float] = defaultdict(float)
    holders = [broker for broker, slot in enumerate(state) if slot]
    if not holders:
        return found

    def go(broker: int, slot: int, rate: float) -> None:
        then = (*state[:broker], slot, *state[broker + 1 :])
        if rate > 0 and then != state:
            found[then] += rate

    reached = 1.0 - float(np.prod([1.0 - rates.alive[slot] for slot in state if slot]))
    for broker, slot in enumerate(state):
        if slot == 0:
            go(broker, 1, rates.client * (1.0 if rates.floods else reached))
            continue
        down = pushed[len(holders)] + (k - slot) * rates.regenerated
        go(broker, slot + 1 if slot < k else 0, down)
        go(broker, 1, rates.regenerated)
        go(broker, k, rates.alive[slot] * rates.degraded)
        if slot > 1:
            go(broker, slot - 1, rates.ahead[slot] * rates.degraded)
    for keeps in product((False, True), repeat=len(holders)):
        kept = dict(zip(holders, keeps, strict=True))
        chance = float(np.prod([rates.kept if one else 1.0 - rates.kept for one in keeps]))
        then = tuple(
            (slot + 1 if slot < k else 0) if kept.get(broker) else slot
            for broker, slot in enumerate(state)
        )
        if then != state and chance > 0:
            found[then] += rates.published * chance
    return found


def transient(rates: Rates, pushed: Values) -> tuple[list[State], Values, Values]:
    """States, the generator among them, and the beginning."""
    states = [one for one in product(range(rates.slots + 1), repeat=rates.brokers) if any(one)]
    numbers = {state: number for number, state in enumerate(states)}
    matrix = np.zeros((len(states), len(states)))
    start = np.zeros(len(states))
    for state, number in numbers.items():
        for then, rate in moves(rates, pushed, state).items():
            matrix[number, number] -= rate
            if then in numbers:
                matrix[number, numbers[then]] += rate
        if max(state) == 1:
            copies = sum(state)
            start[number] = rates.kept**copies * (1 - rates.kept) ** (rates.brokers - copies)
    return states, matrix, start
