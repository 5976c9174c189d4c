"""What consumers of a live system would have seen, had it done what the simulator did."""

from __future__ import annotations

import numpy as np

from tocsin.lab.live.consumer_logs.observation import Observed, Seen
from tocsin.lab.live.consumer_logs.player import Played
from tocsin.lab.simulators.consumer_logs import Logs, Measures, decide, play
from tocsin.lab.workloads.offers import Offers
from tocsin.policies import AdmissionPolicy

BEGAN_AT = 1000.0


def as_seen(offers: Offers, policy: AdmissionPolicy, logs: Logs) -> tuple[Measures, list[Seen]]:
    """Made when published, logged when it arrives."""
    measures, world = play(offers, decide(offers, policy), logs)
    seen = [Seen() for _ in range(offers.consumers)]
    delivery = 0
    for record, content in enumerate(offers.content.tolist()):
        for consumer in offers.consumer[offers.first[content] : offers.first[content + 1]]:
            one = seen[consumer]
            published_at = BEGAN_AT + float(offers.at[record])
            arrived_at = published_at + float(world.latencies[delivery])
            one.records.append(record)
            one.filled.append(not world.hit[delivery])
            one.made_at.append(published_at)
            one.logged_at.append(arrived_at)
            one.arrived_at.append(arrived_at)
            one.handed_on_at.append(max([arrived_at, *one.handed_on_at[-1:]]))
            delivery += 1
    return measures, seen


class SimulatedPlayer:
    """Stands where the live one does. `played` are the policies, one after the other."""

    def __init__(self) -> None:
        self.played: list[tuple[str, int]] = []

    def play(self, offers: Offers, policy: AdmissionPolicy, logs: Logs) -> Played:
        self.played.append((policy.text, len(offers)))
        _, seen = as_seen(offers, policy, logs)
        observed = Observed(offers, BEGAN_AT, seen)
        return Played(observed.measures(0.0), observed.timings())

    def warm_up(self, offers: Offers, policy: AdmissionPolicy) -> None:
        pass


def same_counts(live: Measures, simulated: Measures) -> None:
    """What follows from the offers and the policy alone."""
    for name in (
        *("records", "unmatched", "admitted", "deliveries", "hits", "misses", "copies"),
        *("shared_records", "shared_admitted", "longest_admitted", "longest_refused"),
        *("admitted_bytes", "duplicated_bytes", "database_read_bytes", "hit_rate"),
        *("duplication_factor", "shared_hit_rate", "copies_per_record", "admitted_share"),
    ):
        assert getattr(live, name) == getattr(simulated, name), name


def close(one: float, other: float) -> bool:
    return bool(np.isclose(one, other, rtol=0, atol=1e-6))
