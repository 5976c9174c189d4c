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
from collections.abc import Callable, Mapping

from msgspec import Struct

from tocsin.lab.capacity.costs import Costs

STEP_S = 0.002
BATCH_S = 0.05  # how often publishers send
LEAST_FREE = 0.02  # of the cores, however busy others are
LATE_S = 15.0  # so long after the last record is waited for what still comes


class Trial(Struct, frozen=True, kw_only=True):
    """One rate, offered to one channel for so long."""

    sets: float
    records_per_s: float
    seconds: float
    cores: float
    """Of the machine."""
    others_cores: float = 0.0
    """What others used of them while everybody wanted some: it is not to be had."""
    results_per_record: float = 1.0
    deliveries_per_result: float = 1.0
    late_s: float = LATE_S

    @property
    def free_cores(self) -> float:
        return max(LEAST_FREE * self.cores, self.cores - self.others_cores)


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


Then = Callable[[list[Batch], float], None]
"""What happens when a piece of work is done: to these batches, at that time."""


class _Thread:
    """Work in the order in which it came."""

    def __init__(self) -> None:
        self._pieces: deque[tuple[float, list[Batch], Then | None]] = deque()
        self._left_s = 0.0  # of the first piece
        self.wanted_s = 0.0  # of all of them
        self.used_s = 0.0

    def add(self, work_us: float, batches: list[Batch], then: Then | None) -> None:
        if not self._pieces:
            self._left_s = work_us / 1e6
        self._pieces.append((work_us / 1e6, batches, then))
        self.wanted_s += work_us / 1e6

    def work(self, given_s: float, now_s: float) -> None:
        done = []
        while self._pieces and self._left_s <= given_s + 1e-12:
            given_s -= self._left_s
            self._spend(self._left_s)
            done.append(self._pieces.popleft())
            self._left_s = self._pieces[0][0] if self._pieces else 0.0
        if self._pieces:
            self._left_s -= given_s
            self._spend(given_s)
        for _, batches, then in done:
            if then is not None:
                then(batches, now_s)

    def _spend(self, spent_s: float) -> None:
        self.used_s += spent_s
        self.wanted_s = max(0.0, self.wanted_s - spent_s)


class _Process:
    """One core at most, which its threads share: `intake` takes what comes in, `rest` does what
    follows. So a run's commit waits for no queue of publishers, as it does not in Python."""

    def __init__(self) -> None:
        self.threads = {"intake": _Thread(), "rest": _Thread()}

    def add(self, work_us: float, batches: list[Batch], then: Then | None) -> None:
        self.threads["rest"].add(work_us, batches, then)

    @property
    def wanted_s(self) -> float:
        return sum(thread.wanted_s for thread in self.threads.values())

    @property
    def used_s(self) -> float:
        return sum(thread.used_s for thread in self.threads.values())

    def work(self, given_s: float, now_s: float) -> None:
        wants = {name: thread.wanted_s for name, thread in self.threads.items()}
        for name, share_s in _shares(wants, given_s).items():
            self.threads[name].work(share_s, now_s)


class _Pipeline:
    """The stations of a record, each of which hands it to the next."""

    def __init__(self, costs: Costs, trial: Trial) -> None:
        self._costs = costs
        self._trial = trial
        self.processes = {name: _Process() for name in (*STATIONS, *costs.processes)}
        self._arrived: list[Batch] = []
        self._in_turn = costs.profile == "embedded"
        self._running = False
        self._starting: list[tuple[float, list[Batch]]] = []

    def step(self, now_s: float) -> None:
        for name, process in self.processes.items():
            process.add(1e6 * STEP_S * self._costs.of(name).idle_cores, [], None)
        wants = {name: min(STEP_S, process.wanted_s) for name, process in self.processes.items()}
        given = _shares(wants, STEP_S * self._trial.free_cores)
        for name, process in self.processes.items():
            process.work(given[name], now_s + STEP_S)
        while self._starting and self._starting[0][0] <= now_s:
            self._look(self._starting.pop(0)[1])
        if self._arrived and not self._running:
            batches, self._arrived = self._arrived, []
            self._running = self._in_turn
            self._starting.append((now_s + self._costs.run_wait_s, batches))

    def send(self, batch: Batch) -> None:
        self._give("publisher", [batch], self._take)

    def _take(self, batches: list[Batch], _: float) -> None:
        work_us = self._us("cluster", batches, run=False, results=False)
        self.processes["cluster"].threads["intake"].add(work_us, batches, self._taken)

    def _taken(self, batches: list[Batch], _: float) -> None:
        self._give("Kafka", batches, None)
        self._arrived += batches

    def _look(self, batches: list[Batch]) -> None:
        self._give("Java", batches, self._commit, run=True, results=True)
        if "PostgreSQL" in self._costs.processes:
            self._give("PostgreSQL", batches, None, run=True, results=True)

    def _commit(self, batches: list[Batch], _: float) -> None:
        work_us = self._us("cluster", batches, run=True, results=True, records=False)
        self.processes["cluster"].add(work_us, batches, self._committed)

    def _committed(self, batches: list[Batch], _: float) -> None:
        self._running = False
        work_us = self._us("broker", batches, run=True, results=True) + self._deliveries_us(
            "broker", batches
        )
        self.processes["broker"].add(work_us, batches, self._deliver)

    def _deliver(self, batches: list[Batch], _: float) -> None:
        self.processes["client"].add(self._deliveries_us("client", batches), batches, self._came)
        self.processes["cluster"].add(self._deliveries_us("cluster", batches), batches, None)

    def _came(self, batches: list[Batch], now_s: float) -> None:
        for batch in batches:
            batch.came_s = now_s

    def _give(
        self,
        process: str,
        batches: list[Batch],
        then: Then | None,
        *,
        run: bool = False,
        results: bool = False,
    ) -> None:
        work_us = self._us(process, batches, run=run, results=results)
        self.processes[process].add(work_us, batches, then)

    def _us(
        self, process: str, batches: list[Batch], *, run: bool, results: bool, records: bool = True
    ) -> float:
        price, count = self._costs.of(process), sum(batch.records for batch in batches)
        work_us = price.us_of_run(self._trial.sets) if run else 0.0
        if records:
            work_us += count * price.us_per_record
        if results:
            work_us += count * self._trial.results_per_record * price.us_per_result
        return work_us

    def _deliveries_us(self, process: str, batches: list[Batch]) -> float:
        """Of what each delivery costs it."""
        deliveries = self._trial.results_per_record * self._trial.deliveries_per_result
        records = sum(batch.records for batch in batches)
        return records * deliveries * self._costs.of(process).us_per_delivery


STATIONS = ("publisher", "cluster", "Kafka", "Java", "broker", "client")


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


def _shares(wants: Mapping[str, float], all_s: float) -> dict[str, float]:
    """CPU time for each, evenly: who wants less than its share leaves the rest to the others."""
    waiting = sorted(wants.items(), key=lambda want: want[1])
    left_s, given = all_s, {}
    for position, (name, want_s) in enumerate(waiting):
        given[name] = min(want_s, left_s / (len(waiting) - position))
        left_s -= given[name]
    return given
