"""Message caches under a policy, run until so many messages are gone.

Knows nothing of statistics: `measures` makes means and intervals of what was seen.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tocsin.errors import InvalidInput
from tocsin.lab.jit.functions import JIT, callback
from tocsin.lab.jit.linked_list import NONE
from tocsin.lab.jit.records import records
from tocsin.lab.simulators.message_cache import kernel
from tocsin.lab.workloads.messages import MessageLoad
from tocsin.policies.message import MessagePolicy

KEEPS = numba.boolean(numba.int64, numba.int64) if JIT else "keeps"
REACHES = numba.boolean(numba.int64) if JIT else "reaches"
MOVES = numba.int64(numba.int64, numba.boolean) if JIT else "moves"
AGES = 256
STRETCH = 1_000  # publications between two reports of progress, at least

Values = NDArray[np.float64]


class Lives(Struct, frozen=True, kw_only=True):
    """What was seen of the messages that were measured, in the order of their publication."""

    load: MessageLoad
    survival_s: Values  # 0: never cached
    unpopular: NDArray[np.bool_]
    published_s: Values  # when
    message_s: Values  # until then: seconds × messages in the caches
    age_s: Values  # the middles of bins of age …
    alive: Values  # … messages that reached them
    replicas: Values  # their copies, on average …
    replicas_deviation: Values  # … and how much that varies between messages
    events: int
    copied: int
    seconds: float  # that the run took


def simulate(
    load: MessageLoad,
    policy: MessagePolicy,
    *,
    messages: int,
    seed: int,
    warm_up: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Lives:
    """Measure so many messages, after as many as it takes for the caches to settle. `progress` is
    told how many of all these were published since it was told before."""
    if messages < 1:
        raise InvalidInput(f"messages is {messages}", field="messages", hint="1 or more")
    warm = settling(load) if warm_up is None else warm_up
    run, world = _begin(load, warm, messages)
    random = np.random.default_rng(seed)
    functions = (
        callback(policy.keeps, KEEPS),
        callback(policy.reaches, REACHES),
        callback(policy.moves, MOVES),
    )
    started = time.perf_counter()
    stretch = max(STRETCH, (warm + messages) // 100) if progress else warm + messages
    target = 0
    while target < warm + messages:
        before, target = target, min(target + stretch, warm + messages)
        run["upto"] = target
        run["resolve"] = target == warm + messages
        while not kernel.play(run, world, *functions, random):
            world = _more_room(run, world)
        if progress is not None:
            progress(target - before)
    seconds = time.perf_counter() - started
    return _lives(load, run, world, slice(warm, warm + messages), seconds)


def settling(load: MessageLoad) -> int:
    """Publications until the caches are full, and the first messages gone: a message survives nk
    publications at most, on average (survival, equation 1)."""
    kept = 1.0 - load.nobody
    return math.ceil(load.slots * (3 * load.brokers + 4 / kept))


def _begin(load: MessageLoad, warm: int, messages: int) -> tuple[Any, kernel.World]:
    brokers = load.brokers
    places = brokers * load.slots + 2
    run = records(1, kernel.RUN)
    run["brokers"], run["slots"] = brokers, load.slots
    run["first_only"] = load.copying == "first"
    run["publication_rate"], run["departure_rate"] = load.publication_rate, load.departure_rate
    run["unpopular_share"] = load.unpopular_share
    run["age_width_s"] = 4 * brokers * load.slots / load.publication_rate / AGES
    run["first"], run["until"], run["free"] = warm, warm + messages, places
    run["spare"] = math.ceil(brokers * (load.client_load + 20 * math.sqrt(load.client_load) + 60))
    rates = np.array([load.client_rate, load.unpopular_rate])
    loads = rates / load.departure_rate
    cells = records(places * brokers, kernel.CELL)
    cells["above"] = cells["below"] = NONE
    caches = records(brokers, kernel.CACHE)
    caches["top"] = caches["bottom"] = NONE
    known = records(places, kernel.MESSAGE)
    known["number"] = NONE
    return run, kernel.World(
        messages=known,
        cells=cells,
        caches=caches,
        free=np.arange(places)[::-1].copy(),
        live=np.zeros((kernel.CLASSES, places), np.int64),
        rates=rates,
        counts=np.zeros(kernel.CLASSES, np.int64),
        loads=loads,
        crowd=np.zeros(int(2 * places * brokers * loads[0]) + 4 * int(run["spare"][0]), np.int64),
        publications=records(warm + messages + places, kernel.PUBLICATION),
        ages=np.zeros((AGES + 1, 6)),
    )


def _more_room(run: Any, world: kernel.World) -> kernel.World:
    if int(run["published"][0]) >= len(world.publications):
        return world._replace(publications=_doubled(world.publications))
    return world._replace(crowd=_doubled(world.crowd))


def _doubled(array: Any) -> Any:
    return np.concatenate([array, np.zeros_like(array)])


def _lives(
    load: MessageLoad, run: Any, world: kernel.World, measured: slice, seconds: float
) -> Lives:
    width = float(run["age_width_s"][0])
    changes, into = world.ages[:AGES, ::2], world.ages[:AGES, 1::2]
    seconds_at = width * (np.cumsum(changes, axis=0) - into)
    reached = seconds_at[:, 0] > 0.0
    alive_s, copy_s, square_s = seconds_at[reached].T
    replicas = copy_s / alive_s
    seen = world.publications[measured]
    return Lives(
        load=load,
        survival_s=seen["survival_s"].copy(),
        unpopular=seen["unpopular"] > 0,
        published_s=seen["at"].copy(),
        message_s=seen["message_s"].copy(),
        age_s=np.asarray((np.flatnonzero(reached) + 0.5) * width, np.float64),
        alive=alive_s / width,
        replicas=replicas,
        replicas_deviation=np.sqrt(np.maximum(0.0, square_s / alive_s - replicas**2)),
        events=int(run["events"][0]),
        copied=int(run["copied"][0]),
        seconds=seconds,
    )
