"""The wish: who is there, what comes, how long it is kept, and on which machines."""

from __future__ import annotations

import math

from msgspec import Struct

from tocsin.errors import InvalidInput


class Load(Struct, frozen=True, kw_only=True):
    """Everything that the model is asked about. Derived figures say how they follow."""

    subscribers: float
    records_per_s: float
    record_bytes: float = 1000.0
    results_per_record: float = 1.0
    result_bytes: float = 500.0
    subscriptions_each: float = 1.0
    """Of a subscriber."""
    subscribers_per_set: float = 10.0
    """So many share a parameter set: its results are computed and stored once for all of them."""
    online: float = 0.2
    """The share of subscribers who are connected."""
    keep_records_s: float = 30 * 86400.0
    keep_results_s: float = 7 * 86400.0
    fresh_s: float = 1.0
    """A channel runs at least so often; more often if there is time."""
    channels: float = 1.0

    def __post_init__(self) -> None:
        for field in ("subscribers", "records_per_s"):
            _must(field, getattr(self, field), 0, "more than 0")
        for field in ("record_bytes", "result_bytes", "subscriptions_each", "fresh_s"):
            _must(field, getattr(self, field), 0, "more than 0")
        for field in ("results_per_record", "keep_records_s", "keep_results_s"):
            _must(field, getattr(self, field), None, "at least 0")
        for field in ("subscribers_per_set", "channels"):
            if not 1 <= getattr(self, field) < math.inf:
                raise _wrong(field, getattr(self, field), "at least 1")
        if not 0 <= self.online <= 1:
            raise _wrong("online", self.online, "between 0 and 100 %")

    @property
    def subscriptions(self) -> float:
        return self.subscribers * self.subscriptions_each

    @property
    def sets(self) -> float:
        return max(1.0, self.subscriptions / self.subscribers_per_set)

    @property
    def connections(self) -> float:
        return self.subscribers * self.online

    @property
    def results_per_s(self) -> float:
        return self.records_per_s * self.results_per_record

    @property
    def deliveries_per_s(self) -> float:
        """Each result to those of its set who are connected."""
        return self.results_per_s * self.subscribers_per_set * self.online

    @property
    def runs_per_s(self) -> float:
        return self.channels / self.fresh_s


class Hardware(Struct, frozen=True, kw_only=True):
    """One machine of those that are to be had."""

    cores: float = 8.0
    memory_bytes: float = 32e9
    headroom: float = 0.7
    """Nothing is planned to use more than this share of a core, or of memory."""
    connections_per_broker: float = 50_000.0
    """Sockets of one process: open files, and the kernel's buffers."""

    def __post_init__(self) -> None:
        for field in ("cores", "connections_per_broker"):
            if not 1 <= getattr(self, field) < math.inf:
                raise _wrong(field, getattr(self, field), "at least 1")
        _must("memory_bytes", self.memory_bytes, 0, "more than 0")
        if not 0 < self.headroom <= 1:
            raise _wrong("headroom", self.headroom, "more than 0, at most 100 %")


def _must(field: str, value: float, above: float | None, usage: str) -> None:
    least = value >= 0 if above is None else value > above
    if not (least and value < math.inf):
        raise _wrong(field, value, usage)


def _wrong(field: str, value: float, usage: str) -> InvalidInput:
    option = OPTIONS.get(field, field.replace("_", "-"))
    return InvalidInput(f"{option} is {value:g}", field=option, hint=usage)


OPTIONS = {
    "records_per_s": "records",
    "record_bytes": "record-size",
    "result_bytes": "result-size",
    "keep_records_s": "keep-records",
    "keep_results_s": "keep-results",
    "fresh_s": "fresh",
    "memory_bytes": "memory",
}
"""Of the command line, where it calls a field otherwise."""
