"""Offers through the whole live system, on Kafka and MariaDB: complete, in order, once each, and
admitted exactly as the simulator says."""

from __future__ import annotations

import uuid

import numpy as np
import pytest

from lab.admission.as_seen import same_counts
from tocsin.dev.kafka import Kafka
from tocsin.dev.mariadb import MariaDB
from tocsin.lab.live.consumer_logs.servers import staged
from tocsin.lab.simulators.consumer_logs import Logs, simulate
from tocsin.lab.workloads.offers import Offers, PaperSettings, Published, paper_offers
from tocsin.lab.workloads.offers.vocabulary import OPEN, Vocabulary
from tocsin.policies import parse_admission

pytestmark = [pytest.mark.processes, pytest.mark.timeout(420)]


class Quiet:
    def begin(self, what: str, total: int) -> None: ...

    def advance(self, count: int) -> None: ...


def overlapping(records: int) -> Offers:
    """Three consumers, two of which leave attributes open: a record is for none to all of them."""
    random = np.random.default_rng(5)
    wanted = [(0, (1, 0, 1)), (1, (1, OPEN, OPEN)), (2, (OPEN, 0, OPEN))]
    return Offers.of(
        Vocabulary(),
        Published(
            values=random.integers(0, [2, 2, 2], (records, 3)).astype(np.int32),
            at=np.cumsum(random.exponential(1e-3, records)),
            producer=np.zeros(records, np.int32),
            size_bytes=np.full(records, 80),
        ),
        wanted,
        read_every_s=np.zeros(3),
        read_at_s=np.zeros(3),
    )


def test_live_decisions_are_the_simulators(kafka: Kafka, mariadb: MariaDB) -> None:
    log, store = f"{kafka.url}/{uuid.uuid4().hex}", mariadb.fresh()
    with staged(Quiet(), log=log, database=store, mark_s=0.1) as player:
        for offers, text in (
            (paper_offers(PaperSettings(records=120), 3), "threshold(0.3,0.2)"),
            (overlapping(120), "mean(20)"),
        ):
            policy = parse_admission(text)
            live, simulated = (
                player.play(offers, policy, Logs()).measures,
                simulate(offers, policy, Logs()),
            )
            same_counts(live, simulated)
            assert 0 < live.admitted < live.records
            assert 0 < live.latency_mean_s <= live.ordered_mean_s < live.duration_s
            assert live.written_bytes > live.admitted_bytes + live.database_read_bytes
