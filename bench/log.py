"""Group commit: publications a second that are durable, against one commit for each.

The baseline is the same log with its publishers let in one at a time, so that no two of them can
share an fsync, or a request to Kafka. Both run in the same minute, in turns.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from bench.findings import Finding
from tocsin.dev.kafka import Kafka
from tocsin.dev.throwaway import Throwaway
from tocsin.storage.log import open_log

PUBLISHERS = (1, 16, 64)
RECORD = b'{"type":"flood","severity":3,"message":"' + b"x" * 400 + b'"}'
ROUNDS = 3


def run(quick: bool, say: Callable[[str], None]) -> list[Finding]:
    seconds = 0.5 if quick else 2.0
    with tempfile.TemporaryDirectory(prefix="tocsin-bench-") as folder:
        fsyncs = _fsyncs_a_second(Path(folder) / "plain", seconds)
        findings = _compared(
            "durable publishes", folder, seconds, say, {"plain_fsyncs_a_second": fsyncs}
        )
    if Kafka.missing():
        say("Kafka is not here: call tocsin dev install kafka")
        return findings
    with Throwaway() as servers:
        say("starting Kafka")
        address = servers.start(Kafka).url
        return findings + _compared("durable publishes on Kafka", address, seconds, say, {})


def _compared(
    claim: str, place: str, seconds: float, say: Callable[[str], None], details: dict[str, Any]
) -> list[Finding]:
    findings = []
    for publishers in PUBLISHERS:
        say(f"{claim}: {publishers} publishers")
        shared, alone = [], []
        for number in range(ROUNDS):  # in turns: a disk's mood changes from second to second
            own = f"{place}/{publishers}-{number}"
            shared.append(_publishes_a_second(f"{own}-shared", publishers, seconds, None))
            alone.append(_publishes_a_second(f"{own}-alone", publishers, seconds, threading.Lock()))
        findings.append(
            Finding(
                claim=f"{claim}, {publishers} at once",
                unit="/s",
                ours=_median(shared),
                baseline=_median(alone),
                baseline_is="the same log, one commit per publish",
                details={
                    "rounds": {"ours": shared, "baseline": alone},
                    "record_bytes": len(RECORD),
                    **details,
                },
            )
        )
    return findings


def _publishes_a_second(
    address: str, publishers: int, seconds: float, gate: threading.Lock | None
) -> float:
    counts = [0] * publishers
    with open_log(address, segment_bytes=16 * 1024 * 1024) as log:
        log.open_dataset("reports")
        log.append("reports", [RECORD]).result()  # Kafka's producer introduces itself
        entrance: AbstractContextManager[object] = gate or nullcontext()
        start = threading.Barrier(publishers + 1)
        stop = threading.Event()

        def publish(number: int) -> None:
            start.wait()
            while not stop.is_set():
                with entrance:
                    log.append("reports", [RECORD]).result()
                counts[number] += 1

        threads = [threading.Thread(target=publish, args=(n,)) for n in range(publishers)]
        for thread in threads:
            thread.start()
        start.wait()
        began = time.perf_counter()
        stop.wait(seconds)
        took_s = time.perf_counter() - began
        done = sum(counts)
        stop.set()
        for thread in threads:
            thread.join()
    return done / took_s


def _fsyncs_a_second(file: Path, seconds: float) -> float:
    """What the disk itself can do: the frame of reference for both."""
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        began, count = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            os.write(handle, RECORD)
            os.fsync(handle)
            count += 1
        return count / (time.perf_counter() - began)
    finally:
        os.close(handle)


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
