"""One run of an admission policy over offers, compiled; its measures."""

from __future__ import annotations

import time

import numba
import numpy as np
from msgspec.structs import asdict
from numpy.typing import NDArray

from tocsin.lab.jit.heap import new_heap
from tocsin.lab.jit.policies import chosen_callback, record_of_chosen
from tocsin.lab.jit.records import records
from tocsin.lab.simulators.consumer_logs import kernel
from tocsin.lab.simulators.consumer_logs.logs import Logs
from tocsin.lab.simulators.consumer_logs.measures import Measures
from tocsin.lab.workloads.offers import Offers
from tocsin.policies import AdmissionPolicy

Flags = NDArray[np.bool_]


def simulate(offers: Offers, policy: AdmissionPolicy, logs: Logs) -> Measures:
    return play(offers, decide(offers, policy), logs)[0]


def decide(offers: Offers, policy: AdmissionPolicy) -> Flags:
    """Which records the policy admits."""
    admitted = np.zeros(len(offers), np.bool_)
    admit = chosen_callback(policy.admit, numba.boolean, numba.int64)
    kernel.decide(offers.waiting, record_of_chosen(policy.admit), admit, admitted)
    return admitted


def play(offers: Offers, admitted: Flags, logs: Logs) -> tuple[Measures, kernel.World]:
    """With these records admitted. The world at the end tells of every delivery."""
    run = _run(logs)
    world = _world(offers, admitted)
    started = time.perf_counter()
    kernel.play(run, world)
    seconds = time.perf_counter() - started
    totals = {name: run[name][0].item() for name in kernel.RUN.names or ()}
    return _measures(offers, admitted, totals, world, seconds), world


def read_times(offers: Offers, logs: Logs) -> NDArray[np.float64]:
    """When each delivery, record by record, is read if every record is admitted."""
    read_at_s = np.zeros(offers.deliveries)
    kernel.read_times(_run(logs), _world(offers, np.ones(len(offers), np.bool_)), read_at_s)
    return read_at_s


def _run(logs: Logs) -> NDArray[np.void]:
    run: NDArray[np.void] = records(1, kernel.RUN)
    for name, value in asdict(logs).items():
        if name in (kernel.RUN.names or ()):
            run[name] = value
    run["shared"] = logs.layout == "shared"
    run["numbered"] = logs.notice == "number"
    return run


def _world(offers: Offers, admitted: Flags) -> kernel.World:
    """Before the first record. A log's entries are at most twice its deliveries: what is not
    admitted comes again from the database."""
    deliveries = offers.deliveries
    heap, places, count = new_heap(offers.consumers)
    return kernel.World(
        at=np.asarray(offers.at),
        size_bytes=np.asarray(offers.size_bytes),
        content=np.asarray(offers.content),
        first=np.asarray(offers.first),
        consumer=np.asarray(offers.consumer),
        admitted=np.asarray(admitted),
        consumers=_consumers(offers),
        kinds=np.zeros(2 * deliveries, np.int8),
        entries=np.zeros(2 * deliveries, np.int64),
        record_of=np.zeros(deliveries, np.int64),
        shared_bytes=np.zeros(len(offers) + deliveries, np.int64),
        shared_place=np.zeros(len(offers), np.int64),
        requests=np.zeros((deliveries, 2), np.int64),
        requested_at=np.zeros(deliveries),
        fetched_in=np.zeros(len(offers), np.int64),
        behind=np.zeros(deliveries, np.int64),
        behind_at=np.zeros(deliveries),
        heap=heap,
        places=places,
        count=count,
        latencies=np.zeros(deliveries),
        hit=np.zeros(deliveries, np.bool_),
    )


def _consumers(offers: Offers) -> NDArray[np.void]:
    """Nobody has read anything; their logs lie one after the other."""
    by_content = np.bincount(offers.content, minlength=len(offers.first) - 1)
    deliveries = np.bincount(
        offers.consumer,
        np.repeat(by_content, np.diff(offers.first)),
        minlength=offers.consumers,
    ).astype(np.int64)
    consumers: NDArray[np.void] = records(offers.consumers, kernel.CONSUMER)
    begins = np.concatenate([[0], 2 * np.cumsum(deliveries)[:-1]])
    for name in ("oldest", "unread", "shown", "end"):
        consumers[name] = begins
    consumers["behind_at"] = np.inf
    consumers["read_every_s"], consumers["read_at_s"] = offers.read_every_s, offers.read_at_s
    return consumers


def _measures(
    offers: Offers,
    admitted: Flags,
    totals: dict[str, int | float],
    world: kernel.World,
    seconds: float,
) -> Measures:
    latencies = world.latencies
    deliveries = len(latencies)
    ordered = np.zeros(deliveries)
    kernel.in_order(world, np.zeros(offers.consumers), ordered)
    p50, p90, p99 = np.percentile(latencies, [50, 90, 99]) if deliveries else (0.0, 0.0, 0.0)
    duration_s = max(0.0, totals["ended_at"] - float(offers.at[0])) if deliveries else 0.0
    same = set(Measures.__struct_fields__) & set(totals)
    counted = {name: totals[name] for name in same}
    return Measures(
        **counted,  # type: ignore[arg-type]  # whole numbers, by the names of both
        records=len(offers) - int(totals["unmatched"]),
        deliveries=deliveries,
        shared_records=int((offers.waiting > 1).sum()),
        shared_admitted=int((admitted & (offers.waiting > 1)).sum()),
        stored_bytes=int(totals["size_bytes"]),
        stored_mean_bytes=totals["byte_s"] / duration_s if duration_s else 0.0,
        stored_max_bytes=int(totals["max_bytes"]),
        latency_mean_s=float(latencies.mean()) if deliveries else 0.0,
        latency_p50_s=float(p50),
        latency_p90_s=float(p90),
        latency_p99_s=float(p99),
        ordered_mean_s=float(ordered.mean()) if deliveries else 0.0,
        response_mean_s=totals["response_s"] / deliveries if deliveries else 0.0,
        duration_s=duration_s,
        seconds=seconds,
    )
