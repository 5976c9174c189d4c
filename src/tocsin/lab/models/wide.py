"""Many brokers, large caches: brokers apart from each other, on one clock (ours).

As in `balanced`, copies come into every cache at the rate that agrees with itself. What couples
brokers beyond that is the publications, which push a message in all its caches at the same
moments: let them be the ticks of a clock. Between them brokers know nothing of each other, and
neither do they at a tick, where each keeps the publication or not. So the probability that all n
are without the message is a power of what one of them says, and a message is gone at the first
moment that they are. That moment is a renewal: with A(j) the probability that all are without it
j ticks after its publication, and G(j) the same, j ticks after all were without it (a client
would have it copied again, from nowhere),

    A(j) = Σ_i f(i) · G(j − i)

which gives f, the probability that it is gone after i ticks, one by one. Nothing grows with n,
and k may be large: beyond `FINEST` slots several are taken as one. Ticks are divided, so that a
message seldom goes and comes within a part of one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from scipy.linalg import expm
from scipy.special import gammainc

from tocsin.lab.models.balanced import agreed
from tocsin.lab.models.lifetime import Lifetime, Values
from tocsin.lab.models.rates import Rates, rates_of
from tocsin.lab.models.reduced import slot_moves
from tocsin.lab.workloads.messages import MessageLoad
from tocsin.policies.message import MessagePolicy

FINEST = 200  # slots
ARRIVALS = 0.1  # of clients of a message, at all brokers, in a part of a tick
MOST_PARTS = 40
LEFT = 1e-4
STEADY = 1e-3  # relative change of the hazard from one quarter of the curve to the next
LONGEST = 64  # times the slots, in ticks
POINTS = 512


class Ticks(Struct, frozen=True):
    """When messages are gone, in parts of ticks."""

    part_s: float
    gone: Values  # f: probabilities
    alive: Values  # what is left after each
    hazard: float  # in a part, after the last

    @property
    def mean_s(self) -> float:
        rest = self.alive[-1] / self.hazard if self.hazard > 0.0 else 0.0
        return float(self.part_s * (self.alive[:-1].sum() + rest))


def wide(
    load: MessageLoad, policy: MessagePolicy, finest: int = FINEST, most_parts: int = MOST_PARTS
) -> Lifetime:
    """Coarser is faster."""
    rates_of(load, policy)  # refuses what cannot be modelled
    grouped = max(1.0, load.slots / finest)
    coarse = replace(
        load,
        slots=min(load.slots, finest),
        publication_rate=load.publication_rate / grouped,
    )

    def consequence(copies: float) -> tuple[float, Ticks]:
        rates = rates_of(coarse, policy, copies)
        reached = _reached(rates, copies)
        ticks = _ticks(rates, copies, reached, most_parts)
        elsewhere = max(0.0, rates.published * ticks.mean_s - rates.slots)
        return rates.client * reached * elsewhere, ticks

    return _lifetime(agreed(consequence, rates_of(coarse, policy)), load)


def _reached(rates: Rates, copies: float) -> float:
    """The part of requests that find a copy: under `sub`, one that is alive. As if each cache were
    in its steady state; all brokers but the one that asks, and not all of them without."""
    if rates.floods or rates.brokers == 1:
        return 1.0
    moves = slot_moves(rates, rates.published * rates.kept + copies)
    moves[0, 1] = rates.client
    moves -= np.diag(moves.sum(axis=1))
    moves[:, 0] = 1.0  # instead of one equation: probabilities add up
    steady = np.linalg.solve(moves.T, np.eye(len(moves))[0])
    others = rates.brokers - 1
    silent = 1.0 - float(steady @ rates.alive)
    return float((1.0 - silent**others) / (1.0 - steady[0] ** others))


def _ticks(rates: Rates, copies: float, reached: float, most_parts: int) -> Ticks:
    arrivals = rates.brokers * rates.client / rates.published
    parts = min(most_parts, max(1, math.ceil(arrivals / ARRIVALS)))
    part_s = 1.0 / (rates.published * parts)
    calm = slot_moves(rates, copies)
    calm[0, 1] = rates.client * reached
    calm -= np.diag(calm.sum(axis=1))
    step = expm(calm * part_s)
    length = 2 * rates.slots + 8
    while True:
        without: Values = _without(rates, step, parts, length * parts) ** rates.brokers
        gone = _first(without, parts)
        alive = np.maximum(0.0, 1.0 - np.cumsum(gone))
        hazard, before = (_hazard(alive, parts, end) for end in (1.0, 0.75))
        settled = abs(hazard - before) <= STEADY * hazard
        if settled or alive[-1] < LEFT * alive[0] or length > LONGEST * rates.slots:
            return Ticks(part_s, gone, alive, hazard)
        length *= 2


def _without(rates: Rates, step: Any, parts: int, length: int) -> Values:
    """The probability that one broker is without the message, part by part. Row 0: since the
    publication; row 1 + p: since it was without it, p parts after a tick."""
    now = np.zeros((1 + parts, rates.slots + 1))
    now[0, :2] = 1.0 - rates.kept, rates.kept
    now[1:, 0] = 1.0
    chances = np.empty((1 + parts, length + 1))
    chances[:, 0] = now[:, 0]
    for part in range(1, length + 1):
        now = now @ step
        _tick(now[1 + -part % parts], rates.kept)
        if part % parts == 0:
            _tick(now[0], rates.kept)
        chances[:, part] = now[:, 0]
    return chances


def _tick(slots: Values, kept: float) -> None:
    """A publication: it pushes the message by a slot, and out of the last."""
    pushed = kept * slots[1:]
    slots[1:] -= pushed
    slots[2:] += pushed[:-1]
    slots[0] += pushed[-1]


def _first(without: Values, parts: int) -> Values:
    """f, from A and G."""
    gone: Values = without[0].copy()
    for at in range(len(gone) - 1):
        gone[at + 1 :] -= gone[at] * without[1 + at % parts, 1 : len(gone) - at]
    return gone


def _hazard(alive: Values, parts: int, end: float) -> float:
    """Over the quarter of the curve before `end`, in whole ticks."""
    last = int((len(alive) - 1) * end)
    span = max(1, (len(alive) - 1) // (4 * parts)) * parts
    if alive[last] <= 0.0:
        return 1.0
    return float(-np.log(alive[last] / alive[last - span]) / span)


def _lifetime(ticks: Ticks, load: MessageLoad) -> Lifetime:
    """In time: publications come at random, so that j of them take a gamma distributed time."""
    rate = load.publication_rate
    gone = np.concatenate([ticks.gone, _rest(ticks)])
    took = rate * ticks.part_s * np.arange(len(gone))  # publications
    upto = np.cumsum(gone)
    few = np.flatnonzero(1.0 - upto <= LEFT * (1.0 - gone[0]))
    last = float(took[few[0]] if len(few) else took[-1])
    at_s = np.linspace(0.0, (last + 5.0 * math.sqrt(last) + 5.0) / rate, POINTS)
    alive = []
    for now in rate * at_s:
        wide = 8.0 * math.sqrt(now) + 10.0
        low, high = np.searchsorted(took, [max(now - wide, took[1]), now + wide])
        near = float(gammainc(took[low:high], now) @ gone[low:high])
        alive.append(max(0.0, 1.0 - float(upto[low - 1]) - near))
    return Lifetime(
        mst=ticks.mean_s,
        p_loss=float(gone[0]),
        at_s=at_s,
        alive=np.minimum.accumulate(alive),
        hazard=ticks.hazard / ticks.part_s,
    )


def _rest(ticks: Ticks) -> Values:
    """What comes after the last tick: the same part of those that are left goes in each."""
    left = float(ticks.alive[-1] / ticks.alive[0])
    if left <= LEFT:
        return np.zeros(0)
    more = np.arange(math.ceil(math.log(left / LEFT) / ticks.hazard))
    return np.asarray(
        ticks.alive[-1] * -math.expm1(-ticks.hazard) * np.exp(-ticks.hazard * more), np.float64
    )
