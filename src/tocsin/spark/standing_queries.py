"""The standing queries of channels: made when a channel is first asked, given its rows, and asked
together with others. What cannot be asked so, or fails, is left to whoever asks by itself.
"""

from __future__ import annotations

import contextlib
import time
from collections import OrderedDict
from collections.abc import Mapping
from threading import BoundedSemaphore, Lock, Thread

import pyarrow as pa
import structlog
from pyspark.sql import DataFrame, SparkSession

from tocsin.spark.channels import CompiledChannel, Parameters
from tocsin.spark.failures import JAVA_IS_GONE, reason
from tocsin.spark.phases import phase
from tocsin.spark.shared_jobs import SharedJobs
from tocsin.spark.standing import NotStanding, StandingQuery, standing_session

log = structlog.get_logger()

MOST = 256  # standing queries; each keeps a few hundred kilobytes in Java
MADE_AT_ONCE = 2
REST_S = 60.0  # for which a channel whose query did not do well is asked by itself


class StandingQueries:
    """Thread-safe; one channel is asked by one thread at a time."""

    def __init__(self, spark: SparkSession) -> None:
        self._session = standing_session(spark)
        self._jobs = SharedJobs(self._session)
        self._lock = Lock()
        self._making = BoundedSemaphore(MADE_AT_ONCE)
        self._queries: OrderedDict[str, StandingQuery] = OrderedDict()
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
        try:
            with phase("plan"):
                query = self._query(compiled, parameters, stored, new)
                query.fill(parameters, stored, new)
            with phase("execute"):
                return self._jobs.ask(query, limit_s)
        except Exception as error:
            import traceback

            traceback.print_exc()  # DEBUG
            if not isinstance(error, NotStanding):
                log.info("a standing query is put aside", channel=name, reason=reason(error))
            self.forget(name)
            with self._lock:
                self._resting[name] = compiled, time.monotonic() + REST_S
            return None

    def forget(self, name: str) -> None:
        with self._lock:
            query = self._queries.pop(name, None)
            self._resting.pop(name, None)
        if query is not None:
            Thread(target=_close, args=(query,), name="forgetting", daemon=True).start()

    def _rests(self, compiled: CompiledChannel) -> bool:
        with self._lock:
            known, until = self._resting.get(compiled.channel.name, (None, 0.0))
        return known is compiled and time.monotonic() < until

    def _query(
        self,
        compiled: CompiledChannel,
        parameters: Parameters,
        stored: Mapping[str, DataFrame],
        new: Mapping[str, DataFrame],
    ) -> StandingQuery:
        name = compiled.channel.name
        with self._lock:
            query = self._queries.get(name)
            if query is not None:
                self._queries.move_to_end(name)
        if query is not None and query.serves(compiled, parameters):
            return query
        self.forget(name)
        with self._making:
            query = StandingQuery(self._session, compiled, parameters, stored, new)
        with self._lock:
            self._queries[name] = query
            oldest = next(iter(self._queries)) if len(self._queries) > MOST else None
        if oldest is not None:
            self.forget(oldest)
        return query


def _close(query: StandingQuery) -> None:
    with contextlib.suppress(*JAVA_IS_GONE):
        query.close()
