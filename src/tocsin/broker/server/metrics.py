"""What a broker reports to Prometheus: read from the core when asked, so that nothing drifts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeVar

from prometheus_client import REGISTRY, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from tocsin.broker.server.driver import Driver
    from tocsin.broker.server.links import Links

LAG = Histogram(
    "tocsin_broker_notice_lag_seconds",
    "From a result's making at the cluster to its arrival at the broker",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60),
)

FETCH = Histogram(
    "tocsin_broker_fetch_seconds",
    "How long a call to the cluster for results took",
    buckets=(0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10),
)


class Counts:
    """What the server itself counts; the rest is in the core."""

    delivered: int = 0
    signals: int = 0
    stalled: int = 0
    lag_s = LAG


Reading = tuple[str, str, Callable[["Driver"], float]]

GAUGES: list[Reading] = [
    ("connections", "Open client connections", lambda d: len(d.connections)),
    ("subscriptions", "Frontend subscriptions", lambda d: len(d.core.table.frontends)),
    ("backend_subscriptions", "Backend subscriptions", lambda d: len(d.core.table.backends)),
    ("cache_bytes", "Bytes in the result cache", lambda d: d.core.cache.size_bytes),
    ("cache_budget_bytes", "Budget of the result cache", lambda d: d.core.cache.budget_bytes),
    ("filters", "Filter subscriptions", lambda d: len(d.core.table.filters)),
    ("page_cache_bytes", "Bytes in the page cache", lambda d: d.machine.pages.cache.size_bytes),
    ("page_saved_bytes", "Served of pages, less fetched", lambda d: d.pages.saved_bytes),
    ("messages_held", "Messages in the message cache", lambda d: len(d.machine.messages)),
]
COUNTERS: list[Reading] = [
    ("cache_hits", "Results served from the cache", lambda d: d.core.cache.counters.hits),
    ("cache_misses", "Results that gets had to fetch", lambda d: d.core.cache.counters.misses),
    ("cache_evictions", "Results evicted", lambda d: d.core.cache.counters.evicted),
    ("cache_expirations", "Results past their time", lambda d: d.core.cache.counters.expired),
    ("fetched_bytes", "Payload bytes fetched from the cluster", lambda d: d.link.fetched_bytes),
    ("page_hits", "Pages served from the cache", lambda d: d.machine.pages.cache.counters.hits),
    ("page_misses", "Pages fetched on request", lambda d: d.machine.pages.cache.counters.misses),
    (
        "page_pushes",
        "Pages stored before anybody asked",
        lambda d: d.machine.pages.cache.counters.stored,
    ),
    ("page_evictions", "Pages evicted", lambda d: d.machine.pages.cache.counters.evicted),
    ("page_served_bytes", "Bytes of pages served", lambda d: d.pages.served_bytes),
    ("page_fetched_bytes", "Bytes of pages fetched", lambda d: d.pages.fetched_bytes),
    (
        "near_results",
        "Results from neighbours' caches",
        lambda d: d.machine.neighbour_counts.results,
    ),
    ("near_bytes", "Their payload bytes", lambda d: d.machine.neighbour_counts.results_bytes),
    (
        "near_served_bytes",
        "Payload bytes given to neighbours",
        lambda d: d.machine.neighbour_counts.served_bytes,
    ),
    ("delivered_results", "Results sent to clients", lambda d: d.counts.delivered),
    ("signals", "Signals sent to clients", lambda d: d.counts.signals),
    ("stalled_closes", "Clients closed because they stalled", lambda d: d.counts.stalled),
]


LinksReading = tuple[str, str, Callable[["Links"], float]]

LINKS_GAUGES: list[LinksReading] = [
    ("links", "Open links with neighbours", lambda link: link.up),
]
LINKS_COUNTERS: list[LinksReading] = [
    ("link_messages_in", "Messages from neighbours", lambda link: link.counts.messages_in),
    ("link_messages_out", "Messages to neighbours", lambda link: link.counts.messages_out),
    ("link_bytes_in", "Bytes from neighbours", lambda link: link.counts.bytes_in),
    ("link_bytes_out", "Bytes to neighbours", lambda link: link.counts.bytes_out),
    ("relinks", "Links that came again after they were lost", lambda link: link.counts.relinks),
]


class BrokerCollector(Collector):
    """All brokers of this process, each under its own label."""

    def __init__(self) -> None:
        self.drivers: list[Driver] = []
        self.links: list[Links] = []

    def collect(self) -> Iterator[Metric]:
        drivers = {driver.settings.broker_name: driver for driver in self.drivers}
        links = {link.name: link for link in self.links}
        yield from _read(GaugeMetricFamily, GAUGES, drivers)
        yield from _read(CounterMetricFamily, COUNTERS, drivers)
        yield from _read(GaugeMetricFamily, LINKS_GAUGES, links)
        yield from _read(CounterMetricFamily, LINKS_COUNTERS, links)


Family = type[GaugeMetricFamily] | type[CounterMetricFamily]
T = TypeVar("T")


def _read(
    family: Family, readings: list[tuple[str, str, Callable[[T], float]]], brokers: dict[str, T]
) -> Iterator[Metric]:
    for key, text, read in readings:
        metric = family(f"tocsin_broker_{key}", text, labels=["broker"])
        for name, counters in brokers.items():
            metric.add_metric([name], read(counters))
        yield metric


BROKERS = BrokerCollector()
REGISTRY.register(BROKERS)
