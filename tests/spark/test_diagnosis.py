"""What makes a run fail is found and left out, and nothing else is."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tocsin.spark.diagnosis import MOST_TRIES, diagnose

RECORDS = list(range(100, 140))
SETS = list(range(20))
Pair = tuple[int, int]


class Query:
    """Fails on bad records, with bad sets, and on bad pairs of them."""

    def __init__(self, records: set[int], sets: set[int], pairs: set[Pair]) -> None:
        self.records, self.sets, self.pairs = records, sets, pairs
        self.tries = 0

    def fails(self, records: Sequence[int], sets: Sequence[int]) -> str | None:
        self.tries += 1
        if not records or not sets:
            return None
        bad = [
            *self.records.intersection(records),
            *self.sets.intersection(sets),
            *(r for r, s in self.pairs if r in records and s in sets),
        ]
        return f"cannot compute with {min(bad)}" if bad else None


def test_bad_record_is_found_and_everybody_else_is_left_alone() -> None:
    query = Query({117}, set(), set())
    verdict = diagnose(RECORDS, SETS, query.fails, one_by_one=True)
    assert list(verdict.records) == [117]
    assert not verdict.sets
    assert not verdict.pairs
    assert verdict.everything is None
    assert query.tries < 60


def test_bad_argument_is_found_and_costs_no_record() -> None:
    query = Query(set(), {7, 12}, set())
    verdict = diagnose(RECORDS, SETS, query.fails, one_by_one=True)
    assert set(verdict.sets) == {7, 12}
    assert not verdict.records
    assert not verdict.pairs
    assert verdict.everything is None


def test_record_that_one_argument_fails_on_is_lost_for_that_argument_alone() -> None:
    query = Query(set(), set(), {(117, 3)})
    verdict = diagnose(RECORDS, SETS, query.fails, one_by_one=True)
    assert {record: set(sets) for record, sets in verdict.pairs.items()} == {117: {3}}
    assert not verdict.records
    assert not verdict.sets
    assert verdict.everything is None


def test_where_records_belong_together_the_record_is_left_out_for_all() -> None:
    query = Query(set(), set(), {(117, 3)})
    verdict = diagnose(RECORDS, SETS, query.fails, one_by_one=False)
    assert list(verdict.records) == [117]


def test_query_that_always_fails_is_no_single_records_fault() -> None:
    verdict = diagnose(RECORDS, SETS, lambda r, s: "always", one_by_one=True)
    assert verdict.everything == "always"


def test_failure_of_all_few_arguments_is_soon_known_to_be_the_querys() -> None:
    query = Query(set(), {0}, set())
    verdict = diagnose(RECORDS, [0], query.fails, one_by_one=True)
    assert verdict.everything is not None
    assert query.tries < 20


def test_many_bad_records_are_found_one_by_one() -> None:
    bad = set(range(1000, 2000, 40))
    query = Query(bad, set(), set())
    verdict = diagnose(range(1000, 2000), SETS, query.fails, one_by_one=True)
    assert set(verdict.records) == bad
    assert verdict.everything is None


def test_too_many_bad_records_exhaust_the_tries_and_that_is_told() -> None:
    query = Query(set(range(1000, 2000, 2)), set(), set())
    verdict = diagnose(range(1000, 2000), SETS, query.fails, one_by_one=True)
    assert verdict.everything is not None
    assert verdict.exhausted
    assert query.tries == MOST_TRIES


def test_failure_without_any_record_is_an_arguments() -> None:
    none: list[int] = []
    verdict = diagnose(none, SETS, lambda _, s: "bad" if 3 in s else None, one_by_one=True)
    assert set(verdict.sets) == {3}


@given(
    st.sets(st.sampled_from(RECORDS), max_size=3),
    st.sets(st.sampled_from(SETS), max_size=3),
    st.sets(st.tuples(st.sampled_from(RECORDS), st.sampled_from(SETS)), max_size=3),
    st.booleans(),
)
def test_what_is_left_after_a_verdict_does_not_fail(
    records: set[int], sets: set[int], pairs: set[Pair], one_by_one: bool
) -> None:
    query = Query(records, sets, pairs)
    verdict = diagnose(RECORDS, SETS, query.fails, one_by_one=one_by_one)
    assert query.tries <= MOST_TRIES + 1
    assert verdict.everything is None
    rest = [s for s in SETS if s not in verdict.sets]
    kept = [r for r in RECORDS if r not in verdict.records and r not in verdict.pairs]
    assert query.fails(kept, rest) is None
    for record, culprits in verdict.pairs.items():
        assert query.fails([record], [s for s in rest if s not in culprits]) is None
    # Nothing is blamed that has no part in it.
    touched = records | {r for r, _ in pairs}
    assert set(verdict.records) | set(verdict.pairs) <= touched or sets
    assert set(verdict.sets) <= sets | {s for _, s in pairs}
