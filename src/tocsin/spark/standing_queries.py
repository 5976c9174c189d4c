"""The standing queries of channels: made when a channel is first asked, given its rows, and asked
together with others. What cannot be asked so, or fails, is left to whoever asks by itself.
"""

from __future__ import annotations

import contextlib
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from threading import BoundedSemaphore, Lock, Thread

import pyarrow as pa
import pyarrow.compute as pc
import structlog
from pyspark.sql import DataFrame, SparkSession

from tocsin.protocol import columns
from tocsin.spark.asking import MATCH
from tocsin.spark.channels import CompiledChannel, Parameters
from tocsin.spark.channels.parameters import Layer
from tocsin.spark.failures import JAVA_IS_GONE, reason
from tocsin.spark.local import local_relation
from tocsin.spark.phases import phase
from tocsin.spark.shared_jobs import SharedJobs
from tocsin.spark.standing import NotStanding, StandingQuery, standing_session

log = structlog.get_logger()

MOST = 256  # standing queries; each keeps a few hundred kilobytes in Java
MADE_AT_ONCE = 2
REST_S = 60.0  # for which a channel whose query did not do well is asked by itself


_Key = tuple[str, bool, int]
"""A channel, whether it is asked for some of its parameter sets alone, and for which layer."""


class StandingQueries:
    """Thread-safe; one channel is asked by one thread at a time."""

    def __init__(self, spark: SparkSession) -> None:
        self._session = standing_session(spark)
        self._jobs = SharedJobs(self._session)
        self._lock = Lock()
        self._making = BoundedSemaphore(MADE_AT_ONCE)
        self._queries: OrderedDict[_Key, StandingQuery] = OrderedDict()
        self._resting: dict[str, tuple[CompiledChannel, float]] = {}

    def rows(
        self,
        compiled: CompiledChannel,
        parameters: Parameters,
        stored: Mapping[str, DataFrame],
        new: Mapping[str, DataFrame],
        limit_s: float,
    ) -> pa.Table | None:
        """The rows in the order to store them; None: ask in another way."""
        name = compiled.channel.name
        if compiled.uses_window or self._rests(compiled):
            return None
        if any(local_relation(frame) is None for frame in new.values()):
            return None  # too many for once; the next ones may be fewer
        try:
            with phase("plan"):
                queries = []
                for number, layer in enumerate(parameters.layers):
                    key = name, parameters.subset, number
                    query = self._query(key, compiled, layer, stored, new)
                    query.fill(layer, stored, new)
                    queries.append(query)
            with phase("execute"):
                answers = self._jobs.ask(queries, limit_s)
        except Exception as error:
            if not isinstance(error, NotStanding):
                log.info("a standing query is put aside", channel=name, reason=reason(error))
            self.forget(name)
            with self._lock:
                self._resting[name] = compiled, time.monotonic() + REST_S
            return None
        return _joined(parameters.layers, answers)

    def forget(self, name: str) -> None:
        with self._lock:
            gone = [key for key in self._queries if key[0] == name]
            queries = [self._queries.pop(key) for key in gone]
            self._resting.pop(name, None)
        _close_soon(queries)

    def _rests(self, compiled: CompiledChannel) -> bool:
        with self._lock:
            known, until = self._resting.get(compiled.channel.name, (None, 0.0))
        return known is compiled and time.monotonic() < until

    def _query(
        self,
        key: _Key,
        compiled: CompiledChannel,
        layer: Layer,
        stored: Mapping[str, DataFrame],
        new: Mapping[str, DataFrame],
    ) -> StandingQuery:
        with self._lock:
            query = self._queries.get(key)
            if query is not None:
                self._queries.move_to_end(key)
        if query is not None and query.serves(compiled, layer):
            return query
        with self._making:
            made = StandingQuery(self._session, compiled, layer, stored, new)
        with self._lock:
            former = self._queries.pop(key, None)
            self._queries[key] = made
            gone = [] if former is None else [former]
            if len(self._queries) > MOST:
                gone.append(self._queries.popitem(last=False)[1])
        _close_soon(gone)
        return made


def _joined(layers: Sequence[Layer], answers: Sequence[pa.Table]) -> pa.Table:
    """The answers of all layers, in the order to store them."""
    kept = [
        answer.filter(
            pc.invert(
                pc.is_in(answer.column(columns.BACKEND), pa.array(list(layer.gone), pa.int64()))
            )
        )
        if layer.gone and answer.num_rows
        else answer
        for layer, answer in zip(layers, answers, strict=True)
    ]
    if len(kept) == 1:
        return kept[0]
    order = [(name, "ascending") for name in MATCH]
    return pa.concat_tables(kept).sort_by(order)


def _close_soon(queries: Sequence[StandingQuery]) -> None:
    if queries:
        Thread(target=_close, args=(queries,), name="forgetting", daemon=True).start()


def _close(queries: Sequence[StandingQuery]) -> None:
    with contextlib.suppress(*JAVA_IS_GONE):
        for query in queries:
            query.close()
