"""A short chaos run of each profile; `tocsin chaos` plays long ones."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest

from tocsin.dev.kafka import Kafka
from tocsin.dev.postgresql import PostgreSQL
from tocsin.dev.server import Server
from tocsin.settings import Settings
from tocsin.testing.chaos import clocks
from tocsin.testing.chaos.faults import small_disk
from tocsin.testing.chaos.play import Course, Place, play

from .load import short_lived

pytestmark = [pytest.mark.processes, pytest.mark.timeout(420)]

SECONDS = 20.0
DISK_BYTES = 512 * 1024 * 1024


class Quiet:
    def phase(self, what: str) -> None:
        print(what)

    def happened(self, at_s: float, what: str) -> None:
        print(f"{at_s:5.1f} s  {what}")


async def judged(settings: Settings, servers: Sequence[Server], folder: Path, seed: int) -> None:
    with small_disk(folder / "disk", DISK_BYTES) as mounted:
        place = Place(
            servers=servers,
            disk=folder / "disk" if mounted else None,
            clocks=None if clocks.missing() else clocks.build(folder / "clocks"),
        )
        outcome = await play(Course(seconds=SECONDS, seed=seed), settings, place, Quiet())
    assert outcome.broken == []
    assert outcome.faults
    assert outcome.figures.acknowledged > 50
    assert outcome.figures.shown > outcome.figures.acknowledged / 2


async def test_files_alone_keep_every_promise_whatever_breaks(tmp_path: Path) -> None:
    settings = short_lived(tmp_path / "disk" / "data", java_limit_s=5.0)
    await judged(settings, [], tmp_path, seed=3)


async def test_kafka_and_postgresql_keep_every_promise_whatever_breaks(
    kafka: Kafka, postgresql: PostgreSQL, tmp_path: Path
) -> None:
    settings = short_lived(
        tmp_path / "disk" / "data",
        log=f"{kafka.url}/{uuid.uuid4().hex}",
        store=postgresql.fresh(),
        real_time_batch_s=2.0,
        java_limit_s=5.0,
    )
    await judged(settings, [kafka, postgresql], tmp_path, seed=4)
