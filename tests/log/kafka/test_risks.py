"""Topics that are set to lose what was acknowledged are told, with what mends it."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from log.media import OnKafka
from tocsin.storage.log.kafka.risks import risks_of

SAFE = {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"}


def test_a_topic_that_keeps_what_it_acknowledges_is_no_risk() -> None:
    assert risks_of(3, SAFE) == []
    assert risks_of(3, {}) == []  # where we may not ask


@pytest.mark.parametrize(
    ("replicas", "changed", "told"),
    [
        (1, {}, "replication factor 1"),
        (3, {"min.insync.replicas": "1"}, "min.insync.replicas=1"),
        (2, {"unclean.leader.election.enable": "true"}, "unclean.leader.election.enable=true"),
    ],
)
def test_each_way_to_lose_records_is_told(
    replicas: int, changed: dict[str, str], told: str
) -> None:
    (risk,) = risks_of(replicas, SAFE | changed)
    assert risk.setting == told
    assert risk.loses
    assert risk.fix


def test_a_log_on_one_broker_says_once_what_may_be_lost(medium: OnKafka) -> None:
    with capture_logs() as lines, medium.open() as log:
        for name in ("reports", "others"):
            log.open_dataset(name)
    told = [line for line in lines if "may lose" in line["event"]]
    assert [line["setting"] for line in told] == ["replication factor 1"]
    assert "default.replication.factor" in told[0]["fix"]
    (warning,) = log.warnings
    assert "replication factor 1" in warning
    assert "default.replication.factor" in warning
