"""What a channel's query says to a window of records, and what it cannot say.

A query's own failure is traced to the records and parameter sets that cause it. Those become gaps,
and everybody else's answers of the same run stand. Stores no results and moves no channel.
Knows no Spark.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog
from prometheus_client import Counter

from tocsin.model import Arguments, Channel
from tocsin.spark.asking import (
    Ask,
    Blame,
    Compiled,
    Overlong,
    ParameterSets,
    Queries,
    Record,
    Rows,
    Tries,
)
from tocsin.spark.diagnosis import Verdict, diagnose
from tocsin.spark.window import Window
from tocsin.storage.store.gaps import too_large
from tocsin.storage.store.progress import Loss, Progress
from tocsin.storage.store.store import Store

log = structlog.get_logger()

FAILURES = Counter("tocsin_run_failures_total", "Runs that failed", ["channel"])

STRIKES = 3  # runs in a row that a parameter set may fail before it is asked no more

Bury = Callable[[str, Sequence[tuple[Record, str]], str], None]
"""Make records, given as JSON, dead letters of a channel, for a reason. It may be repeated."""


@dataclass
class Prepared:
    """A channel that can be run."""

    channel: Channel
    compiled: Compiled
    parameters: ParameterSets
    checked: set[frozenset[str]] = field(default_factory=set)  # masks that Spark can run
    lock: threading.Lock = field(default_factory=threading.Lock)
    progress: Progress | None = None  # as far as it is known here
    strikes: dict[int, int] = field(default_factory=dict)  # by backend subscription


@dataclass
class Answer:
    """Rows to store, and what could not be computed: for all, or for some parameter sets."""

    rows: Rows = field(default_factory=Rows)
    lost: list[Loss] = field(default_factory=list)
    lost_by: dict[int, list[Loss]] = field(default_factory=dict)
    error: str | None = None

    def add(self, other: Answer) -> None:
        """That of parameter sets which this one is not about."""
        self.rows = self.rows.with_others(other.rows)
        self.lost += [loss for loss in other.lost if loss not in self.lost]
        self.lost_by |= other.lost_by
        self.error = self.error or other.error

    @property
    def losses(self) -> list[Loss]:
        """Each loss once, however many subscribers it concerns."""
        every = [*self.lost, *(loss for losses in self.lost_by.values() for loss in losses)]
        return list({(loss.dataset, loss.first, loss.cause): loss for loss in every}.values())


class Answering:
    """`patience_s`: who may take less time than that does not look for what a query fails on."""

    def __init__(
        self,
        queries: Queries,
        store: Store,
        bury: Bury,
        *,
        result_limit_bytes: int,
        patience_s: float,
    ) -> None:
        self._queries = queries
        self._store = store
        self._bury = bury
        self._result_limit_bytes = result_limit_bytes
        self._patience_s = patience_s

    def ask(self, prepared: Prepared, ask: Ask, parameters: Any) -> Answer:
        """What the query says to all parameter sets; what it cannot say is traced to its causes."""
        return self._ask(prepared, ask, parameters, None)

    def ask_for(self, prepared: Prepared, ask: Ask, sets: Mapping[int, Arguments]) -> Answer:
        """The same for some parameter sets."""
        parameters = self._queries.parameters(prepared, sets)
        assert parameters is not None
        return self._ask(prepared, ask, parameters, sets)

    def _ask(
        self,
        prepared: Prepared,
        ask: Ask,
        parameters: Any,
        only: Mapping[int, Arguments] | None,
    ) -> Answer:
        name, window = prepared.channel.name, ask.window
        trial = self._queries.tries(prepared, ask, parameters)
        try:
            rows = trial.rows()
        except Exception as failure:
            self._handle_failure(name, ask, failure)
        else:
            return self._answered(prepared, window, rows)
        records = trial.records()
        sets = dict(only or self._asked(prepared))
        verdict = _diagnose(trial, records, sets, one_by_one=prepared.compiled.by_record)
        if verdict.exhausted and len(records) > 1 and ask.divisible():
            raise Overlong(f"it fails on too much at once: {verdict.everything}")
        if verdict.everything is not None:
            return self._lose_all(prepared, trial, window, records, verdict.everything)
        rows = _rows_without_culprits(trial, sets, verdict)
        self._strike(prepared, verdict.sets)
        self._bury_all(prepared, trial, verdict)
        answer = self._answered(prepared, window, rows)
        _add_losses(answer, verdict, window, len(records))
        log.warning(
            "a query failed on some of a run",
            channel=name,
            reason=answer.error,
            records=len({*verdict.records, *verdict.pairs}),
            subscriptions=len(verdict.sets),
        )
        return answer

    def _asked(self, prepared: Prepared) -> Iterator[tuple[int, Arguments]]:
        """The sets that the query was asked for. Who has subscribed since is asked for later."""
        for number, arguments in self._store.subscriptions.parameter_sets(prepared.channel.name):
            if prepared.parameters.holds(number):
                yield number, arguments

    def _handle_failure(self, name: str, ask: Ask, failure: Exception) -> None:
        """Raises unless the query itself failed and there is time to find out on what."""
        fault = self._queries.blame(failure)
        if fault not in (Blame.QUERY, Blame.MEMORY):
            raise failure
        FAILURES.labels(name).inc()
        hurried = ask.limit_s < self._patience_s
        if hurried or (fault is Blame.MEMORY and ask.divisible()):
            raise Overlong(self._queries.reason(failure)) from None
        log.warning("a query failed; looking for what it fails on", channel=name)

    def _lose_all(
        self, prepared: Prepared, trial: Tries, window: Window, records: list[Record], why: str
    ) -> Answer:
        log.error("a run is lost", channel=prepared.channel.name, reason=why, records=len(records))
        self._bury(prepared.channel.name, trial.texts(records), why)
        return Answer(lost=whole(window, len(records), why), error=why)

    def _bury_all(self, prepared: Prepared, trial: Tries, verdict: Verdict[Record, int]) -> None:
        causes = dict(verdict.records)
        causes |= {record: next(iter(why.values())) for record, why in verdict.pairs.items()}
        for why in dict.fromkeys(causes.values()):
            dead = [record for record, cause in causes.items() if cause == why]
            self._bury(prepared.channel.name, trial.texts(dead), why)

    def _strike(self, prepared: Prepared, failed: Mapping[int, str]) -> None:
        """A parameter set that fails in run after run would cost everybody time each time."""
        strikes = {number: prepared.strikes.get(number, 0) + 1 for number in failed}
        prepared.strikes = strikes
        out = {number: failed[number] for number, count in strikes.items() if count >= STRIKES}
        if out:
            self._store.subscriptions.set_aside(prepared.channel.name, out)
            log.error("subscriptions are set aside", channel=prepared.channel.name, reasons=out)

    def _answered(self, prepared: Prepared, window: Window, rows: Rows) -> Answer:
        """Of these the rows that count for their subscriptions, and not of records before them.
        What is too large to be stored is lost to its own subscription alone."""
        if prepared.compiled.by_record:
            start, _ = window.range(prepared.compiled.new[0])
            since = self._store.subscriptions.starting_after(prepared.channel.name, start)
            if since:
                rows = rows.where(lambda row: row.order >= since.get(row.backend, 0))
        limit_bytes = self._result_limit_bytes
        if max(map(len, rows.payloads), default=0) <= limit_bytes:
            return Answer(rows)
        answer = Answer(rows.where(lambda row: len(row.payload) <= limit_bytes))
        for row in rows:
            if len(row.payload) > limit_bytes:
                answer.error = too_large(len(row.payload), limit_bytes)
                loss = Loss("", 0, 0, 0, answer.error)
                if prepared.compiled.by_record:
                    (dataset,) = prepared.compiled.new
                    loss = Loss(dataset, row.order, row.order + 1, 1, answer.error)
                answer.lost_by.setdefault(row.backend, []).append(loss)
        return answer


def _diagnose(
    trial: Tries, records: list[Record], sets: Mapping[int, Arguments], *, one_by_one: bool
) -> Verdict[Record, int]:
    def fails(chosen_records: Sequence[Record], chosen: Sequence[int]) -> str | None:
        if not chosen:
            return None
        return trial.fails(chosen_records, {number: sets[number] for number in chosen})

    return diagnose(records, list(sets), fails, one_by_one=one_by_one)


def _rows_without_culprits(
    trial: Tries, sets: Mapping[int, Arguments], verdict: Verdict[Record, int]
) -> Rows:
    """What the query answers without what it fails on."""
    kept = {number: sets[number] for number in sets if number not in verdict.sets}
    rows = trial.rows(without={*verdict.records, *verdict.pairs}, sets=kept)
    for record, culprits in verdict.pairs.items():
        others = {number: kept[number] for number in kept if number not in culprits}
        rows = rows.with_others(trial.rows(only=[record], sets=others))
    return rows


def _add_losses(
    answer: Answer, verdict: Verdict[Record, int], window: Window, records: int
) -> None:
    answer.error = _first_reason(verdict)
    answer.lost = _losses(verdict.records)
    for record, culprits in verdict.pairs.items():
        for number, why in culprits.items():
            answer.lost_by.setdefault(number, []).extend(_losses({record: why}))
    for number, why in verdict.sets.items():
        answer.lost_by[number] = whole(window, records, why)


def _losses(records: Mapping[Record, str]) -> list[Loss]:
    """One for each reason and dataset."""
    together: dict[tuple[str, str], list[int]] = {}
    for record, why in records.items():
        together.setdefault((record.dataset, why), []).append(record.position)
    return [
        Loss(dataset, min(positions), max(positions) + 1, len(positions), why)
        for (dataset, why), positions in together.items()
    ]


def whole(window: Window, records: int, why: str) -> list[Loss]:
    """All of a window; of a channel without NEW datasets, its run."""
    ranges = {name: window.range(name) for name in window.upto.ends} or {"": (0, 0)}
    return [Loss(name, start, end, records, why) for name, (start, end) in ranges.items()]


def _first_reason(verdict: Verdict[Record, int]) -> str:
    pairs = (why for culprits in verdict.pairs.values() for why in culprits.values())
    return next(iter((*verdict.sets.values(), *verdict.records.values(), *pairs)), "")
