"""A trace under other policies and sizes: each pair is one run, each run one row of a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tocsin.errors import InvalidInput
from tocsin.lab.simulators.plain_cache.simulator import Requests, score_of, simulate_requests
from tocsin.lab.simulators.result_cache.simulator import simulate
from tocsin.lab.trace.events import EventTrace
from tocsin.lab.trace.requests import RequestTrace
from tocsin.lab.trace.workload import to_workload
from tocsin.lab.workloads.network import Network
from tocsin.policies import CachePolicy

TABLE = "replay.parquet"
Row = dict[str, Any]
Run = Callable[[CachePolicy, int], Any]


def replay(
    trace: EventTrace | RequestTrace,
    policies: Sequence[CachePolicy],
    sizes_bytes: Sequence[int],
    network: Network,
) -> Iterator[Row]:
    """One row after the other; what cannot be played is refused before the first."""
    run = _player(trace, policies, network)
    for policy in policies:
        for size_bytes in sizes_bytes:
            row = run(policy, size_bytes).row()
            yield {"policy": policy.text, "size_bytes": size_bytes, **row}


def _player(
    trace: EventTrace | RequestTrace, policies: Sequence[CachePolicy], network: Network
) -> Run:
    if isinstance(trace, EventTrace):
        workload = to_workload(trace)
        return lambda policy, size_bytes: simulate(workload, policy, size_bytes, network)
    for policy in policies:
        score_of(policy)
    requests = Requests(trace)
    return lambda policy, size_bytes: simulate_requests(requests, policy, size_bytes)


def write_rows(rows: Sequence[Row], directory: Path) -> Path:
    file = directory / TABLE
    try:
        directory.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(list(rows)), file)
    except OSError as error:
        raise InvalidInput(f"cannot write {file}: {error.strerror}", field="out") from None
    return file
