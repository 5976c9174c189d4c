"""What a neighbour's cache has, joined with what the store adds."""

from __future__ import annotations

from msgspec import Raw

from broker_core.filters import FilterBench, records, stored
from tocsin.broker.machine.effects import Fetch
from tocsin.broker.machine.events import RangeAnswer
from tocsin.broker.machine.neighbours import NeighbourResults, cached_part, most_of
from tocsin.overlay.routing import ResultsFound, ResultsWanted

FETCH = Fetch(1, 8, 2, 19, 1000, ahead=False)


def test_the_newest_part_that_is_cached_is_found() -> None:
    bench = FilterBench()
    bench.routed(13, 19, 25)
    told = cached_part(bench.core, ResultsWanted(1, 8, "F", 2, 19))
    assert (told.after, told.upto) == (10, 19)
    assert most_of(FETCH, "F", [told]) == NeighbourResults("F", 10, 19, records(13, 19))


def test_an_answer_is_the_newest_that_fits() -> None:
    bench = FilterBench()
    bench.routed(13, 19, 25)
    wanted = ResultsWanted(1, 8, "F", 2, 25)
    told = cached_part(bench.core, wanted, most_bytes=20)
    assert (told.after, [position for position, _, _ in told.results]) == (13, [19, 25])
    told = cached_part(bench.core, wanted, most_bytes=9)
    assert (told.after, told.results) == (25, ())


def test_of_what_is_wanted_up_to_later_the_known_part_is_found() -> None:
    bench = FilterBench()
    bench.routed(13)
    told = cached_part(bench.core, ResultsWanted(1, 8, "F", 2, 19))
    assert most_of(FETCH, "F", [told]) == NeighbourResults("F", 10, 13, records(13))


def test_nothing_is_found_of_what_is_not_known_whole() -> None:
    bench = FilterBench()
    bench.routed(13)
    for wanted in (
        ResultsWanted(1, 8, "G", 2, 13),
        ResultsWanted(1, 9, "F", 2, 13),
        ResultsWanted(1, 8, "F", 2, 10),  # before our time
    ):
        told = cached_part(bench.core, wanted)
        assert (told.after, told.results) == (told.upto, ())
        assert most_of(FETCH, "F", [told]) is None


def test_the_neighbour_that_has_most_is_taken() -> None:
    one, other = ((at, 1.0, Raw(b"{}")) for at in (8, 17))
    answers = [
        ResultsFound(1, 15, 19, (other,)),
        ResultsFound(1, 7, 19, (one, other)),
        ResultsFound(1, 3, 18),
    ]
    neighbour = most_of(FETCH, "F", answers)
    assert neighbour is not None
    assert neighbour.after == 7
    assert most_of(FETCH, "F", answers[2:]) is most_of(FETCH, "F", []) is None


def test_the_store_adds_what_is_before() -> None:
    neighbour = NeighbourResults("F", 10, 19, records(13, 19))
    assert neighbour.behind(stored(4, upto=10)) == RangeAnswer(
        "F", 0, 1000, records(4, 13, 19), upto=19, from_neighbours=2
    )
    assert neighbour.behind(None) == RangeAnswer(
        "F", 0, 19, records(13, 19), upto=19, from_neighbours=2
    )


def test_a_hole_before_it_or_another_epoch_leaves_the_stores_answer() -> None:
    neighbour = NeighbourResults("F", 10, 19, records(13, 19))
    short = stored(4, upto=7)
    assert neighbour.behind(short) is short
    assert NeighbourResults("G", 10, 19, []).behind(stored(4, upto=10)) == stored(4, upto=10)


def test_what_the_store_has_lost_the_neighbour_may_have() -> None:
    neighbour = NeighbourResults("F", 10, 19, records(13, 19))
    assert neighbour.behind(stored(upto=10, floor=15)) == RangeAnswer(
        "F", 10, 1000, records(13, 19), upto=19, from_neighbours=2
    )
    dense = RangeAnswer("F", 15, 1000, [])
    assert neighbour.behind(dense).results == records(13, 19)
