"""Caches of messages at several brokers, event by event, compiled.

Everything is memoryless, so there is no queue of events: the next one is drawn by the rates, a
publication, a client that comes (any message at any broker, alike) or one that leaves (any client,
alike). A cache is a linked list.

A message that is in no cache is forgotten, and its place used again. Its clients stay listed until
one of them is drawn, and do not count.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tocsin.lab.jit import linked_list
from tocsin.lab.jit.functions import borrow, compiled, fused
from tocsin.lab.jit.linked_list import NONE
from tocsin.lab.jit.records import record_dtype
from tocsin.policies.message.priority import BOTTOM, STAY, TOP

CLASSES = 2  # popular, unpopular

RUN = record_dtype(
    [(name, "i8") for name in ("brokers", "slots", "first_only")]
    + [(name, "f8") for name in ("publication_rate", "departure_rate", "unpopular_share")]
    + [(name, "f8") for name in ("now", "message_s", "age_width_s")]
    + [(name, "i8") for name in ("published", "upto", "first", "until", "unresolved", "resolve")]
    + [(name, "i8") for name in ("free", "clients", "listed", "spare")]
    + [(name, "i8") for name in ("events", "copied", "evicted", "absorbed", "lost")]
)
MESSAGE = record_dtype(
    [
        ("number", "i8"),  # in the order of publication; NONE: the place is free
        ("copies", "i8"),
        ("unpopular", "i8"),
        ("listed", "i8"),  # where in the list of its class
        ("published_at", "f8"),
    ]
)
CELL = record_dtype([(name, "i4") for name in ("clients", "cached", "above", "below")])
"""Of one message at one broker: the place of the message × brokers + the broker."""
CACHE = record_dtype([(name, "i4") for name in ("top", "bottom", "filled")])


PUBLICATION = record_dtype(
    [
        ("at", "f8"),
        ("message_s", "f8"),  # until then: seconds × messages in the caches
        ("survival_s", "f8"),
        ("unpopular", "i8"),
    ]
)


class World(NamedTuple):
    """All that changes, but for the numbers of the run."""

    messages: Any
    cells: Any
    caches: Any
    free: Any  # places for messages
    live: Any  # class → places of messages that are in a cache
    rates: Any  # class → λc
    counts: Any  # class → how many are live
    loads: Any  # class → ρ
    crowd: Any  # clients: number of the message × cells + the cell
    publications: Any
    ages: Any  # by age: changes of messages, copies, squares of copies, and how far into the bin


@fused
def _count(run: Any, world: Any, message: Any, copies: int) -> None:
    """The message has so many copies from now on. What is kept by age are the changes, and how
    far into the bin each came: sums of them give the seconds."""
    before = message.copies
    message.copies = copies
    if not run.first <= message.number < run.until:
        return
    age = (run.now - message.published_at) / run.age_width_s
    at = min(int(age), world.ages.shape[0] - 1)
    into = age - at
    messages = int(copies > 0) - int(before > 0)
    more, squares = copies - before, copies * copies - before * before
    ages = world.ages[at]
    ages[0] += messages
    ages[1] += messages * into
    ages[2] += more
    ages[3] += more * into
    ages[4] += squares
    ages[5] += squares * into


@fused
def _forget(run: Any, world: Any, place: int) -> None:
    """It is in no cache any more."""
    message = world.messages[place]
    if run.first <= message.number < run.until:
        world.publications[message.number].survival_s = run.now - message.published_at
        run.unresolved -= 1
    run.absorbed += 1
    kind = message.unpopular
    world.counts[kind] -= 1
    last = world.live[kind, world.counts[kind]]
    world.live[kind, message.listed] = last
    world.messages[last].listed = message.listed
    for broker in range(run.brokers):
        cell = world.cells[place * run.brokers + broker]
        run.clients -= cell.clients
        cell.clients = 0
    message.number = NONE
    world.free[run.free] = place
    run.free += 1


@fused
def _drop(run: Any, world: Any, broker: int, cell: int) -> None:
    linked_list.unlink(world.cells, world.caches[broker], cell)
    world.cells[cell].cached = 0
    world.caches[broker].filled -= 1
    place = cell // run.brokers
    message = world.messages[place]
    _count(run, world, message, message.copies - 1)
    if message.copies == 0:
        _forget(run, world, place)


@fused
def _put(run: Any, world: Any, broker: int, cell: int) -> None:
    """On top; the one at the bottom makes room."""
    message = world.messages[cell // run.brokers]
    _count(run, world, message, message.copies + 1)
    if world.caches[broker].filled == run.slots:
        run.evicted += 1
        _drop(run, world, broker, world.caches[broker].bottom)
    world.cells[cell].cached = 1
    world.caches[broker].filled += 1
    linked_list.link_top(world.cells, world.caches[broker], cell)


@fused
def _interested(run: Any, world: Any, place: int) -> int:
    """Brokers with clients of the message."""
    holders = 0
    for broker in range(run.brokers):
        holders += world.cells[place * run.brokers + broker].clients > 0
    return holders


@fused
def _enlist(run: Any, world: Any, cell: int) -> None:
    number = world.messages[cell // run.brokers].number
    world.crowd[run.listed] = number * world.cells.shape[0] + cell
    run.listed += 1
    run.clients += 1


@fused
def _publish(run: Any, world: Any, keeps: Any, random: Any) -> None:
    number = run.published
    run.published += 1
    kind = 1 if run.unpopular_share > 0.0 and random.random() < run.unpopular_share else 0
    run.free -= 1
    place = world.free[run.free]
    message = world.messages[place]
    message.number, message.unpopular, message.copies = number, kind, 0
    message.published_at = run.now
    for broker in range(run.brokers):
        world.cells[place * run.brokers + broker].clients = random.poisson(world.loads[kind])
    publication = world.publications[number]
    publication.at, publication.message_s, publication.unpopular = run.now, run.message_s, kind
    interested = _interested(run, world, place)
    for broker in range(run.brokers):
        cell = place * run.brokers + broker
        clients = world.cells[cell].clients
        if keeps(clients, interested - (clients > 0)):
            _put(run, world, broker, cell)
    if message.copies == 0:
        run.lost += 1
        message.number = NONE
        run.free += 1  # the same place is next
        for broker in range(run.brokers):
            world.cells[place * run.brokers + broker].clients = 0
        return
    message.listed = world.counts[kind]
    world.live[kind, message.listed] = place
    world.counts[kind] += 1
    if run.first <= number < run.until:
        run.unresolved += 1
    for broker in range(run.brokers):
        cell = place * run.brokers + broker
        for _ in range(world.cells[cell].clients):
            _enlist(run, world, cell)


@fused
def _copy(run: Any, world: Any, place: int, broker: int, keeps: Any, reaches: Any) -> None:
    """A client asks for a message that its broker does not have."""
    for other in range(run.brokers):
        cell = world.cells[place * run.brokers + other]
        if cell.cached and reaches(cell.clients):
            mine = place * run.brokers + broker
            if keeps(world.cells[mine].clients, _interested(run, world, place) - 1):
                run.copied += 1
                _put(run, world, broker, mine)
            return


@fused
def _move(run: Any, world: Any, broker: int, cell: int, where: int) -> None:
    if where == TOP:
        linked_list.move_to_top(world.cells, world.caches[broker], cell)
    elif where == BOTTOM:
        linked_list.move_to_bottom(world.cells, world.caches[broker], cell)
    elif where != STAY:
        _drop(run, world, broker, cell)


@compiled
def _tidy(run: Any, world: Any) -> None:
    """Strike clients of forgotten messages from the list."""
    kept, cells = 0, world.cells.shape[0]
    for at in range(run.listed):
        code = world.crowd[at]
        if world.messages[code % cells // run.brokers].number == code // cells:
            world.crowd[kept] = code
            kept += 1
    run.listed = kept


@compiled
def play(runs: Any, given: Any, keeps: Any, reaches: Any, moves: Any, random: Any) -> bool:
    """Until so many are published, and all that are measured are gone (if that is asked for).
    False: there is no room for more clients or publications; give more and go on."""
    run = runs[0]
    world = World(
        borrow(given.messages), borrow(given.cells), borrow(given.caches), borrow(given.free),
        borrow(given.live), borrow(given.rates), borrow(given.counts), borrow(given.loads),
        borrow(given.crowd), borrow(given.publications), borrow(given.ages),
    )  # fmt: skip
    brokers, cells, crowd = run.brokers, world.cells.shape[0], world.crowd
    while run.published < run.upto or (run.resolve and run.unresolved > 0):
        if run.listed > crowd.shape[0] - run.spare:
            _tidy(run, world)
            if run.listed > crowd.shape[0] // 2:
                return False
        if run.published >= world.publications.shape[0]:
            return False
        popular = world.counts[0] * brokers * world.rates[0]
        coming = popular + world.counts[1] * brokers * world.rates[1]
        leaving = run.clients * run.departure_rate
        whole = leaving + coming + run.publication_rate
        lasting = random.standard_exponential() / whole
        run.now += lasting
        run.message_s += lasting * (world.counts[0] + world.counts[1])
        run.events += 1
        drawn = random.random() * whole
        if drawn < leaving:
            at = int(drawn / leaving * run.listed)
            while True:
                code = crowd[at]
                run.listed -= 1
                crowd[at] = crowd[run.listed]
                at = code % cells
                place = at // brokers
                if world.messages[place].number == code // cells:
                    break
                at = int(random.random() * run.listed)  # it does not count: another one
            broker, cell = at - place * brokers, world.cells[at]
            run.clients -= 1
            cell.clients -= 1
            if cell.cached:
                _move(run, world, broker, at, moves(cell.clients, False))
        elif drawn < leaving + coming:
            drawn -= leaving
            kind = 0 if drawn < popular else 1
            if kind == 1:
                drawn -= popular
            at = int(drawn / world.rates[kind])
            place = world.live[kind, min(at // brokers, world.counts[kind] - 1)]
            broker = at % brokers
            at = place * brokers + broker
            cell = world.cells[at]
            cell.clients += 1
            _enlist(run, world, at)
            if cell.cached:
                _move(run, world, broker, at, moves(cell.clients, True))
            elif cell.clients == 1 or not run.first_only:
                _copy(run, world, place, broker, keeps, reaches)
        else:
            _publish(run, world, keeps, random)
    return True
