"""What a run with consumer logs measures, simulated or live: the same row."""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct
from msgspec.structs import asdict

from tocsin.lab.simulators.consumer_logs.logs import Logs
from tocsin.lab.workloads.offers import Offers
from tocsin.policies import AdmissionPolicy


class Measures(Struct, frozen=True, kw_only=True):
    """A delivery is a record for one of the consumers that wait for it. It is a hit if the consumer
    found it in its log when it read, else a miss, which it asked for through the missing topic.
    Records that nobody waits for are counted as unmatched, and nowhere else."""

    records: int
    unmatched: int
    admitted: int
    deliveries: int
    hits: int
    misses: int
    copies: int  # of admitted records: one for each consumer
    shared_records: int  # for several consumers
    shared_admitted: int
    longest_admitted: int  # the longest run of records that were all admitted
    longest_refused: int
    admitted_bytes: int  # written because of admissions
    duplicated_bytes: int  # of admitted records, beyond their first copy
    written_bytes: int  # into all logs: what was admitted, references, what came from the database
    expired_bytes: int  # left a log because of its retention
    stored_bytes: int  # in the logs at the end
    stored_mean_bytes: float  # over the run
    stored_max_bytes: int
    read_bytes: int  # from the logs, by consumers
    database_written_bytes: int
    database_read_bytes: int
    database_fetches: float  # queries: batches of requests
    latency_mean_s: float  # from publication to the consumer, of deliveries
    latency_p50_s: float
    latency_p90_s: float
    latency_p99_s: float
    ordered_mean_s: float  # the same, where a consumer hands records on in their order
    response_mean_s: float  # from the consumer's read on
    duration_s: float  # from the first publication to the last delivery
    seconds: float  # that the run took

    @property
    def hit_rate(self) -> float:
        """The paper's: admitted records out of all (kafka, Figure 8)."""
        return self.admitted / self.records if self.records else 0.0

    @property
    def shared_hit_rate(self) -> float:
        """Of the records for several consumers, the admitted ones."""
        return self.shared_admitted / self.shared_records if self.shared_records else 0.0

    @property
    def copies_per_record(self) -> float:
        """Hit rate × duplication factor, where something is admitted."""
        return self.copies / self.records if self.records else 0.0

    @property
    def admitted_share(self) -> float:
        """Of the deliveries, those of admitted records: the hits, if logs had no end."""
        return self.copies / self.deliveries if self.deliveries else 0.0

    @property
    def delivery_hit_rate(self) -> float:
        return self.hits / self.deliveries if self.deliveries else 0.0

    @property
    def duplication_factor(self) -> float:
        """Copies of an admitted record; 1 where nothing is admitted (kafka, Figure 9)."""
        return self.copies / self.admitted if self.admitted else 1.0

    @property
    def throughput_per_s(self) -> float:
        """Records a second, until the last of them was delivered (kafka, Figure 11)."""
        return self.records / self.duration_s if self.duration_s else 0.0

    def row(self) -> dict[str, int | float]:
        return {
            "hit_rate": self.hit_rate,
            "duplication_factor": self.duplication_factor,
            "delivery_hit_rate": self.delivery_hit_rate,
            "shared_hit_rate": self.shared_hit_rate,
            "copies_per_record": self.copies_per_record,
            "admitted_share": self.admitted_share,
            "throughput_per_s": self.throughput_per_s,
            **asdict(self),
        }


class Play(Protocol):
    """Whoever plays offers under a policy, in a simulator or on a live system, and measures."""

    def __call__(self, offers: Offers, policy: AdmissionPolicy, logs: Logs) -> Measures: ...
