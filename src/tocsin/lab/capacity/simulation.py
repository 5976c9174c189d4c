"""The same costs played through time: at which rate records still keep up, and how long each waits.

Deterministic. Every process has its work queued, and takes at most one core; all of them, and what
others use, share the machine's cores evenly. Records are sent in small batches; the cluster takes
them in; a run takes what has come in (a fixed time, and a price for each), then its results are
committed, go to the broker, and from there to the client. With real-time mode there is no run:
what has come in goes on at once.

It predicts from prices of single things; no throughput that was measured goes into it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from msgspec import Struct

from tocsin.lab.capacity.costs import Costs

STEP_S = 0.002
BATCH_S = 0.05  # how often publishers send
LATE_S = 15.0  # so long after the last record is waited for what still comes


class Trial(Struct, frozen=True, kw_only=True):
    """One rate, offered to one channel for so long."""

    sets: float
    records_per_s: float
    seconds: float
    cores: float
    """Of the machine."""
    others_cores: float = 0.0
    results_per_record: float = 1.0
    deliveries_per_result: float = 1.0
    late_s: float = LATE_S


class Batch(Struct):
    """Records that were due at one moment, and when their results had reached the clients."""

    due_s: float
    records: int
    came_s: float | None = None


class Outcome(Struct, frozen=True):
    batches: list[Batch]
    busy_cores: Mapping[str, float]
    """What each process used, on average while records were sent."""

    @property
    def came(self) -> int:
        return sum(batch.records for batch in self.batches if batch.came_s is not None)

    @property
    def records(self) -> int:
        return sum(batch.records for batch in self.batches)

    def latency_s(self, share: float) -> float:
        """Of those that came, weighed by their records."""
        waits = sorted(
            (batch.came_s - batch.due_s, batch.records)
            for batch in self.batches
            if batch.came_s is not None
        )
        left = share * self.came
        for wait_s, records in waits:
            left -= records
            if left <= 0:
                return wait_s
        return float("inf")


class _Process:
    """Work in the order in which it came; `then` is what happens when a piece is done."""

    def __init__(self) -> None:
        self._pieces: deque[tuple[float, list[Batch], str]] = deque()
        self._left_s = 0.0  # of the first piece
        self.wanted_s = 0.0  # of all of them
        self.used_s = 0.0

    def add(self, work_us: float, batches: list[Batch], then: str) -> None:
        if not self._pieces:
            self._left_s = work_us / 1e6
        self._pieces.append((work_us / 1e6, batches, then))
        self.wanted_s += work_us / 1e6

    def work(self, given_s: float) -> Iterable[tuple[list[Batch], str]]:
        """What is done by then."""
        while self._pieces and self._left_s <= given_s + 1e-12:
            given_s -= self._left_s
            self._spend(self._left_s)
            _, batches, then = self._pieces.popleft()
            self._left_s = self._pieces[0][0] if self._pieces else 0.0
            yield batches, then
        if self._pieces:
            self._left_s -= given_s
            self._spend(given_s)

    def _spend(self, spent_s: float) -> None:
        self.used_s += spent_s
        self.wanted_s = max(0.0, self.wanted_s - spent_s)


class _Pipeline:
    def __init__(self, costs: Costs, trial: Trial) -> None:
        self._costs = costs
        self._trial = trial
        self.processes = {name: _Process() for name in (*costs.processes, "publisher", "client")}
        self._arrived: list[Batch] = []
        self._in_turn = costs.profile == "embedded"
        self._running = False
        self._wait_until: tuple[float, list[Batch]] | None = None

    def send(self, batch: Batch) -> None:
        self._give("publisher", [batch], "sent", self._costs.of("publisher").us_per_record)

    def step(self, now_s: float) -> None:
        trial, costs = self._trial, self._costs
        for name, process in self.processes.items():  # what ticks by itself
            process.add(1e6 * STEP_S * costs.of(name).idle_cores, [], "")
        wants = {name: min(STEP_S, process.wanted_s) for name, process in self.processes.items()}
        given = _shares(wants, STEP_S * trial.cores, STEP_S * trial.others_cores)
        for name, process in self.processes.items():
            for batches, then in list(process.work(given[name])):
                self._done(then, batches, now_s + STEP_S)
        if self._wait_until is not None and self._wait_until[0] <= now_s:
            batches, self._wait_until = self._wait_until[1], None
            self._look(batches)
        if not self._running and self._arrived:
            self._begin(now_s)

    def _begin(self, now_s: float) -> None:
        batches, self._arrived = self._arrived, []
        self._running = self._in_turn
        self._wait_until = now_s + self._costs.run_wait_s, batches

    def _look(self, batches: list[Batch]) -> None:
        java = self._costs.of("Java")
        records, results = _records(batches), self._results(batches)
        work_us = java.us_of_run(self._trial.sets)
        work_us += records * java.us_per_record + results * java.us_per_result
        self.processes["Java"].add(work_us, batches, "looked at")

    def _done(self, then: str, batches: list[Batch], now_s: float) -> None:
        costs, results = self._costs, self._results(batches)
        if then == "sent":
            self._give("cluster", batches, "taken", costs.of("cluster").us_per_record)
            for server in ("Kafka",):
                if server in self.processes:
                    self._give(server, batches, "", costs.of(server).us_per_record)
        elif then == "taken":
            self._arrived += batches
        elif then == "looked at":
            cluster = costs.of("cluster")
            work_us = cluster.us_of_run(self._trial.sets) + results * cluster.us_per_result
            self.processes["cluster"].add(work_us, batches, "committed")
            if "PostgreSQL" in self.processes:
                database = costs.of("PostgreSQL")
                work_us = database.us_of_run(self._trial.sets) + results * database.us_per_result
                self.processes["PostgreSQL"].add(work_us, batches, "")
        elif then == "committed":
            self._running = False
            broker = costs.of("broker")
            work_us = broker.us_of_run(self._trial.sets) + results * broker.us_per_result
            deliveries = results * self._trial.deliveries_per_result
            work_us += deliveries * broker.us_per_delivery
            self.processes["broker"].add(work_us, batches, "told")
        elif then == "told":
            deliveries = results * self._trial.deliveries_per_result
            client = costs.of("client").us_per_delivery
            self.processes["client"].add(deliveries * client, batches, "came")
            markers = costs.of("cluster").us_per_delivery
            self.processes["cluster"].add(deliveries * markers, batches, "")
        elif then == "came":
            for batch in batches:
                batch.came_s = now_s

    def _give(self, process: str, batches: list[Batch], then: str, us_each: float) -> None:
        self.processes[process].add(_records(batches) * us_each, batches, then)

    def _results(self, batches: list[Batch]) -> float:
        return _records(batches) * self._trial.results_per_record


def simulate(costs: Costs, trial: Trial) -> Outcome:
    pipeline = _Pipeline(costs, trial)
    batches: list[Batch] = []
    sent, now_s, end_s = 0, 0.0, trial.seconds + trial.late_s
    used: dict[str, float] = {}
    steps = 0
    while now_s < end_s:
        ticks = min(int(now_s / BATCH_S + 1e-9) + 1, round(trial.seconds / BATCH_S))
        due = round(ticks * BATCH_S * trial.records_per_s)
        if due > sent:
            batches.append(Batch((ticks - 1) * BATCH_S, due - sent))
            pipeline.send(batches[-1])
            sent = due
        pipeline.step(now_s)
        steps += 1
        now_s = steps * STEP_S
        if now_s <= trial.seconds:
            used = {name: process.used_s for name, process in pipeline.processes.items()}
        elif all(batch.came_s is not None for batch in batches):
            break
    return Outcome(batches, {name: spent / trial.seconds for name, spent in used.items()})


def _shares(wants: Mapping[str, float], all_s: float, others_s: float) -> dict[str, float]:
    """CPU time for each, evenly: who wants less than its share leaves the rest to the others."""
    left_s, waiting = all_s, sorted([*wants.items(), ("", others_s)], key=lambda want: want[1])
    given = {}
    for position, (name, want_s) in enumerate(waiting):
        given[name] = min(want_s, left_s / (len(waiting) - position))
        left_s -= given[name]
    return given


def _records(batches: list[Batch]) -> int:
    return sum(batch.records for batch in batches)
