"""Consumer logs under an admission policy: the *kafka* paper's setting, where the axis is the
number of records, and a crowd's, where it is the room in each consumer's log.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from tocsin.errors import InvalidInput
from tocsin.lab.bounds.admission import best_for_bytes, certify_retention
from tocsin.lab.live.consumer_logs.form import LIVE_LOGS
from tocsin.lab.simulators.consumer_logs import Logs, simulate
from tocsin.lab.spec.columns import bound_columns
from tocsin.lab.spec.experiment import Recording
from tocsin.lab.spec.study import Row, Study
from tocsin.lab.workloads.offers import (
    CrowdSettings,
    Offers,
    PaperSettings,
    crowd_offers,
    paper_offers,
)
from tocsin.lab.workloads.offers.files import digest_of, read_records
from tocsin.policies import parse_admission


def play_records(offers: Offers, policy: str, records: int, logs: Logs) -> Row:
    return dict(simulate(offers, parse_admission(policy), logs).row())


def of_records(settings: PaperSettings, records: int) -> PaperSettings:
    return replace(settings, records=records)


def play_retention(offers: Offers, policy: str, retention_bytes: int, logs: Logs) -> Row:
    """With what the best choice would save if it wrote as many bytes."""
    here = replace(logs, retention_bytes=retention_bytes)
    measured = simulate(offers, parse_admission(policy), here)
    best = best_for_bytes(offers, here, measured.admitted_bytes)
    deliveries = max(measured.deliveries, 1)
    return dict(measured.row()) | {
        "best_for_bytes": best.limit / deliveries,
        "reached_for_bytes": best.reached / deliveries,
        "part_of_best": measured.copies / best.limit if best.limit else 1.0,
    }


def bound_retention(offers: Offers, retention_bytes: int, logs: Logs) -> Row:
    interval = certify_retention(offers, replace(logs, retention_bytes=retention_bytes))
    best, reached = bound_columns("delivery_hit_rate")
    deliveries = max(offers.deliveries, 1)
    return {best: interval.limit / deliveries, reached: interval.reached / deliveries}


def functions(policy: str) -> list[Any]:
    return list(parse_admission(policy).admit.functions)


def load(directory: Path) -> Offers:
    return Offers.load(directory, mmap=True)


def recordings(place: Path) -> list[Recording]:
    """The authors' files: one, or all of a directory."""
    files = sorted(place.glob("*.csv")) if place.is_dir() else [place]
    if not files:
        raise InvalidInput(f"{place} has no files *.csv", field="data")
    return [_recording(file) for file in files]


def _recording(file: Path) -> Recording:
    records = len(read_records(file, PaperSettings().vocabulary))
    digest = digest_of(file)
    return Recording(
        value=records, settings={"file": str(file.resolve()), "digest": digest}, digest=digest
    )


PAPERS_LOGS = Study(
    name="papers-logs",
    workload=PaperSettings,
    environment=Logs,
    make=paper_offers,
    load=load,
    play=play_records,
    at=of_records,
    functions=functions,
    live=LIVE_LOGS,
)
CROWDS_LOGS = Study(
    name="crowds-logs",
    workload=CrowdSettings,
    environment=Logs,
    make=crowd_offers,
    load=load,
    play=play_retention,
    bound=bound_retention,
    functions=functions,
)
