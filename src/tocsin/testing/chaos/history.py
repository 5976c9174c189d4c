"""What people were told, and what must be true of it: the judge of a chaos run.

Knows no system and no clock. It looks at the publishers' acknowledgements, at what each subscriber
was shown in each of its visits, and at what the store holds, and at nothing that the system says of
itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field


class Publication(Struct):
    """Of one publisher, under one key, sent until it was acknowledged."""

    id: str
    kind: str
    sent_at: float  # for the first time
    acknowledged_at: float | None = None


class Shown(Struct, frozen=True):
    id: str
    position: int
    at: float = 0.0


class Visit(Struct):
    """From a connection that a subscriber opened until it closed it."""

    shown: list[Shown] = field(default_factory=list)
    gaps: int = 0


class Person(Struct):
    """A subscriber to one kind of publications. `asked_at` is when it first tried to subscribe,
    `subscribed_at` when it was told that it had. `holes`: positions need not follow each other."""

    name: str
    kind: str
    holes: bool = False
    asked_at: float = 0.0
    subscribed_at: float | None = None
    visits: list[Visit] = field(default_factory=list)


class Figures(Struct, frozen=True):
    acknowledged: int
    in_doubt: int  # sent, and no answer came before the end
    people: int
    visits: int
    shown: int
    repeated: int  # again after a subscriber came back, because its acknowledgement was lost
    longest_wait_s: float  # of a publisher for an acknowledgement


def owed(person: Person, publications: Iterable[Publication]) -> set[str]:
    """What the person must be shown: what was sent after it had subscribed, and acknowledged."""
    since = person.subscribed_at
    if since is None:
        return set()
    return {
        publication.id
        for publication in publications
        if publication.kind == person.kind
        and publication.acknowledged_at is not None
        and publication.sent_at > since
    }


def resumed_s(
    at: float, publications: Mapping[str, Publication], people: Sequence[Person]
) -> float | None:
    """How long after that time somebody was first shown what was published after it."""
    return min(
        (
            shown.at - at
            for person in people
            for visit in person.visits
            for shown in visit.shown
            if publications[shown.id].sent_at > at
        ),
        default=None,
    )


def seen(person: Person) -> set[str]:
    return {shown.id for visit in person.visits for shown in visit.shown}


def judge(
    publications: Mapping[str, Publication], people: Sequence[Person], stored: Mapping[str, int]
) -> list[str]:
    """Every promise that was broken, a line each. `stored`: how often the store has each id."""
    broken = list(_of_the_store(publications, stored))
    for person in people:
        broken += _of_a_person(person, publications)
    return broken


def figures(publications: Mapping[str, Publication], people: Sequence[Person]) -> Figures:
    waits = [
        publication.acknowledged_at - publication.sent_at
        for publication in publications.values()
        if publication.acknowledged_at is not None
    ]
    visits = [visit for person in people for visit in person.visits]
    shown = sum(len(visit.shown) for visit in visits)
    return Figures(
        acknowledged=len(waits),
        in_doubt=len(publications) - len(waits),
        people=len(people),
        visits=len(visits),
        shown=shown,
        repeated=shown - sum(len(seen(person)) for person in people),
        longest_wait_s=max(waits, default=0.0),
    )


def _of_the_store(
    publications: Mapping[str, Publication], stored: Mapping[str, int]
) -> Iterator[str]:
    acknowledged = {
        id for id, publication in publications.items() if publication.acknowledged_at is not None
    }
    lost = acknowledged - stored.keys()
    if lost:
        yield f"{len(lost)} acknowledged records are not stored: {_first_of(lost)}"
    twice = {id for id, count in stored.items() if count > 1}
    if twice:
        yield f"{len(twice)} records are stored more than once: {_first_of(twice)}"
    strange = stored.keys() - publications.keys()
    if strange:
        yield f"{len(strange)} stored records were published by nobody: {_first_of(strange)}"


def _of_a_person(person: Person, publications: Mapping[str, Publication]) -> Iterator[str]:
    missing = owed(person, publications.values()) - seen(person)
    if missing:
        yield f"{person.name} was never shown {len(missing)} records: {_first_of(missing)}"
    strange = {id for id in seen(person) if not _may_be_shown(person, publications.get(id))}
    if strange:
        yield f"{person.name} was shown {len(strange)} records of no concern: {_first_of(strange)}"
    last: Shown | None = None
    known: dict[str, int] = {}  # the position of each record
    for visit in person.visits:
        if visit.gaps:
            yield f"{person.name} was told {visit.gaps} gaps, and nothing was given up"
        counts = Counter(shown.id for shown in visit.shown)
        twice = [id for id, count in counts.items() if count > 1]
        if twice:
            yield f"{person.name} was shown twice in one visit: {_first_of(twice)}"
        before = None
        for shown in visit.shown:
            if known.setdefault(shown.id, shown.position) != shown.position:
                yield f"{person.name} was shown {shown.id} at two positions"
            complaint = _misplaced(person, before, last, shown)
            if complaint:
                yield f"{person.name} {complaint}"
            before = shown
            last = shown if last is None or shown.position > last.position else last


def _misplaced(
    person: Person, before: Shown | None, furthest: Shown | None, shown: Shown
) -> str | None:
    """`before` is what came before in this visit, `furthest` the furthest of all visits."""
    if before is not None and shown.position <= before.position:
        return f"was shown position {shown.position} after {before.position}"
    reached = before or furthest
    if reached is None or person.holes:
        return None
    if shown.position > reached.position + 1:
        return f"was not shown the positions between {reached.position} and {shown.position}"
    return None


def _may_be_shown(person: Person, publication: Publication | None) -> bool:
    """What was acknowledged before anybody asked to subscribe is the past, and not owed."""
    if publication is None or publication.kind != person.kind:
        return False
    at = publication.acknowledged_at
    return at is None or at >= person.asked_at


def _first_of(ids: Iterable[str]) -> str:
    listed = sorted(ids)
    return ", ".join(listed[:3]) + (" …" if len(listed) > 3 else "")
