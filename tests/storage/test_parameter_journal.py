"""The journal of parameter sets: what it cannot tell whole, it does not tell."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tocsin.storage.store.parameter_journal import ParameterJournal


def test_a_version_from_before_the_start_or_from_the_future_is_unknown() -> None:
    journal = ParameterJournal(start=5)
    assert journal.since("c", 4) is None
    assert journal.since("c", 5) == (5, [], [])
    assert journal.since("c", 6) is None


def test_one_that_came_and_went_is_not_mentioned() -> None:
    journal = ParameterJournal(start=0)
    journal.record("c", 1, 7, {"x": 1})
    journal.record("c", 2, 7, None)
    assert journal.since("c", 0) == (2, [], [])
    assert journal.since("c", 1) == (2, [], [7])


def test_changes_of_one_transaction_stay_together_when_old_ones_are_forgotten() -> None:
    journal = ParameterJournal(start=0, capacity=1)
    journal.record("c", 3, 1, {})
    journal.record("c", 3, 2, {})
    assert journal.since("c", 0) is None
    assert journal.since("c", 2) is None
    assert journal.since("c", 3) == (3, [], [])


@given(st.lists(st.integers(0, 5), max_size=40), st.integers(1, 10), st.integers(0, 40))
def test_a_copy_kept_by_changes_equals_the_whole(
    toggles: list[int], capacity: int, asked_after: int
) -> None:
    journal = ParameterJournal(start=0, capacity=capacity)
    live: dict[int, int] = {}  # parameter set -> backend id
    copy: dict[int, dict[str, int]] = {}
    version = 0
    for number, parameter in enumerate(toggles, start=1):
        if number == asked_after:
            version, copy = number - 1, {one: {"p": key} for key, one in live.items()}
        if parameter in live:
            journal.record("c", number, live.pop(parameter), None)
        else:
            live[parameter] = number
            journal.record("c", number, number, {"p": parameter})
    changes = journal.since("c", version)
    if changes is None:
        assert len(toggles) - version > capacity
        return
    _, added, removed = changes
    for gone in removed:
        del copy[gone]
    copy.update(added)
    assert copy == {one: {"p": key} for key, one in live.items()}
