"""Several brokers as one chain: brokers are alike, so only which slots a message is in counts, not
where. States are multisets of n slots, C(n+k, n) of them instead of (k+1)^n, and nothing is lost.

Compiled. A multiset is written largest first; its number is its rank in the combinatorial number
system, so that 0 is the empty one: the message is nowhere.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray
from scipy.sparse import csr_array

from tocsin.errors import InvalidInput
from tocsin.lab.jit.functions import compiled
from tocsin.lab.models.rates import Rates, Values

MOST_STATES = 60_000
MOST_MOVES = 4_000_000


class Multisets(Struct, frozen=True):
    brokers: int
    slots: int
    choose: NDArray[np.int64]
    states: NDArray[np.int64]  # slots of each state, largest first

    @property
    def copies(self) -> NDArray[np.int64]:
        return np.asarray((self.states > 0).sum(axis=1))

    def on_top(self, copies: int) -> int:
        """The state of a message on top of so many caches and nowhere else."""
        slots = np.zeros(self.brokers, np.int64)
        slots[:copies] = 1
        return int(_rank(slots, self.choose))


def multisets(brokers: int, slots: int) -> Multisets:
    count = math.comb(brokers + slots, brokers)
    if count > MOST_STATES:
        raise InvalidInput(
            f"{brokers} brokers with {slots} slots make {count:,} states",
            field="slots",
            hint=f"at most {MOST_STATES:,}: fewer slots or brokers, or --model wide",
        )
    size = brokers + slots + 1
    choose = np.array(
        [[math.comb(a, b) for b in range(brokers + 1)] for a in range(size)], np.int64
    )
    states = np.zeros((count, brokers), np.int64)
    _list_states(choose, slots, states)
    return Multisets(brokers, slots, choose, states)


def generator(space: Multisets, rates: Rates, pushed: Values) -> Any:
    """Among the transient states. `pushed` is the rate at which copies of other messages push a
    message in each cache that has it, by the number of those caches."""
    room = np.zeros(2, np.int64)
    _count_moves(space.states, rates.together, room)
    if room[0] > MOST_MOVES:
        raise InvalidInput(
            f"{space.brokers} brokers with {space.slots} slots make {room[0]:,} moves",
            field="brokers",
            hint=f"at most {MOST_MOVES:,}: fewer slots or brokers, or --model wide",
        )
    columns, values = np.empty(room[0], np.int32), np.empty(room[0])
    begins = np.zeros(len(space.states) + 1, np.int32)
    _fill(
        space.states, space.choose, space.slots, pushed, rates.alive, rates.ahead,
        rates.published, rates.kept, rates.client, rates.regenerated, rates.degraded,
        rates.floods, rates.together, columns, values, begins,
    )  # fmt: skip
    size = len(space.states)
    whole = csr_array((values[: begins[-1]], columns[: begins[-1]], begins), shape=(size, size))
    return whole[1:, 1:]


@compiled
def _rank(slots: Any, choose: Any) -> int:
    """Of a multiset written largest first."""
    number, count = 0, slots.shape[0]
    for at in range(count):
        number += choose[slots[at] + count - 1 - at, count - at]
    return int(number)


@compiled
def _list_states(choose: Any, most: int, states: Any) -> None:
    count = states.shape[1]
    slots = np.zeros(count, np.int64)
    while True:
        states[_rank(slots, choose)] = slots
        at = count - 1
        while at >= 0 and slots[at] == (most if at == 0 else slots[at - 1]):
            slots[at] = 0
            at -= 1
        if at < 0:
            return
        slots[at] += 1


@compiled
def _runs(slots: Any, first: Any, length: Any) -> int:
    """Where each slot that is held begins, and by how many brokers."""
    runs, at = 0, 0
    while at < slots.shape[0] and slots[at] > 0:
        first[runs], length[runs] = at, 0
        while at < slots.shape[0] and slots[at] == slots[first[runs]]:
            length[runs] += 1
            at += 1
        runs += 1
    return runs


@compiled
def _count_moves(states: Any, together: bool, room: Any) -> None:
    """At most."""
    count = states.shape[1]
    first, length = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for state in range(states.shape[0]):
        runs = _runs(states[state], first, length)
        joint = 1
        if not together:
            for run in range(runs):
                joint *= length[run] + 1
        room[0] += joint + 4 * runs + 2


@compiled
def _moved(slots: Any, choose: Any, sorted_: Any) -> int:
    """The number of a multiset in any order."""
    for at in range(slots.shape[0]):
        slot, to = slots[at], at
        while to > 0 and sorted_[to - 1] < slot:
            sorted_[to] = sorted_[to - 1]
            to -= 1
        sorted_[to] = slot
    return _rank(sorted_, choose)


@compiled
def _fill(
    states: Any, choose: Any, most: int, pushed: Any, alive: Any, ahead: Any,
    published: float, kept: float, client: float, regenerated: float, degraded: float,
    floods: bool, together: bool, columns: Any, values: Any, begins: Any,
) -> None:  # fmt: skip
    """Rows of the generator, state by state; in state 0 nothing happens."""
    count = states.shape[1]
    then, sorted_ = np.zeros(count, np.int64), np.zeros(count, np.int64)
    first, length = np.zeros(count, np.int64), np.zeros(count, np.int64)
    chosen = np.zeros(count, np.int64)
    at = 0
    for state in range(1, states.shape[0]):
        begins[state] = at
        diagonal = at  # filled in the end
        columns[at] = state
        at += 1
        slots = states[state]
        runs = _runs(slots, first, length)
        holders = 0
        unreached = 1.0
        for run in range(runs):
            holders += length[run]
            unreached *= (1.0 - alive[slots[first[run]]]) ** length[run]
        then[:] = slots
        if holders < count:  # a client asks for it elsewhere
            then[holders] = 1
            columns[at] = _moved(then, choose, sorted_)
            values[at] = (count - holders) * client * (1.0 if floods else 1.0 - unreached)
            at += 1
            then[holders] = 0
        for run in range(runs):
            place, slot, many = first[run], slots[first[run]], length[run]
            for way in range(4):
                if way == 0:
                    rate, to = (
                        pushed[holders] + (most - slot) * regenerated,
                        (slot + 1) % (most + 1),
                    )
                elif way == 1:
                    rate, to = regenerated if slot > 1 else 0.0, 1
                elif way == 2:
                    rate, to = alive[slot] * degraded if slot < most else 0.0, most
                else:
                    rate, to = ahead[slot] * degraded if slot > 1 else 0.0, slot - 1
                if rate > 0.0:
                    then[place] = to
                    columns[at] = _moved(then, choose, sorted_)
                    values[at] = many * rate
                    at += 1
            then[place] = slot
        # A publication pushes the message in every cache that keeps it: any part of each run.
        chosen[:runs] = 0
        while True:
            run = 0
            while run < runs and chosen[run] == length[run]:
                chosen[run] = 0
                run += 1
            if run == runs:
                break
            chosen[run] += 1
            if together:
                for other in range(runs):
                    chosen[other] = length[other]
            chance, keeping = 1.0, 0
            for other in range(runs):
                for member in range(length[other]):
                    slot = slots[first[other]]
                    if member < chosen[other]:
                        slot = (slot + 1) % (most + 1)
                    then[first[other] + member] = slot
                chance *= choose[length[other], chosen[other]]
                keeping += chosen[other]
            chance *= kept**keeping * (1.0 - kept) ** (holders - keeping)
            columns[at] = _moved(then, choose, sorted_)
            values[at] = published * chance
            at += 1
        whole = 0.0
        for entry in range(diagonal + 1, at):
            whole += values[entry]
        values[diagonal] = -whole
    begins[states.shape[0]] = at
