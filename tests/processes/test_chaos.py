"""A short chaos run on real servers. That of files alone is the one on its page (tests/docs), and
`tocsin chaos` plays long ones."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from tocsin.dev.kafka import Kafka
from tocsin.dev.postgresql import PostgreSQL
from tocsin.testing.chaos import clocks
from tocsin.testing.chaos.faults import small_disk
from tocsin.testing.chaos.play import Course, Place, play

from .load import short_lived

pytestmark = [pytest.mark.processes, pytest.mark.timeout(420)]

DISK_BYTES = 512 * 1024 * 1024


class Printed:
    def phase(self, what: str) -> None:
        print(what)

    def happened(self, at_s: float, what: str) -> None:
        print(f"{at_s:5.1f} s  {what}")


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
    with small_disk(tmp_path / "disk", DISK_BYTES) as mounted:
        place = Place(
            servers=[kafka, postgresql],
            disk=tmp_path / "disk" if mounted else None,
            clocks=None if clocks.missing() else clocks.build(tmp_path / "clocks"),
        )
        outcome = await play(Course(seconds=20.0, seed=4, gateways=2), settings, place, Printed())
    assert outcome.broken == []
    assert outcome.faults
    assert outcome.figures.acknowledged > 50
    assert outcome.figures.shown > outcome.figures.acknowledged / 2
