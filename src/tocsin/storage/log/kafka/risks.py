"""How a topic is set to lose what was acknowledged. Pure: knows what Kafka answered, not how."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

IN_SYNC = "min.insync.replicas"
UNCLEAN = "unclean.leader.election.enable"


class Risk(NamedTuple):
    setting: str
    loses: str
    fix: str


def risks_of(replicas: int, config: Mapping[str, str]) -> list[Risk]:
    """`replicas`: of the partition that has the fewest; `config`: as far as Kafka tells it."""
    risks = []
    if replicas < 2:
        risks.append(
            Risk(
                f"replication factor {replicas}",
                "with the disk of that one broker all records are lost",
                "give the topic more replicas (kafka-reassign-partitions.sh), and the brokers"
                " default.replication.factor=3",
            )
        )
    in_sync = config.get(IN_SYNC, "")
    if replicas >= 2 and in_sync.isdigit() and int(in_sync) < 2:
        risks.append(
            Risk(
                f"{IN_SYNC}={in_sync}",
                "a record can be acknowledged when one broker alone has it, and be lost with it",
                f"set {IN_SYNC}=2 for the topic (kafka-configs.sh)",
            )
        )
    if replicas >= 2 and config.get(UNCLEAN, "").lower() == "true":
        risks.append(
            Risk(
                f"{UNCLEAN}=true",
                "a broker that lacks acknowledged records can become the leader, and drops them",
                f"set {UNCLEAN}=false for the topic (kafka-configs.sh)",
            )
        )
    return risks
