"""Runs of channels: what was found committed, failures contained. Knows no Spark.

Continuous and repetitive channels differ only in when they run; both end here. Progress moves with
the results in one transaction. A failure of the machinery moves nothing: it is raised, and the
run is tried again. What a query itself could not answer (`answering`) is reported as gaps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import structlog
from prometheus_client import Counter, Histogram

from tocsin.errors import InvalidInput, NotFound, TooLarge
from tocsin.model import Arguments, Channel
from tocsin.spark.answering import FAILURES, Answer, Answering, Prepared, whole
from tocsin.spark.asking import Ask, Rows
from tocsin.spark.phases import phase
from tocsin.spark.window import Window
from tocsin.storage.store.gaps import gap_rows
from tocsin.storage.store.matches import Match
from tocsin.storage.store.progress import Progress
from tocsin.storage.store.runs import Committed, Late, Run, RunStart
from tocsin.storage.store.store import Store

log = structlog.get_logger()

RUN_TIME = Histogram("tocsin_run_seconds", "Time of a channel's run", ["channel"])
RESULTS = Counter("tocsin_results_total", "Results stored", ["channel"])


class ChannelRuns:
    """Knows how to run every channel that was added."""

    def __init__(
        self,
        store: Store,
        answering: Answering,
        *,
        on_commit: Callable[[Channel, Committed], None],
    ) -> None:
        self._store = store
        self._answering = answering
        self._on_commit = on_commit
        self._prepared: dict[str, Prepared] = {}

    def add(self, prepared: Prepared) -> None:
        self._prepared[prepared.channel.name] = prepared

    def remove(self, name: str) -> Prepared | None:
        return self._prepared.pop(name, None)

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

    def run(self, name: str, ask: Ask) -> None:
        """Match, store and notify. What it raises is the machinery's trouble, or Overlong; then
        nothing has happened, and the same window may be tried again."""
        prepared = self._prepared.get(name)
        if prepared is None:  # dropped since it was chosen
            return
        started_at = self._store.now()
        with prepared.lock:
            answer = Answer()
            with phase("parameters"):
                parameters = self._refreshed(prepared)
            idle = prepared.compiled.needs_new_records and ask.window.lacks_new
            if parameters is not None and not idle:
                answer = self._answering.ask(prepared, ask, parameters)
                if answer.error is None:
                    prepared.strikes.clear()
            self._commit_for_all(prepared, ask, answer, started_at)

    def run_for(self, name: str, ask: Ask, sets: Mapping[int, Arguments]) -> None:
        """The same for some parameter sets of a channel in real-time mode, and without progress:
        what Spark's own query finds as well is stored once."""
        prepared = self._prepared.get(name)
        if prepared is None or not sets:
            return
        started_at = self._store.now()
        with prepared.lock:
            answer = self._answering.ask_for(prepared, ask, sets)
        self._store_matches(prepared, answer.rows)
        gaps = self._gaps(name, answer)
        if gaps:
            run = _run(prepared, ask.window, answer, started_at, self._store.now())
            whom = f"{min(sets)}-{max(sets)}-{len(sets)}"  # others may be asked up to the same end
            run = msgspec.structs.replace(run, run=f"for-{whom}-{run.run}")
            committed = self._store.runs.commit_run(run, gaps, losses=answer.losses)
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
        """Go past a window without an answer; its subscribers get gaps."""
        prepared = self._prepared.get(name)
        if prepared is not None:
            with prepared.lock:
                losses = whole(window, 0, cause)
                self._commit(prepared, window, Answer(lost=losses, error=cause), self._store.now())

    def _refreshed(self, prepared: Prepared) -> Any:
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

    def _commit_for_all(
        self, prepared: Prepared, ask: Ask, answer: Answer, started_at: float
    ) -> None:
        """Who subscribed while the run was under way, but counts records of its window, is asked
        for before it ends. Those to come count from behind the window, so there is an end to it."""
        late: dict[int, Arguments] = {}
        while True:
            try:
                self._commit(prepared, ask.window, answer, started_at, late)
            except Late as error:
                answer.add(self._answering.ask_for(prepared, ask, error.sets))
                late |= error.sets
            else:
                return

    def _commit(
        self,
        prepared: Prepared,
        window: Window,
        answer: Answer,
        started_at: float,
        late: Mapping[int, Arguments] | None = None,
    ) -> None:
        """`late`: who was asked for besides those in the table; None: it does not matter."""
        channel = prepared.channel
        in_real_time = channel.mode == "real-time"
        if in_real_time:
            self._store_matches(prepared, answer.rows)
        rows = Rows() if in_real_time else answer.rows
        run = _run(prepared, window, answer, started_at, self._store.now())
        try:
            with phase("commit"):
                try:
                    committed = self._put(prepared, window, run, rows, answer, late)
                except (InvalidInput, TooLarge) as refusal:  # no other try would store them
                    FAILURES.labels(channel.name).inc()
                    log.error("results cannot be stored", channel=channel.name, reason=str(refusal))
                    answer = Answer(lost=whole(window, 0, str(refusal)), error=str(refusal))
                    run = msgspec.structs.replace(run, rows=0, error=answer.error)
                    committed = self._put(prepared, window, run, Rows(), answer, None)
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
        self,
        prepared: Prepared,
        window: Window,
        run: Run,
        rows: Rows,
        answer: Answer,
        late: Mapping[int, Arguments] | None,
    ) -> Committed | None:
        def covers(backend: int) -> bool:
            return backend in (late or ()) or prepared.parameters.holds(backend)

        gaps = self._gaps(prepared.channel.name, answer)
        every = rows
        if gaps:
            backends, payloads = zip(*gaps, strict=True)
            orders = [*([0] * len(gaps)), *rows.orders]
            every = Rows([*backends, *rows.backends], orders, [*payloads, *rows.payloads])
        records: list[int | None] | None = None
        if prepared.compiled.by_record:
            records = [*([None] * len(gaps)), *rows.orders]
        continuous = prepared.channel.kind == "continuous"
        must_cover = late is not None and prepared.compiled.by_record
        return self._store.runs.commit_run(
            run,
            every,
            records,
            start=RunStart(window.since, covers if must_cover else None),
            quiet=continuous and not (rows or gaps or run.error or run.rows),
            losses=answer.losses,
        )

    def _gaps(self, name: str, answer: Answer) -> list[tuple[int, bytes]]:
        """The gaps of this run, which come before its results."""
        gaps: list[tuple[int, bytes]] = []
        if answer.lost:
            sets = self._store.subscriptions.parameter_sets(name)
            gaps += gap_rows((number for number, _ in sets), answer.lost)
        for number, losses in answer.lost_by.items():
            gaps += gap_rows([number], losses)
        return gaps

    def _store_matches(self, prepared: Prepared, rows: Rows) -> None:
        name = prepared.channel.name
        matches = [Match(name, row.backend, row.order, row.payload) for row in rows]
        for committed in self._store.matches.store(matches) if matches else ():
            self._tell(prepared.channel, committed)

    def _tell(self, channel: Channel, committed: Committed) -> None:
        if committed.count:
            RESULTS.labels(channel.name).inc(committed.count)
            self._on_commit(channel, committed)


def _run(
    prepared: Prepared, window: Window, answer: Answer, started_at: float, ended_at: float
) -> Run:
    return Run(
        channel=prepared.channel.name,
        run=f"until-{window.upto.at_us}-{sum(window.upto.ends.values())}",
        started_at=started_at,
        ended_at=ended_at,
        window_start_us=window.since.at_us,
        window_end_us=window.upto.at_us,
        ends=window.upto.ends,
        rows=len(answer.rows),
        error=answer.error,
    )
