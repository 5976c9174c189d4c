"""Queries that are asked while a job runs go together into the next one; nobody waits for ever."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tocsin.spark.shared_jobs import LANES, MOST_QUERIES, SharedJobs
from tocsin.spark.standing import StandingQuery

LONG_S = 30.0


class Jobs(SharedJobs):
    """Each query's answer is its own number; jobs wait while the gate is closed."""

    def __init__(self) -> None:
        super().__init__(cast(SparkSession, None))
        self.groups: list[list[int]] = []
        self.gate = threading.Event()
        self.fails: set[int] = set()
        self.begun = threading.Semaphore(0)

    def _rows(self, queries: Sequence[Any], tickets: Sequence[Any]) -> dict[int, pa.Table]:
        numbers = [query.number for query in queries]
        self.groups.append(numbers)
        self.begun.release()
        assert self.gate.wait(LONG_S)
        if self.fails & set(numbers):
            raise ValueError(f"one of {numbers} fails")
        return {number: pa.table({"n": [number]}) for number in numbers}


def query(number: int, *, tried: bool = True) -> StandingQuery:
    return cast(StandingQuery, SimpleNamespace(number=number, is_tried=tried))


def ask(jobs: Jobs, asked: StandingQuery) -> int:
    return int(jobs.ask([asked], LONG_S)[0].column("n")[0].as_py())


def all_lanes_busy(jobs: Jobs, pool: ThreadPoolExecutor) -> list[Any]:
    first = []
    for number in range(LANES):
        first.append(pool.submit(ask, jobs, query(1000 + number)))
        assert jobs.begun.acquire(timeout=LONG_S)
    return first


def waiting(jobs: Jobs, count: int) -> None:
    for _ in range(3000):
        if len(jobs._waiting) == count:
            return
        threading.Event().wait(0.01)
    raise AssertionError(f"{len(jobs._waiting)} wait")


def test_those_who_wait_are_answered_by_one_job() -> None:
    jobs = Jobs()
    with ThreadPoolExecutor(16) as pool:
        first = all_lanes_busy(jobs, pool)
        rest = [pool.submit(ask, jobs, query(number)) for number in range(5)]
        waiting(jobs, 5)
        jobs.gate.set()
        assert [each.result(LONG_S) for each in (*first, *rest)] == [1000, 1001, 0, 1, 2, 3, 4]
    assert sorted(jobs.groups[LANES]) == [0, 1, 2, 3, 4]


def test_new_query_is_tried_by_itself() -> None:
    jobs = Jobs()
    with ThreadPoolExecutor(16) as pool:
        all_lanes_busy(jobs, pool)
        rest = [pool.submit(ask, jobs, query(number, tried=number > 1)) for number in range(5)]
        waiting(jobs, 5)
        jobs.gate.set()
        assert [each.result(LONG_S) for each in rest] == [0, 1, 2, 3, 4]
    alone = [group for group in jobs.groups if {0, 1} & set(group)]
    assert sorted(alone) == [[0], [1]]


def test_failure_reaches_all_of_its_job_and_nobody_else() -> None:
    jobs = Jobs()
    jobs.fails = {3}
    with ThreadPoolExecutor(40) as pool:
        all_lanes_busy(jobs, pool)
        count = MOST_QUERIES + 4
        asked = {number: pool.submit(ask, jobs, query(number)) for number in range(count)}
        waiting(jobs, count)
        jobs.gate.set()
        wait(asked.values(), LONG_S)
        for number, answer in asked.items():
            [group] = [group for group in jobs.groups if number in group]
            if 3 in group:
                with pytest.raises(ValueError, match="fails"):
                    answer.result(LONG_S)
            else:
                assert answer.result(LONG_S) == number
        assert max(map(len, jobs.groups)) == MOST_QUERIES
        assert ask(jobs, query(3000)) == 3000  # the lanes are free again


def test_each_of_many_gets_its_own_answers() -> None:
    jobs = Jobs()
    jobs.gate.set()

    def again_and_again(number: int) -> bool:
        mine = query(number, tried=False)
        return all(ask(jobs, mine) == number for _ in range(200))

    with ThreadPoolExecutor(24) as pool:
        assert all(pool.map(again_and_again, range(24)))
    assert jobs._free_lanes == LANES
    assert not jobs._waiting
