"""The simulator's costs, as a live run shows them.

The live system differs from the paper's broker in three ways, which `Logs` can say: it works in
turns (micro-batches), it stores every result before it is delivered (so refusing writes nothing
more: the store's part is in what a record takes), and its poller looks again as soon as it is done.

Costs are found from the points that admit everything or nothing, if there are such; all others are
then predicted by what was measured without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from tocsin.lab.live.consumer_logs.observation import Timings
from tocsin.lab.simulators.consumer_logs import Logs
from tocsin.lab.spec.study import Row

NEAR_BYTES_PER_S = 1e9  # on one machine bytes cost nothing beside a call
SHORTEST_S = 1e-4
ALL_AT_ONCE = 1_000_000  # requests: a consumer asks for whole ranges
ENDS = ("all", "none")
COSTS = (
    *("turn_s", "broker_s", "commit_s", "log_write_s", "log_read_s"),
    *("database_read_s", "database_row_s", "mark_s"),
)
COLUMNS = Timings.__struct_fields__


class Turn(NamedTuple):
    """A row's `Timings`, one turn."""

    took_s: float
    records: int
    copies: int
    misses: int
    logged_s: float
    filled_s: float
    read_s: float


def measured_costs(rows: Sequence[Row], mark_s: float) -> Logs:
    """From live points, with their timings. What they do not show is taken to cost nothing."""
    ends = [row for row in rows if row["policy"] in ENDS] or list(rows)
    turns = [
        Turn(*turn) for row in ends for turn in zip(*(row[name] for name in COLUMNS), strict=True)
    ]
    turn_s, broker_s = _fit([(turn.records, turn.took_s) for turn in turns])
    log_read_s = float(np.mean([turn.read_s for turn in turns if turn.misses] or [0.0]))
    commit_s, log_write_s = _fit(
        [(turn.copies, _rest(turn.logged_s, log_read_s)) for turn in turns if turn.copies]
    )

    def fetch_s(turn: Turn) -> float:
        """Without the wait until it was noticed, the request, and the last read of the log."""
        noticed_s = turn.copies * log_write_s if turn.copies else mark_s
        return _rest(turn.filled_s, commit_s + noticed_s + 2 * log_read_s + log_write_s)

    database_read_s, each_s = _fit([(turn.misses, fetch_s(turn)) for turn in turns if turn.misses])
    return Logs(
        turn_s=turn_s,
        broker_s=broker_s,
        commit_s=commit_s,
        log_write_s=log_write_s,
        log_read_s=log_read_s,
        log_bytes_per_s=NEAR_BYTES_PER_S,
        database_write_s=0.0,
        database_read_s=database_read_s,
        database_row_s=max(0.0, each_s - log_write_s),
        poll_s=0.0,
        batch=ALL_AT_ONCE,
        mark_s=mark_s,
    )


def _rest(whole_s: float, part_s: float) -> float:
    return max(whole_s - part_s, SHORTEST_S)


def _fit(cases: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """What is paid once, and what for each of a number: together nearest to what was measured, as
    a part of it."""
    if not cases:
        return 0.0, 0.0
    number, took_s = (np.array(column, float) for column in zip(*cases, strict=True))
    costs, _ = nnls(np.stack([1 / took_s, number / took_s], axis=1), np.ones(len(took_s)))
    return float(costs[0]), float(costs[1])
