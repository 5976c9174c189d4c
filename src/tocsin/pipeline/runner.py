"""One run of one channel: views in, matched results committed, failures contained.

Continuous and repetitive channels differ only in when they run; both end here. Progress moves with
the results in one transaction. A failure of the machinery moves nothing: it is raised, and the
run is tried again. A query's own failure is traced to the records and parameter sets that cause
it; those are told as gaps, and everybody else's results of the same run go out.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import structlog
from prometheus_client import Counter, Histogram
from pyspark.sql import SparkSession

from tocsin.errors import InvalidInput, NotFound, TooLarge
from tocsin.language import CreateChannel
from tocsin.model import Arguments, Channel, Dataset
from tocsin.pipeline.channels import (
    CompiledChannel,
    Mask,
    Parameters,
    ParameterTable,
    analyse,
    check_open,
    compile_channel,
    try_arguments,
    with_attachments,
)
from tocsin.pipeline.diagnosis import Verdict, diagnose
from tocsin.pipeline.failures import Blame, blame
from tocsin.pipeline.snapshot import Snapshot
from tocsin.pipeline.trial import Record, Row, Trial, phase
from tocsin.pipeline.window import Window
from tocsin.storage.gaps import gap_rows
from tocsin.storage.matches import Match
from tocsin.storage.progress import Loss, Progress
from tocsin.storage.runs import Committed, Run
from tocsin.storage.store import Store

log = structlog.get_logger()

RUN_TIME = Histogram("tocsin_run_seconds", "Time of a channel's run", ["channel"])
RESULTS = Counter("tocsin_results_total", "Results stored", ["channel"])
FAILURES = Counter("tocsin_run_failures_total", "Runs that failed", ["channel"])

STRIKES = 3  # runs in a row that a parameter set may fail before it is asked no more

Bury = Callable[[str, Sequence[tuple[Record, str]], str], None]
"""Make records, given as JSON, dead letters of a channel, for a reason. It may be repeated."""


@dataclass
class _Prepared:
    channel: Channel
    compiled: CompiledChannel
    parameters: ParameterTable
    checked: set[Mask] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)
    progress: Progress | None = None  # as far as it is known here
    strikes: dict[int, int] = field(default_factory=dict)  # by backend subscription


@dataclass
class _Answer:
    """Rows to store, and what could not be computed: for all, or for some parameter sets."""

    rows: list[Row] = field(default_factory=list)
    lost: list[Loss] = field(default_factory=list)
    lost_by: dict[int, list[Loss]] = field(default_factory=dict)
    error: str | None = None


class Runner:
    """Knows how to run every channel that was prepared."""

    def __init__(
        self,
        spark: SparkSession,
        store: Store,
        *,
        on_commit: Callable[[Channel, Committed], None],
        bury: Bury,
    ) -> None:
        self._spark = spark
        self._store = store
        self._on_commit = on_commit
        self._bury = bury
        self._prepared: dict[str, _Prepared] = {}

    def compile(
        self, asked: CreateChannel | Channel, datasets: Mapping[str, Dataset]
    ) -> CompiledChannel:
        """Compile and let Spark analyse and plan it; a StatementError says what is wrong."""
        compiled = compile_channel(asked, datasets)
        columns = analyse(self._spark, compiled, datasets)
        return with_attachments(compiled, columns, datasets)

    def prepare(self, channel: Channel, compiled: CompiledChannel) -> None:
        table = ParameterTable(self._spark, compiled)
        self._prepared[channel.name] = _Prepared(channel, compiled, table)

    def check_open(self, name: str, mask: Mask) -> None:
        """Refuse open parameters with which Spark cannot run the channel."""
        prepared = self._prepared.get(name)
        if prepared is not None and mask not in prepared.checked:
            check_open(self._spark, prepared.compiled, mask)
            prepared.checked.add(mask)

    def check_arguments(self, name: str, arguments: Arguments) -> None:
        """Refuse arguments that the channel's query cannot compute with."""
        prepared = self._prepared.get(name)
        if prepared is not None:
            try_arguments(self._spark, prepared.compiled, arguments)

    def forget(self, name: str) -> None:
        prepared = self._prepared.pop(name, None)
        if prepared is not None:
            prepared.parameters.close()

    def compiled(self, name: str) -> CompiledChannel | None:
        prepared = self._prepared.get(name)
        return None if prepared is None else prepared.compiled

    def describe(self, name: str) -> list[tuple[str, str]]:
        prepared = self._prepared.get(name)
        if prepared is None:
            return [("state", "it cannot run; the cluster's log says why")]
        return prepared.compiled.describe(prepared.parameters.masks())

    def progress(self, channel: Channel) -> Progress:
        """Where the channel stands: what the store says, or else where it was created."""
        prepared = self._prepared.get(channel.name)
        if prepared is not None and prepared.progress is not None:
            return prepared.progress
        stored = self._store.progress.of(channel.name)
        if stored is None:
            starts = {name: channel.starts.get(name, 0) for name in channel.new}
            stored = Progress(starts, round(channel.created_at * 1_000_000))
        if prepared is not None:
            prepared.progress = stored
        return stored

    def run(self, name: str, window: Window, snapshot: Snapshot, *, limit_s: float) -> None:
        """Match, store and tell. What it raises is the machinery's trouble, or Overlong; then
        nothing has happened, and the same window may be tried again."""
        prepared = self._prepared.get(name)
        if prepared is None:  # dropped since it was chosen
            return
        started_at = time.time()
        with prepared.lock:
            answer = _Answer()
            with phase("parameters"):
                parameters = self._refreshed(prepared)
            idle = prepared.compiled.needs_new_records and window.lacks_new
            if parameters is not None and not idle:
                trial = self._trial(prepared, window, snapshot, parameters, limit_s)
                answer = self._ask(prepared, trial, window)
                if answer.error is None:
                    prepared.strikes.clear()
            self._commit(prepared, window, answer, started_at)

    def run_for(
        self, name: str, window: Window, snapshot: Snapshot, sets: Mapping[int, Arguments],
        *, limit_s: float,
    ) -> None:  # fmt: skip
        """The same for some parameter sets of a channel in real-time mode, and without progress:
        what Spark's own query finds as well is stored once."""
        prepared = self._prepared.get(name)
        if prepared is None or not sets:
            return
        table = ParameterTable(self._spark, prepared.compiled)
        table.replace(0, sets.items())
        parameters = table.current()
        assert parameters is not None
        started_at = time.time()
        trial = self._trial(prepared, window, snapshot, parameters, limit_s)
        answer = self._ask(prepared, trial, window, sets)
        self._store_matches(prepared, answer.rows)
        told = self._gaps(name, answer)
        if told:
            run = _run(prepared, window, answer, started_at)
            run = msgspec.structs.replace(run, run=f"new-{run.run}")
            committed = self._store.runs.commit_run(run, told, losses=_all_losses(answer))
            if committed is not None:
                self._tell(prepared.channel, committed)

    def move(self, channel: Channel, to: Progress) -> None:
        """For channels in real-time mode: Spark's own query has got so far."""
        prepared = self._prepared.get(channel.name)
        if prepared is not None:
            with prepared.lock:
                if to != prepared.progress:
                    self._store.progress.put(channel.name, to)
                    prepared.progress = to

    def give_up(self, name: str, window: Window, cause: str) -> None:
        """Go past a window without an answer; its subscribers are told."""
        prepared = self._prepared.get(name)
        if prepared is not None:
            with prepared.lock:
                losses = _whole(window, 0, cause)
                self._commit(prepared, window, _Answer(lost=losses, error=cause), time.time())

    def _trial(
        self,
        prepared: _Prepared,
        window: Window,
        snapshot: Snapshot,
        parameters: Parameters,
        limit_s: float,
    ) -> Trial:
        return Trial(self._spark, prepared.compiled, window, snapshot, parameters, limit_s=limit_s)

    def _refreshed(self, prepared: _Prepared) -> Parameters | None:
        """The parameter sets as of now, by what changed if that is known; None: nobody asks."""
        subscriptions, name = self._store.subscriptions, prepared.channel.name
        table = prepared.parameters
        changes = subscriptions.parameter_changes(name, table.version)
        if changes is None:
            version = subscriptions.parameter_version(name)
            table.replace(version, subscriptions.parameter_sets(name))
        else:
            table.update(*changes)
        return table.current()

    def _ask(
        self,
        prepared: _Prepared,
        trial: Trial,
        window: Window,
        asked: Mapping[int, Arguments] | None = None,
    ) -> _Answer:
        """What the query says; what it cannot say is traced to its causes. `asked`: the parameter
        sets, if they are not all of the channel's."""
        name = prepared.channel.name
        try:
            rows = trial.rows()
        except Exception as failure:
            if blame(failure) is not Blame.QUERY:
                raise
            FAILURES.labels(name).inc()
            log.warning("a query failed; looking for what it fails on", channel=name)
        else:
            return _Answer(self._counting(prepared, window, rows))
        records, one_by_one = trial.records(), prepared.compiled.by_record
        sets = dict(asked or self._store.subscriptions.parameter_sets(name))

        def fails(some: Sequence[Record], chosen: Sequence[int]) -> str | None:
            if not chosen:
                return None
            return trial.fails(some, {number: sets[number] for number in chosen})

        verdict = diagnose(records, list(sets), fails, one_by_one=one_by_one)
        if verdict.everything is not None:
            return self._lose_all(prepared, trial, window, records, verdict.everything)
        kept = {number: each for number, each in sets.items() if number not in verdict.sets}
        dead = {*verdict.records, *verdict.pairs}
        rows = trial.rows(without=dead, sets=kept)
        for record, culprits in verdict.pairs.items():
            others = {number: each for number, each in kept.items() if number not in culprits}
            rows += trial.rows(only=[record], sets=others)
        rows.sort()
        self._strike(prepared, verdict.sets)
        self._bury_all(prepared, trial, verdict)
        answer = _Answer(self._counting(prepared, window, rows))
        answer.error = _first_reason(verdict)
        answer.lost = _losses(verdict.records)
        for record, culprits in verdict.pairs.items():
            for number, why in culprits.items():
                answer.lost_by.setdefault(number, []).extend(_losses({record: why}))
        for number, why in verdict.sets.items():
            answer.lost_by[number] = _whole(window, len(records), why)
        log.warning(
            "a query failed on some of a run",
            channel=name,
            reason=answer.error,
            records=len(dead),
            subscriptions=len(verdict.sets),
        )
        return answer

    def _lose_all(
        self, prepared: _Prepared, trial: Trial, window: Window, records: list[Record], why: str
    ) -> _Answer:
        log.error("a run is lost", channel=prepared.channel.name, reason=why, records=len(records))
        self._bury(prepared.channel.name, trial.texts(records), why)
        return _Answer(lost=_whole(window, len(records), why), error=why)

    def _bury_all(self, prepared: _Prepared, trial: Trial, verdict: Verdict[Record, int]) -> None:
        causes = dict(verdict.records)
        causes |= {record: next(iter(why.values())) for record, why in verdict.pairs.items()}
        for why in dict.fromkeys(causes.values()):
            dead = [record for record, cause in causes.items() if cause == why]
            self._bury(prepared.channel.name, trial.texts(dead), why)

    def _strike(self, prepared: _Prepared, failed: Mapping[int, str]) -> None:
        """A parameter set that fails in run after run would cost everybody time each time."""
        strikes = {number: prepared.strikes.get(number, 0) + 1 for number in failed}
        prepared.strikes = strikes
        out = {number: failed[number] for number, count in strikes.items() if count >= STRIKES}
        if out:
            self._store.subscriptions.set_aside(prepared.channel.name, out)
            log.error("subscriptions are set aside", channel=prepared.channel.name, reasons=out)

    def _counting(self, prepared: _Prepared, window: Window, rows: list[Row]) -> list[Row]:
        """Those of records that count for their subscriptions: not what came before these."""
        if not prepared.compiled.by_record:
            return rows
        start, _ = window.range(prepared.compiled.new[0])
        since = self._store.subscriptions.starting_after(prepared.channel.name, start)
        return [row for row in rows if row.order >= since.get(row.backend, 0)] if since else rows

    def _commit(
        self, prepared: _Prepared, window: Window, answer: _Answer, started_at: float
    ) -> None:
        channel = prepared.channel
        in_real_time = channel.mode == "real-time"
        if in_real_time:
            self._store_matches(prepared, answer.rows)
        rows = [] if in_real_time else answer.rows
        run = _run(prepared, window, answer, started_at)
        try:
            with phase("commit"):
                try:
                    committed = self._put(prepared, window, run, rows, answer)
                except (InvalidInput, TooLarge) as refusal:  # no other try would store them
                    FAILURES.labels(channel.name).inc()
                    log.error("results cannot be stored", channel=channel.name, reason=str(refusal))
                    answer = _Answer(lost=_whole(window, 0, str(refusal)), error=str(refusal))
                    run = msgspec.structs.replace(run, rows=0, error=answer.error)
                    committed = self._put(prepared, window, run, [], answer)
        except NotFound:  # the channel was dropped meanwhile
            return
        if committed is None:  # another run was there: the store knows where we are
            prepared.progress = None
            return
        settled = prepared.progress.settled if prepared.progress is not None else 0
        prepared.progress = msgspec.structs.replace(window.upto, settled=settled)
        RUN_TIME.labels(channel.name).observe(run.ended_at - started_at)
        self._tell(channel, committed)

    def _put(
        self, prepared: _Prepared, window: Window, run: Run, rows: list[Row], answer: _Answer
    ) -> Committed | None:
        told = self._gaps(prepared.channel.name, answer)
        records: list[int | None] | None = None
        if prepared.compiled.by_record:
            records = [*([None] * len(told)), *(row.order for row in rows)]
        continuous = prepared.channel.kind == "continuous"
        return self._store.runs.commit_run(
            run,
            [*told, *((row.backend, row.payload) for row in rows)],
            records,
            since=window.since,
            quiet=continuous and not (rows or told or run.error or run.rows),
            losses=_all_losses(answer),
        )

    def _gaps(self, name: str, answer: _Answer) -> list[tuple[int, bytes]]:
        """What subscribers are told first: their results of this run come after it."""
        told: list[tuple[int, bytes]] = []
        if answer.lost:
            sets = self._store.subscriptions.parameter_sets(name)
            told += gap_rows((number for number, _ in sets), answer.lost)
        for number, losses in answer.lost_by.items():
            told += gap_rows([number], losses)
        return told

    def _store_matches(self, prepared: _Prepared, rows: list[Row]) -> None:
        name = prepared.channel.name
        matches = [Match(name, row.backend, row.order, row.payload) for row in rows]
        for committed in self._store.matches.commit("", matches, 0) if matches else ():
            self._tell(prepared.channel, committed)

    def _tell(self, channel: Channel, committed: Committed) -> None:
        if committed.count:
            RESULTS.labels(channel.name).inc(committed.count)
            self._on_commit(channel, committed)


def _losses(records: Mapping[Record, str]) -> list[Loss]:
    """One for each reason and dataset."""
    together: dict[tuple[str, str], list[int]] = {}
    for record, why in records.items():
        together.setdefault((record.dataset, why), []).append(record.position)
    return [
        Loss(dataset, min(positions), max(positions) + 1, len(positions), why)
        for (dataset, why), positions in together.items()
    ]


def _whole(window: Window, records: int, why: str) -> list[Loss]:
    """All of a window; of a channel without NEW datasets, its run."""
    ranges = {name: window.range(name) for name in window.upto.ends} or {"": (0, 0)}
    return [Loss(name, start, end, records, why) for name, (start, end) in ranges.items()]


def _all_losses(answer: _Answer) -> list[Loss]:
    """Each once, however many were told of it."""
    every = [*answer.lost, *(loss for losses in answer.lost_by.values() for loss in losses)]
    return list({(each.dataset, each.first, each.cause): each for each in every}.values())


def _run(prepared: _Prepared, window: Window, answer: _Answer, started_at: float) -> Run:
    return Run(
        channel=prepared.channel.name,
        run=f"until-{window.upto.at_us}-{sum(window.upto.ends.values())}",
        started_at=started_at,
        ended_at=time.time(),
        window_start_us=window.since.at_us,
        window_end_us=window.upto.at_us,
        ends=window.upto.ends,
        rows=len(answer.rows),
        error=answer.error,
    )


def _first_reason(verdict: Verdict[Record, int]) -> str:
    pairs = (why for culprits in verdict.pairs.values() for why in culprits.values())
    return next(iter((*verdict.sets.values(), *verdict.records.values(), *pairs)), "")
