"""Standing queries asked at about the same time run as one job of Spark's.

Whoever asks while a job runs waits for the next one, which takes all who wait by then: the more
there is to do, the more is done at once. A job that fails, or that takes too long for a shared one,
says nothing about any of its queries; each is then asked again by itself, by whoever wanted it.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from prometheus_client import Histogram
from pyspark.sql import SparkSession

from tocsin.protocol import columns
from tocsin.spark.job_group import time_limit
from tocsin.spark.local import row_tag
from tocsin.spark.standing import MEMBER, StandingQuery

SHARED = Histogram(
    "tocsin_shared_job_queries",
    "Queries that one job of Spark's answers",
    buckets=(1, 2, 4, 8, 16, 32),
)

LANES = 2  # jobs at a time
MOST_QUERIES = 16  # of one job: each takes memory until it ends
LIMIT_S = 2.0  # for all of a job's queries together
_KEPT_JOBS = 16
_SCHEMA = pa.schema(
    [
        (MEMBER, pa.int64()),
        (columns.BACKEND, pa.int64()),
        (columns.ORDER, pa.int64()),
        (columns.PAYLOAD, pa.string()),
    ]
)


_decode_parts = msgspec.json.Decoder(list[bytes]).decode  # texts of base64


class _Ticket:
    def __init__(self, queries: Sequence[StandingQuery], limit_s: float) -> None:
        self.queries = queries
        self.limit_s = limit_s
        self.called = threading.Event()
        self.leads = False  # it is this one's thread that runs the next job
        self.rows: list[pa.Table] | None = None
        self.error: BaseException | None = None

    @property
    def is_done(self) -> bool:
        return self.rows is not None or self.error is not None

    @property
    def is_tried(self) -> bool:
        return all(query.is_tried for query in self.queries)


class SharedJobs:
    """Thread-safe; each query is asked by one thread at a time."""

    def __init__(self, session: SparkSession) -> None:
        self.session = session
        self._lock = threading.Lock()
        self._waiting: list[_Ticket] = []
        self._free_lanes = LANES
        self._jobs: OrderedDict[tuple[int, ...], Any] = OrderedDict()

    @cached_property
    def _encoder(self) -> Any:
        jvm: Any = self.session._jvm
        return jvm.com.fasterxml.jackson.databind.ObjectMapper()

    def ask(self, queries: Sequence[StandingQuery], limit_s: float) -> list[pa.Table]:
        """BACKEND, ORDER and PAYLOAD of each one's rows, in that order. Raises what the job did,
        which may be another query's fault."""
        ticket = _Ticket(queries, limit_s)
        with self._lock:
            self._waiting.append(ticket)
            ticket.leads = self._free_lanes > 0
            self._free_lanes -= ticket.leads
        while True:
            if not ticket.leads:
                ticket.called.wait()
                ticket.called.clear()
            if ticket.leads:
                self._lead(ticket)
            if ticket.is_done:
                break
        if ticket.error is not None:
            raise ticket.error
        assert ticket.rows is not None
        return ticket.rows

    def _lead(self, own: _Ticket) -> None:
        """Run jobs until one's own query is among them, and leave the lane to the next."""
        while tickets := self._taken(own):
            self._run(tickets)
        with self._lock:
            own.leads = False
            heir = next((ticket for ticket in self._waiting if not ticket.leads), None)
            if heir is None:
                self._free_lanes += 1
                return
            heir.leads = True
        heir.called.set()

    def _taken(self, own: _Ticket) -> list[_Ticket]:
        """Who waits, in turn; nobody, if one's own query was taken before. A new query is tried by
        itself: nobody knows yet how long it takes."""
        with self._lock:
            if own not in self._waiting:
                return []
            tickets = [ticket for ticket in self._waiting if ticket.is_tried]
            tickets = _as_many_as_fit(tickets) if own.is_tried else [own]
            self._waiting = [ticket for ticket in self._waiting if ticket not in tickets]
            return tickets

    def _run(self, tickets: list[_Ticket]) -> None:
        try:
            queries = [query for ticket in tickets for query in ticket.queries]
            SHARED.observe(len(queries))
            rows = self._rows(queries, tickets)
        except BaseException as error:
            for ticket in tickets:
                ticket.error = error
        else:
            for ticket in tickets:
                ticket.rows = [rows[query.number] for query in ticket.queries]
                for query in ticket.queries:
                    query.is_tried = True
        for ticket in tickets:
            ticket.called.set()

    def _rows(
        self, queries: Sequence[StandingQuery], tickets: Sequence[_Ticket]
    ) -> dict[int, pa.Table]:
        limit_s = min(LIMIT_S, *(ticket.limit_s for ticket in tickets))
        if len(tickets) == 1:
            limit_s = tickets[0].limit_s
        names = ", ".join(query.compiled.channel.name for query in queries)
        job = self._job(sorted(queries, key=lambda query: query.number))
        with time_limit(self.session, f"channels {names}", limit_s):
            parts = job.collect()
            # Py4J decodes bytes one by one, in Python; a text at once.
            encoded = self._encoder.writeValueAsString(parts)
        batches = [
            pa.ipc.read_record_batch(pa.py_buffer(part), _SCHEMA) for part in _decode_parts(encoded)
        ]
        return _split(pa.Table.from_batches(batches, _SCHEMA), queries)

    def _job(self, queries: Sequence[StandingQuery]) -> Any:
        """An RDD of Arrow batches; kept, because the same ones often meet again."""
        key = tuple(query.number for query in queries)
        with self._lock:
            if key in self._jobs:
                self._jobs.move_to_end(key)
                return self._jobs[key]
        job = self._make(queries)
        with self._lock:
            self._jobs[key] = job
            while len(self._jobs) > _KEPT_JOBS:
                self._jobs.popitem(last=False)
        return job

    def _make(self, queries: Sequence[StandingQuery]) -> Any:
        jvm: Any = self.session._jvm
        context: Any = self.session.sparkContext
        tag = row_tag(self.session)
        rdds = jvm.PythonUtils.toSeq([query.rdd for query in queries])
        every = jvm.org.apache.spark.rdd.UnionRDD(context._jsc.sc(), rdds, tag)
        tasks = 1 if len(queries) < MOST_QUERIES // 2 else 2
        none = jvm.scala.Option.empty()
        few = jvm.org.apache.spark.rdd.CoalescedRDD(every, tasks, none, tag)
        session = self.session._jsparkSession
        return session.internalCreateDataFrame(few, queries[0].schema, False).toArrowBatchRdd()


def _as_many_as_fit(tickets: Sequence[_Ticket]) -> list[_Ticket]:
    """The first ones; at least one."""
    counts = itertools.accumulate(len(ticket.queries) for ticket in tickets)
    return [
        ticket
        for number, (ticket, count) in enumerate(zip(tickets, counts, strict=False))
        if number == 0 or count <= MOST_QUERIES
    ]


def _split(table: pa.Table, queries: Sequence[StandingQuery]) -> dict[int, pa.Table]:
    order = [(name, "ascending") for name in _SCHEMA.names]
    table = table.sort_by(order).combine_chunks()
    members = table.column(MEMBER)
    counts = pc.value_counts(members).to_pylist()
    ends = {counted["values"]: counted["counts"] for counted in counts}
    rows, at = {}, 0
    table = table.drop_columns(MEMBER)
    for number in sorted(query.number for query in queries):
        count = ends.get(number, 0)
        rows[number] = table.slice(at, count)
        at += count
    return rows
