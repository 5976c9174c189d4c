"""Logs, their readers and the poller of the database, event by event, compiled.

Four things happen, and the earliest is next: the broker is done with a record, a log that was
behind gets a head mark, a consumer reads, the poller begins or ends a fetch. At the same moment
they happen in this order. What was admitted is given: it depends on nothing that happens here.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from tocsin.lab.jit.functions import compiled
from tocsin.lab.jit.heap import place, remove
from tocsin.lab.jit.records import record_dtype

CONSUMER = record_dtype(
    [
        ("oldest", "i8"),  # of its part of the entries: those before it have left the log
        ("unread", "i8"),
        ("shown", "i8"),  # entries before it can be noticed
        ("end", "i8"),
        ("size_bytes", "i8"),
        ("read_every_s", "f8"),
        ("read_at_s", "f8"),
        ("behind_at", "f8"),  # since then it lacks what it cannot notice; infinite: it does not
    ]
)
_COUNTS = """unmatched admitted hits misses copies longest_admitted longest_refused
    admitted_bytes duplicated_bytes written_bytes expired_bytes size_bytes max_bytes read_bytes
    database_written_bytes database_read_bytes database_fetches"""
_COSTS = """turn_s broker_s commit_s log_write_s log_read_s log_bytes_per_s database_write_s
    database_read_s database_row_s poll_s mark_s"""
_PLACES = """records_done turn_end next_delivery shared_oldest shared_end asked taken answered
    admitted_run refused_run behind_end marked"""
_TIMES = "byte_s measured_at ended_at free_at fetch_ends response_s"
_LAYOUT = "shared numbered retention_bytes reference_bytes batch"
RUN = record_dtype(
    [(name, "i8") for name in _LAYOUT.split()]
    + [(name, "f8") for name in _COSTS.split()]
    + [(name, "i8") for name in (*_COUNTS.split(), *_PLACES.split())]
    + [(name, "f8") for name in _TIMES.split()]
)
COPY, HOLE, FILL = range(3)  # what an entry is: admitted, refused, or from the database


class World(NamedTuple):
    """What is played, and all that changes. Entries are deliveries: record by record, consumer by
    consumer; `record_of` says which record."""

    at: Any
    size_bytes: Any
    content: Any
    first: Any
    consumer: Any
    admitted: Any
    consumers: Any
    kinds: Any  # of entries
    entries: Any
    record_of: Any
    shared_bytes: Any  # entries of the shared log
    shared_place: Any  # of each record
    requests: Any  # delivery, consumer
    requested_at: Any
    fetched_in: Any  # the last fetch that read the record
    behind: Any  # consumers in the order in which they came to be behind …
    behind_at: Any  # … and when
    heap: Any  # of consumers that will read
    places: Any
    count: Any
    latencies: Any
    hit: Any


@compiled
def decide(waiting: Any, policies: Any, admit: Any, admitted: Any) -> None:
    """What the policy says of each record that somebody waits for, in their order."""
    policy = policies[0]
    for record in range(waiting.shape[0]):
        if waiting[record] > 0:
            admitted[record] = admit(policy, waiting[record])


@compiled
def _grow(run: Any, size_bytes: int, now: float) -> None:
    _measure(run, now)
    run.written_bytes += size_bytes
    run.size_bytes += size_bytes


@compiled
def _measure(run: Any, now: float) -> None:
    """Before the number of stored bytes changes."""
    if now > run.measured_at:
        run.byte_s += run.size_bytes * (now - run.measured_at)
        run.measured_at = now


@compiled
def _shrink(run: Any, size_bytes: int) -> None:
    run.expired_bytes += size_bytes
    run.size_bytes -= size_bytes


@compiled
def _entry_bytes(run: Any, world: Any, kind: int, delivery: int) -> int:
    """In the log of one consumer."""
    if run.shared:
        return 0
    if kind == HOLE:
        return int(run.reference_bytes) if run.numbered else 0
    return int(world.size_bytes[world.record_of[delivery]])


@compiled
def _append(run: Any, world: Any, number: int, kind: int, delivery: int, now: float) -> None:
    """An entry at the end of a consumer's log; its retention drops the oldest ones."""
    consumer = world.consumers[number]
    world.kinds[consumer.end], world.entries[consumer.end] = kind, delivery
    consumer.end += 1
    added = _entry_bytes(run, world, kind, delivery)
    if added == 0:
        return
    _grow(run, added, now)
    consumer.size_bytes += added
    while run.retention_bytes > 0 and consumer.size_bytes > run.retention_bytes:
        old = consumer.oldest
        gone = _entry_bytes(run, world, world.kinds[old], world.entries[old])
        consumer.oldest += 1
        consumer.size_bytes -= gone
        _shrink(run, gone)


@compiled
def _append_shared(run: Any, world: Any, added: int, now: float) -> None:
    """The shared log may be as large as those of all consumers together."""
    world.shared_bytes[run.shared_end] = added
    run.shared_end += 1
    _grow(run, added, now)
    limit = run.retention_bytes * world.consumers.shape[0]
    while limit > 0 and run.size_bytes > limit:
        _shrink(run, world.shared_bytes[run.shared_oldest])
        run.shared_oldest += 1


@compiled
def _next_turn(begin: float, every: float, now: float) -> float:
    """The first of begin, begin + every, … that is not before `now`."""
    if every <= 0.0:
        return now
    turn = max(0.0, math.ceil((now - begin) / every))
    while begin + turn * every < now:
        turn += 1.0
    return begin + turn * every


@compiled
def _show(world: Any, number: int, now: float) -> None:
    """Let the consumer notice all that is in its log when it reads next."""
    consumer = world.consumers[number]
    consumer.shown, consumer.behind_at = consumer.end, math.inf
    if world.places[number] < 0 and consumer.unread < consumer.shown:
        turn = _next_turn(consumer.read_at_s, consumer.read_every_s, now)
        place(world.heap, world.places, world.count, number, turn, 0.0)


@compiled
def _fall_behind(run: Any, world: Any, number: int, now: float) -> None:
    consumer = world.consumers[number]
    if consumer.behind_at == math.inf:
        consumer.behind_at = now
        world.behind[run.behind_end], world.behind_at[run.behind_end] = number, now
        run.behind_end += 1


@compiled
def _next_mark(run: Any, world: Any) -> float:
    """When the next head mark is due: all logs wait for theirs as long, so they queue."""
    while run.marked < run.behind_end:
        since = world.behind_at[run.marked]
        if world.consumers[world.behind[run.marked]].behind_at == since:
            return float(since + run.mark_s)
        run.marked += 1
    return math.inf


@compiled
def _deliver(run: Any, world: Any, delivery: int, read_at: float, now: float) -> None:
    run.response_s += now - read_at
    world.latencies[delivery] = now - world.at[world.record_of[delivery]]
    run.ended_at = max(run.ended_at, now)


@compiled
def _service_s(run: Any, world: Any, record: int) -> float:
    """What the broker takes for one record."""
    content = world.content[record]
    n = world.first[content + 1] - world.first[content]
    if world.admitted[record]:
        return float(run.broker_s + (n + run.shared) * run.log_write_s)
    holes_s = n * run.log_write_s if run.numbered or run.shared else 0.0
    return float(run.broker_s + holes_s + n * run.database_write_s)


@compiled
def _broker_done(run: Any, world: Any, before: float) -> float:
    """When the broker is done with the next record, if it was with the last one `before`. What
    there is when a turn begins is done at its end, all together."""
    record = run.records_done
    if record < run.turn_end:
        return before
    begins_at = max(before, world.at[record])
    done_at: float = begins_at + run.turn_s + _service_s(run, world, record)
    end = record + 1
    while run.turn_s > 0.0 and end < world.at.shape[0] and world.at[end] <= begins_at:
        done_at += _service_s(run, world, end)
        end += 1
    run.turn_end = end
    return done_at


@compiled
def _count(run: Any, world: Any, record: int, n: int) -> None:
    size_bytes = world.size_bytes[record]
    if world.admitted[record]:
        run.admitted += 1
        run.copies += n
        run.admitted_run, run.refused_run = run.admitted_run + 1, 0
        run.longest_admitted = max(run.longest_admitted, run.admitted_run)
        if run.shared:
            run.admitted_bytes += size_bytes + n * run.reference_bytes
        else:
            run.admitted_bytes += n * size_bytes
            run.duplicated_bytes += (n - 1) * size_bytes
    else:
        run.refused_run, run.admitted_run = run.refused_run + 1, 0
        run.longest_refused = max(run.longest_refused, run.refused_run)
        run.database_written_bytes += n * size_bytes


@compiled
def _write(run: Any, world: Any, now: float) -> None:
    """The next record comes into the logs, or into the database."""
    record = run.records_done
    content = world.content[record]
    begin, end = world.first[content], world.first[content + 1]
    if begin == end:
        run.unmatched += 1
    else:
        _count(run, world, record, end - begin)
        kind = COPY if world.admitted[record] else HOLE
        if run.shared:
            world.shared_place[record] = run.shared_end
            added = (end - begin) * run.reference_bytes
            _append_shared(
                run, world, added + (world.size_bytes[record] if kind == COPY else 0), now
            )
        for where in range(begin, end):
            number = world.consumer[where]
            world.record_of[run.next_delivery] = record
            _append(run, world, number, kind, run.next_delivery, now)
            if kind == COPY or run.numbered or run.shared:
                _show(world, number, now)
            elif run.mark_s > 0.0:
                _fall_behind(run, world, number, now)
            run.next_delivery += 1
        run.max_bytes = max(run.max_bytes, run.size_bytes)
    run.records_done += 1
    if run.records_done == world.at.shape[0] and run.mark_s <= 0.0:  # the end marks
        for number in range(world.consumers.shape[0]):
            _show(world, number, now)


@compiled
def _read(run: Any, world: Any, number: int, now: float) -> None:
    """A consumer fetches all that it can notice, and asks for what is not there."""
    consumer = world.consumers[number]
    remove(world.heap, world.places, world.count, number)
    fetches = 2.0 if run.shared else 1.0  # the references, then what they point at
    got = 0
    for entry in range(consumer.unread, consumer.shown):
        kind, delivery = world.kinds[entry], world.entries[entry]
        if kind == FILL:
            continue  # who asked for it was there when it came
        record = world.record_of[delivery]
        if run.shared:
            there = world.shared_place[record] >= run.shared_oldest
        else:
            there = entry >= consumer.oldest
        if there and (run.shared or (kind == HOLE and run.numbered)):
            got += run.reference_bytes
        if there and kind == COPY:
            got += world.size_bytes[record]
            world.hit[delivery] = True
            run.hits += 1
            arrives = now + fetches * run.log_read_s + got / run.log_bytes_per_s
            _deliver(run, world, delivery, now, arrives)
        else:
            run.misses += 1
            world.requests[run.asked, 0], world.requests[run.asked, 1] = delivery, number
            world.requested_at[run.asked] = now + run.log_read_s + run.log_write_s
            run.asked += 1
    consumer.unread = consumer.shown
    run.read_bytes += got


@compiled
def _begin_fetch(run: Any, world: Any, now: float) -> None:
    while (
        run.taken < run.asked
        and run.taken - run.answered < run.batch
        and world.requested_at[run.taken] <= now
    ):
        run.taken += 1
    rows = run.taken - run.answered
    run.database_fetches += 1
    run.free_at = now + run.poll_s / 2  # one look a period
    run.fetch_ends = now + (run.database_read_s + rows * (run.database_row_s + run.log_write_s))


@compiled
def _end_fetch(run: Any, world: Any, now: float) -> None:
    """What was fetched comes into the logs of those who wait for it there."""
    fetches = 2.0 if run.shared else 1.0
    for request in range(run.answered, run.taken):
        delivery, number = world.requests[request, 0], world.requests[request, 1]
        record = world.record_of[delivery]
        got = world.size_bytes[record]
        run.database_read_bytes += got
        if run.shared:
            # Who asks for the same record in the same fetch gets a further reference to it.
            again = world.fetched_in[record] == run.database_fetches
            world.fetched_in[record] = run.database_fetches
            _append_shared(run, world, run.reference_bytes + (0 if again else got), now)
            got += run.reference_bytes
        else:
            _append(run, world, number, FILL, delivery, now)
        run.read_bytes += got
        arrives = now + fetches * run.log_read_s + got / run.log_bytes_per_s
        read_at = world.requested_at[request] - run.log_read_s - run.log_write_s
        _deliver(run, world, delivery, read_at, arrives)
    run.max_bytes = max(run.max_bytes, run.size_bytes)
    run.answered, run.free_at = run.taken, max(run.free_at, now)


@compiled
def read_times(runs: Any, world: Any, reads_at: Any) -> None:
    """When the consumer of each delivery reads, if all is admitted; nothing else is played."""
    run = runs[0]
    done_at, delivery = 0.0, 0
    for record in range(world.at.shape[0]):
        run.records_done = record
        done_at = _broker_done(run, world, done_at)
        content = world.content[record]
        for where in range(world.first[content], world.first[content + 1]):
            consumer = world.consumers[world.consumer[where]]
            written_at = done_at + run.commit_s
            reads_at[delivery] = _next_turn(consumer.read_at_s, consumer.read_every_s, written_at)
            delivery += 1


@compiled
def in_order(world: Any, handed_on: Any, waits: Any) -> None:
    """How long each delivery takes if a consumer hands records on in their order. `handed_on` is
    for each consumer when the last one was."""
    delivery = 0
    for record in range(world.at.shape[0]):
        content = world.content[record]
        for where in range(world.first[content], world.first[content + 1]):
            number = world.consumer[where]
            arrived_at = world.at[record] + world.latencies[delivery]
            handed_on[number] = max(handed_on[number], arrived_at)
            waits[delivery] = handed_on[number] - world.at[record]
            delivery += 1


@compiled
def play(runs: Any, world: Any) -> None:
    run = runs[0]
    records = world.at.shape[0]
    done_at = _broker_done(run, world, 0.0)
    while True:
        reads_at = world.heap[0].score if world.count[0] > 0 else math.inf
        polls_at = math.inf
        if run.taken > run.answered:
            polls_at = run.fetch_ends
        elif run.asked > run.taken:
            wanted_at = max(run.free_at, world.requested_at[run.taken])
            polls_at = _next_turn(0.0, run.poll_s, wanted_at)
        marks_at = _next_mark(run, world)
        writes_at = done_at + run.commit_s
        if min(writes_at, marks_at, reads_at, polls_at) == math.inf:
            break
        if writes_at <= marks_at and writes_at <= reads_at and writes_at <= polls_at:
            _write(run, world, writes_at)
            more = run.records_done < records
            done_at = _broker_done(run, world, done_at) if more else math.inf
        elif marks_at <= reads_at and marks_at <= polls_at:
            _show(world, world.behind[run.marked], marks_at)
        elif reads_at <= polls_at:
            _read(run, world, world.heap[0].key, reads_at)
        elif run.taken > run.answered:
            _end_fetch(run, world, polls_at)
        else:
            _begin_fetch(run, world, polls_at)
    _measure(run, run.ended_at)
