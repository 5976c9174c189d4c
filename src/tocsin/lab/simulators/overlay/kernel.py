"""Brokers in a tree, their clients and caches, event by event, compiled.

Each message has a filter of its own, so a broker's table is a number: how many clients of the
message are behind each neighbour. They are counted under every broker, seen from broker 0.
Requests and responses take no time; of several responses the one from nearest comes first.

Everything is memoryless, so there is no queue of events: the next one is drawn by the rates. A
message that is in no cache is gone for good; its clients stay listed until one of them is drawn.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tocsin.lab.jit import linked_list
from tocsin.lab.jit.functions import borrow, compiled, fused
from tocsin.lab.jit.linked_list import NONE
from tocsin.lab.jit.records import record_dtype
from tocsin.policies.message.priority import BOTTOM, STAY, TOP

PUBLISHES, COMES, LEAVES = range(3)

COUNTS = (
    "requests",
    "answered",
    "hops",  # from here on: of answered requests
    "responses",
    "delivered",
    "slots_searched",
    "links",
)
RUN = record_dtype(
    [(name, "i8") for name in ("brokers", "slots", "to_nobody", "to_somebody", "in_passing")]
    + [(name, "f8") for name in ("client_rate", "departure_rate", "duration_s", "load", "now")]
    + [(name, "i8") for name in ("alive", "clients", "listed", "events", "begun")]
    + [(name, "i8") for name in COUNTS]
)
BROKER = record_dtype(
    [("parent", "i4"), ("first", "u4"), ("end", "u4")]
    + [(name, "i4") for name in ("top", "bottom", "filled")]
)
"""`parent` is nearer to broker 0 (its own: NONE); its neighbours are those from `first` to
`end`; then its cache."""
CELL = record_dtype([(name, "i4") for name in ("clients", "under", "cached", "above", "below")])
"""Of one message at one broker: the message × brokers + the broker. `under` counts the clients at
the broker and below it in the tree."""
MESSAGE = record_dtype([("absorbed_s", "f8"), ("copies", "i4"), ("place", "u4")])
"""`place` is that in the list of living messages."""
VISIT = record_dtype([("broker", "u4"), ("through", "i4"), ("depth", "u4"), ("answer", "u4")])
"""Of a broker by a request: through which visit it came, and how far that is. Beside it, one of the
visits that found an answer, as many as there are."""


class World(NamedTuple):
    """The tree, and all that changes but for the numbers of the run."""

    brokers: Any
    neighbours: Any
    cells: Any
    messages: Any
    live: Any  # messages that are in a cache
    crowd: Any  # clients: their cells
    visits: Any  # nearest first


# -- caches ---------------------------------------------------------------------------------------


@fused
def _forget(run: Any, world: Any, message: int) -> None:
    """It is in no cache any more."""
    world.messages[message].absorbed_s = run.now
    run.alive -= 1
    last = world.live[run.alive]
    world.live[world.messages[message].place] = last
    world.messages[last].place = world.messages[message].place
    run.clients -= world.cells[message * run.brokers].under


@fused
def _drop(run: Any, world: Any, broker: int, cell: int) -> None:
    linked_list.unlink(world.cells, world.brokers[broker], cell)
    world.cells[cell].cached = 0
    world.brokers[broker].filled -= 1
    message = cell // run.brokers
    world.messages[message].copies -= 1
    if world.messages[message].copies == 0 and run.begun:
        _forget(run, world, message)


@fused
def _put(run: Any, world: Any, broker: int, cell: int) -> None:
    """On top; the one at the bottom makes room."""
    if world.brokers[broker].filled == run.slots:
        _drop(run, world, broker, world.brokers[broker].bottom)
    world.messages[cell // run.brokers].copies += 1
    world.cells[cell].cached = 1
    world.brokers[broker].filled += 1
    linked_list.link_top(world.cells, world.brokers[broker], cell)


@fused
def _move(run: Any, world: Any, broker: int, cell: int, where: int) -> None:
    if where == TOP:
        linked_list.move_to_top(world.cells, world.brokers[broker], cell)
    elif where == BOTTOM:
        linked_list.move_to_bottom(world.cells, world.brokers[broker], cell)
    elif where != STAY:
        _drop(run, world, broker, cell)


# -- the tree -------------------------------------------------------------------------------------


@fused
def _count(run: Any, world: Any, broker: int, message: int, by: int) -> None:
    """A client more or less, in all tables."""
    cells, base = world.cells, message * run.brokers
    cells[base + broker].clients += by
    while broker != NONE:
        cells[base + broker].under += by
        broker = world.brokers[broker].parent


@fused
def _behind(run: Any, world: Any, broker: int, neighbour: int, message: int) -> int:
    """Clients of the message behind a neighbour of a broker."""
    base = message * run.brokers
    if world.brokers[neighbour].parent == broker:
        return int(world.cells[base + neighbour].under)
    return int(world.cells[base].under - world.cells[base + broker].under)


@fused
def _interested(run: Any, world: Any, broker: int, besides: int, message: int) -> int:
    """Neighbours that subscribed to the message, but for one."""
    subscribed = 0
    for at in range(world.brokers[broker].first, world.brokers[broker].end):
        neighbour = world.neighbours[at]
        if neighbour != besides and _behind(run, world, broker, neighbour, message) > 0:
            subscribed += 1
    return subscribed


@fused
def _spread(
    run: Any, world: Any, origin: int, message: int, to_nobody: int, to_somebody: int
) -> int:
    """From neighbour to neighbour, wherever there is interest (or not): how many are reached."""
    world.visits[0].broker, world.visits[0].through, world.visits[0].depth = origin, NONE, 0
    count, at = 1, 0
    while at < count:
        broker = world.visits[at].broker
        came = NONE if at == 0 else world.visits[world.visits[at].through].broker
        for place in range(world.brokers[broker].first, world.brokers[broker].end):
            neighbour = world.neighbours[place]
            if neighbour == came:
                continue
            interest = _behind(run, world, broker, neighbour, message) > 0
            if to_somebody if interest else to_nobody:
                world.visits[count].broker, world.visits[count].through = neighbour, at
                world.visits[count].depth = world.visits[at].depth + 1
                count += 1
        at += 1
    return count


@compiled
def _publish(run: Any, world: Any, broker: int, message: int, keeps: Any) -> None:
    base = message * run.brokers
    for at in range(_spread(run, world, broker, message, 0, 1)):
        here = world.visits[at].broker
        came = NONE if at == 0 else world.visits[world.visits[at].through].broker
        interested = _interested(run, world, here, came, message)
        if keeps(world.cells[base + here].clients, interested):
            _put(run, world, here, base + here)


@fused
def _request(run: Any, world: Any, origin: int, message: int, keeps: Any) -> None:
    """Ask, answer, and bring the answers back."""
    base, cells = message * run.brokers, world.cells
    count = _spread(run, world, origin, message, run.to_nobody, run.to_somebody)
    slots, answers = 0, 0
    for at in range(count):
        broker = world.visits[at].broker
        if run.to_somebody if cells[base + broker].clients > 0 else run.to_nobody:
            slots += world.brokers[broker].filled
            if cells[base + broker].cached:
                world.visits[answers].answer = at
                answers += 1
    if answers == 0:
        return
    run.answered += 1
    run.hops += world.visits[world.visits[0].answer].depth
    run.responses += answers
    run.slots_searched += slots
    run.links += count - 1
    for number in range(answers):
        # A response goes back, until a broker that answers itself drops it.
        at = world.visits[number].answer
        while at > 0:
            came = world.visits[at].broker
            at = world.visits[at].through
            broker = world.visits[at].broker
            cell = cells[base + broker]
            run.links += 1
            if cell.cached and (run.to_somebody if cell.clients > 0 else run.to_nobody):
                at = NONE
            elif not cell.cached and (at == 0 or run.in_passing):
                # In passing, the clients there do not count: none of them has asked.
                interested = _interested(run, world, broker, came, message)
                if keeps(cell.clients if at == 0 else 0, interested):
                    _put(run, world, broker, base + broker)
        if at == 0:
            run.delivered += 1


# -- events ---------------------------------------------------------------------------------------


@fused
def _come(run: Any, world: Any, broker: int, message: int, keeps: Any, moves: Any) -> None:
    _count(run, world, broker, message, 1)
    at = message * run.brokers + broker
    cell = world.cells[at]
    if cell.cached:
        _move(run, world, broker, at, moves(cell.clients, True))
    run.requests += 1
    if world.messages[message].copies > 0:
        _request(run, world, broker, message, keeps)


@fused
def _leave(run: Any, world: Any, broker: int, message: int, moves: Any) -> None:
    _count(run, world, broker, message, -1)
    at = message * run.brokers + broker
    cell = world.cells[at]
    if cell.cached:
        _move(run, world, broker, at, moves(cell.clients, False))


@compiled
def _lent(given: Any) -> Any:
    return World(
        borrow(given.brokers), borrow(given.neighbours), borrow(given.cells),
        borrow(given.messages), borrow(given.live), borrow(given.crowd), borrow(given.visits),
    )  # fmt: skip


@compiled
def tell(
    runs: Any, world: Any, kinds: Any, brokers: Any, messages: Any, keeps: Any, moves: Any,
    counts: Any,
) -> None:  # fmt: skip
    """A story, event by event; what was counted until after each."""
    run = runs[0]
    for at in range(kinds.shape[0]):
        if kinds[at] == PUBLISHES:
            _publish(run, world, brokers[at], messages[at], keeps)
        elif kinds[at] == COMES:
            _come(run, world, brokers[at], messages[at], keeps, moves)
        else:
            _leave(run, world, brokers[at], messages[at], moves)
        counts[at, 0], counts[at, 1], counts[at, 2] = run.requests, run.answered, run.hops
        counts[at, 3], counts[at, 4] = run.responses, run.delivered
        counts[at, 5], counts[at, 6] = run.slots_searched, run.links


@fused
def _begin(run: Any, world: Any, keeps: Any, random: Any) -> None:
    """Clients are there as if they had always come and gone; then all messages are published."""
    brokers, messages = run.brokers, world.messages.shape[0]
    run.now, run.alive, run.clients, run.listed, run.begun = 0.0, 0, 0, 0, 0
    run.requests, run.answered, run.hops, run.responses = 0, 0, 0, 0
    run.delivered, run.slots_searched, run.links = 0, 0, 0
    for broker in range(brokers):
        cache = world.brokers[broker]
        cache.top, cache.bottom, cache.filled = NONE, NONE, 0
    for at in range(brokers * messages):
        cell = world.cells[at]
        cell.clients, cell.under, cell.cached = 0, 0, 0
    for message in range(messages):
        world.messages[message].copies, world.messages[message].absorbed_s = 0, 0.0
    # So many at each broker for each message: Poisson's number, of all of them, thrown at random.
    run.listed = random.poisson(brokers * messages * run.load)
    for client in range(run.listed):
        message, broker = int(random.random() * messages), int(random.random() * brokers)
        world.crowd[client] = message * brokers + broker
        _count(run, world, broker, message, 1)
    for message in range(messages):
        _publish(run, world, int(random.random() * brokers), message, keeps)
    run.events += messages
    run.begun = 1
    for message in range(messages):
        if world.messages[message].copies > 0:
            world.live[run.alive], world.messages[message].place = message, run.alive
            run.alive += 1
            run.clients += world.cells[message * brokers].under


@fused
def _tidy(run: Any, world: Any) -> None:
    """Strike clients of messages that are gone from the list."""
    kept = 0
    for at in range(run.listed):
        cell = world.crowd[at]
        if world.messages[cell // run.brokers].copies > 0:
            world.crowd[kept] = cell
            kept += 1
    run.listed = kept


@fused
def _next_event(run: Any, world: Any, keeps: Any, moves: Any, random: Any) -> None:
    """If the run is not over before it."""
    brokers, crowd = run.brokers, world.crowd
    coming = run.alive * brokers * run.client_rate
    leaving = run.clients * run.departure_rate
    later = run.now + random.standard_exponential() / (coming + leaving)
    if run.duration_s > 0.0 and later > run.duration_s:
        run.now = run.duration_s
        return
    run.now = later
    run.events += 1
    drawn = random.random() * (coming + leaving)
    if drawn < leaving:
        at = int(drawn / leaving * run.listed)
        while True:
            cell = crowd[at]
            run.listed -= 1
            crowd[at] = crowd[run.listed]
            message = cell // brokers
            if world.messages[message].copies > 0:
                break
            at = int(random.random() * run.listed)  # it does not count: another one
        run.clients -= 1
        _leave(run, world, cell - message * brokers, message, moves)
    else:
        at = int((drawn - leaving) / run.client_rate)
        message, broker = world.live[min(at // brokers, run.alive - 1)], at % brokers
        crowd[run.listed] = message * brokers + broker
        run.listed += 1
        run.clients += 1
        _come(run, world, broker, message, keeps, moves)


@compiled
def play(
    runs: Any, given: Any, keeps: Any, moves: Any, random: Any, absorbed_s: Any, gone: Any,
    counts: Any,
) -> bool:  # fmt: skip
    """Run after run, each until all messages are gone or its time is over. False: there were more
    clients than could be listed."""
    run, world = runs[0], _lent(given)
    for number in range(absorbed_s.shape[0]):
        _begin(run, world, keeps, random)
        while run.alive > 0 and (run.duration_s == 0.0 or run.now < run.duration_s):
            if run.listed == world.crowd.shape[0]:
                _tidy(run, world)
                if run.listed == world.crowd.shape[0]:
                    return False
            _next_event(run, world, keeps, moves, random)
        for at in range(run.alive):
            world.messages[world.live[at]].absorbed_s = run.now
            gone[number, world.live[at]] = False
        if run.duration_s > 0.0:
            run.now = run.duration_s  # clients ask on, though nothing is left
        for_nothing_s = 0.0
        for message in range(absorbed_s.shape[1]):
            absorbed_s[number, message] = world.messages[message].absorbed_s
            for_nothing_s += run.now - world.messages[message].absorbed_s
        # Whoever asks for a message that is gone is not played: nobody answers.
        for_nothing = random.poisson(run.brokers * run.client_rate * for_nothing_s)
        counts[number, 0], counts[number, 1] = run.requests + for_nothing, run.answered
        counts[number, 2], counts[number, 3] = run.hops, run.responses
        counts[number, 4], counts[number, 5] = run.delivered, run.slots_searched
        counts[number, 6] = run.links
    return True
