"""The judge of a chaos run: whole histories pass, and every broken promise is named."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tocsin.testing.chaos.history import (
    Figures,
    Person,
    Publication,
    Shown,
    Visit,
    figures,
    judge,
    owed,
)

FLOOD, FIRE = "reports/flood", "reports/fire"


class World:
    """Ann asked at 10 and was subscribed at 11; she left after the record of 15, and came again."""

    def __init__(self) -> None:
        self.publications = {
            "early": Publication("early", FLOOD, 1.0, 2.0),
            "meanwhile": Publication("meanwhile", FLOOD, 10.2, 10.8),
            "first": Publication("first", FLOOD, 12.0, 12.5),
            "other": Publication("other", FIRE, 13.0, 13.5),
            "second": Publication("second", FLOOD, 15.0, 19.0),
            "third": Publication("third", FLOOD, 20.0, 21.0),
            "doubtful": Publication("doubtful", FLOOD, 22.0),
        }
        self.ann = Person("ann", FLOOD, asked_at=10.0, subscribed_at=11.0)
        self.ann.visits = [
            Visit([Shown("first", 8), Shown("second", 9)]),
            Visit([Shown("third", 10)]),
        ]
        self.stored = dict.fromkeys(self.publications, 1) | {"doubtful": 1}

    def broken(self) -> list[str]:
        return judge(self.publications, [self.ann], self.stored)


def test_a_whole_history_breaks_no_promise() -> None:
    world = World()
    assert world.broken() == []
    assert owed(world.ann, world.publications.values()) == {"first", "second", "third"}
    assert figures(world.publications, [world.ann]) == Figures(
        acknowledged=6,
        in_doubt=1,
        people=1,
        visits=2,
        shown=3,
        repeated=0,
        longest_wait_s=4.0,
    )


def test_what_was_published_while_somebody_subscribed_may_be_shown_or_not() -> None:
    world = World()
    world.ann.visits[0].shown.insert(0, Shown("meanwhile", 7))
    assert world.broken() == []


def test_what_may_have_been_taken_may_be_shown_and_stored_or_neither() -> None:
    world = World()
    world.ann.visits[1].shown.append(Shown("doubtful", 11))
    assert world.broken() == []
    del world.stored["doubtful"]
    assert world.broken() == []


def test_who_comes_back_may_be_shown_the_last_results_again() -> None:
    world = World()
    world.ann.visits[1].shown.insert(0, Shown("second", 9))
    assert world.broken() == []
    assert figures(world.publications, [world.ann]).repeated == 1


def test_positions_of_filters_may_have_holes() -> None:
    world = World()
    world.ann.holes = True
    world.ann.visits[1].shown = [Shown("third", 300)]
    assert world.broken() == []


def lost(world: World) -> None:
    del world.stored["first"]


def stored_twice(world: World) -> None:
    world.stored["first"] = 2


def stored_by_nobody(world: World) -> None:
    world.stored["ghost"] = 1


def never_shown(world: World) -> None:
    world.ann.visits[1].shown = []


def shown_the_past(world: World) -> None:
    world.ann.visits[0].shown.insert(0, Shown("early", 7))


def shown_of_another_kind(world: World) -> None:
    world.ann.visits[1].shown.append(Shown("other", 11))


def shown_a_ghost(world: World) -> None:
    world.ann.visits[1].shown.append(Shown("ghost", 11))


def shown_twice(world: World) -> None:
    world.ann.visits[1].shown.append(Shown("third", 11))


def shown_backwards(world: World) -> None:
    world.ann.visits[0].shown.reverse()


def skipped(world: World) -> None:
    world.ann.visits[1].shown = [Shown("third", 11)]


def skipped_in_a_visit(world: World) -> None:
    world.ann.visits[0].shown = [Shown("first", 8), Shown("second", 10)]
    world.ann.visits[1].shown = [Shown("third", 11)]


def at_two_positions(world: World) -> None:
    world.ann.visits[1].shown = [Shown("second", 10), Shown("third", 11)]


def told_a_gap(world: World) -> None:
    world.ann.visits[1].gaps = 1


@pytest.mark.parametrize(
    ("breach", "complaint"),
    [
        (lost, "1 acknowledged records are not stored: first"),
        (stored_twice, "1 records are stored more than once: first"),
        (stored_by_nobody, "1 stored records were published by nobody: ghost"),
        (never_shown, "ann was never shown 1 records: third"),
        (shown_the_past, "ann was shown 1 records of no concern: early"),
        (shown_of_another_kind, "ann was shown 1 records of no concern: other"),
        (shown_a_ghost, "ann was shown 1 records of no concern: ghost"),
        (shown_twice, "ann was shown twice in one visit: third"),
        (shown_backwards, "ann was shown position 8 after 9"),
        (skipped, "ann was not shown the positions between 9 and 11"),
        (skipped_in_a_visit, "ann was not shown the positions between 8 and 10"),
        (at_two_positions, "ann was shown second at two positions"),
        (told_a_gap, "ann was told 1 gaps, and nothing was given up"),
    ],
)
def test_every_breach_is_named(breach: Callable[[World], None], complaint: str) -> None:
    world = World()
    breach(world)
    assert complaint in world.broken()
