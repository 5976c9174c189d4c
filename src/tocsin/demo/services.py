"""What the demo asks the services themselves: to make the city, to take records, and the truth.

The truth is the cluster's store: how far each backend subscription goes. Caches are asked for
their own counts.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections.abc import Iterable, Mapping, Sequence

import httpx
import msgspec
from msgspec import Struct
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tocsin.client.attachments import attached
from tocsin.client.cluster import Cluster
from tocsin.client.connection import Address
from tocsin.client.feed import Result
from tocsin.client.http import Http, error_of
from tocsin.client.transport import HttpClient
from tocsin.demo import city, pictures
from tocsin.demo.ledger import Ledger
from tocsin.demo.player import Record
from tocsin.errors import Unavailable
from tocsin.protocol.broker import BrokerInfo
from tocsin.protocol.cluster import RangeRequest, RangeRequests, ResultRanges
from tocsin.protocol.coordinator import LiveBrokers

BROKERS_LIMIT_S = 30.0
RANGES_AT_ONCE = 500
CACHE_METRICS = {
    "hits": "cache_hits_total",
    "misses": "cache_misses_total",
    "fetched_bytes": "fetched_bytes_total",
    "page_hits": "page_hits_total",
    "page_misses": "page_misses_total",
    "page_saved_bytes": "page_saved_bytes",
}


class CacheCounts(Struct, frozen=True):
    hits: int = 0
    misses: int = 0
    fetched_bytes: int = 0
    page_hits: int = 0
    page_misses: int = 0
    page_saved_bytes: int = 0
    fetch_s: float = 0.0  # how long a call to the cluster took, on average


class Runs(Struct, frozen=True):
    count: int
    seconds: float


class Services:
    """One call each; a single HTTP client per service for everybody in this process."""

    def __init__(
        self,
        cluster: str,
        coordinator: str,
        brokers: Mapping[str, str],
        token: str,
        inner: Mapping[str, str] | None = None,
    ) -> None:
        """`token` needs every scope. `inner`: where services tell their metrics, if elsewhere."""
        self._inner = inner or {}
        self._records = Cluster(cluster, token)
        self._cluster = Http(cluster, token)
        self._coordinator = Http(coordinator, token)
        self._plain = HttpClient(timeout=5.0, headers={"authorization": f"Bearer {token}"})
        self._brokers = dict(brokers)
        self._pages: dict[str, httpx.AsyncClient] = {}

    async def close(self) -> None:
        await self._records.close()
        await self._cluster.close()
        await self._coordinator.close()
        await self._plain.aclose()
        for client in self._pages.values():
            await client.aclose()

    async def create_city(self, speed: float) -> None:
        """Make the city's datasets and channels."""
        for statement in city.statements(speed):
            await self._records.sql(statement)

    async def upload(self, picture: bytes, name: str) -> Record:
        """What a record says of it."""
        return await self._records.upload(picture, pictures.TYPE, name)

    async def open(self, broker: str, token: str, result: Result, field: str) -> None:
        """Read an attachment of a result, whole, from a broker."""
        if broker not in self._pages:
            url = self._brokers[broker]
            self._pages[broker] = HttpClient(base_url=url, timeout=10.0)
        about = attached(result, field)
        led_by = {"subscription": result.subscription, "position": result.position}
        try:
            answer = await self._pages[broker].get(
                f"/v1/attachments/{about.id}",
                params=led_by,
                headers={"authorization": f"Bearer {token}"},
            )
        except httpx.HTTPError as error:
            raise Unavailable(f"{broker} did not give it: {error}") from None
        if not answer.is_success:
            raise error_of(answer)
        if hashlib.sha256(answer.content).hexdigest() != about.id:
            raise Unavailable(f"{broker} gave a damaged one: {about.id}")

    async def send(self, dataset: str, records: Sequence[Record]) -> int:
        """Publish; how many were acknowledged."""
        return (await self._records.publish(dataset, records)).accepted

    async def locate(self, avoid: str | None) -> Address:
        """Which broker a subscriber should use."""
        path = "/v1/broker" + (f"?exclude={avoid}" if avoid else "")
        broker = await self._coordinator.call("GET", path, BrokerInfo, repeatable=True, attempts=3)
        return Address(broker.name, broker.ws_url)

    async def all_known(self) -> None:
        """Until the coordinator has heard of every broker: one heartbeat after its start."""
        limit = time.monotonic() + BROKERS_LIMIT_S
        while time.monotonic() < limit:
            known = await self._coordinator.call("GET", "/v1/brokers", LiveBrokers, repeatable=True)
            if sum(broker.alive for broker in known.brokers) >= len(self._brokers):
                return
            await asyncio.sleep(0.1)
        raise Unavailable("the brokers did not report to the coordinator", hint="see their logs")

    async def heads(self, backends: Iterable[int]) -> dict[int, tuple[str, int]]:
        """The epoch and head of each backend subscription that the store (still) has."""
        wanted = sorted(backends)
        heads: dict[int, tuple[str, int]] = {}
        for start in range(0, len(wanted), RANGES_AT_ONCE):
            ranges = [
                RangeRequest(backend, after=0, upto=0, limit=1)
                for backend in wanted[start : start + RANGES_AT_ONCE]
            ]
            answer = await self._cluster.call(
                "POST",
                "/v1/results",
                ResultRanges,
                content=msgspec.json.encode(RangeRequests(ranges)),
                repeatable=True,
            )
            for part in answer.ranges:
                if not part.gone:
                    heads[part.backend] = (part.epoch, part.head or 0)
        return heads

    async def caches(self) -> dict[str, CacheCounts]:
        """What each broker's cache has counted; a broker that does not answer is left out."""
        counts_of = {}
        for name, url in self._brokers.items():
            with contextlib.suppress(httpx.HTTPError):
                counted = {metric.name: metric.value for metric in await self._metrics(name, url)}
                calls = counted["tocsin_broker_fetch_seconds_count"]
                counts = {
                    field: int(counted[f"tocsin_broker_{metric}"])
                    for field, metric in CACHE_METRICS.items()
                }
                fetch_s = counted["tocsin_broker_fetch_seconds_sum"] / calls if calls else 0.0
                counts_of[name] = CacheCounts(**counts, fetch_s=fetch_s)
        return counts_of

    async def runs(self) -> dict[str, Runs]:
        """How often each channel has run, and how long that took."""
        samples: dict[str, dict[str, float]] = {channel.name: {} for channel in city.CHANNELS}
        for metric in await self._metrics("cluster", self._cluster.url):
            channel = metric.labels.get("channel")
            if channel in samples and metric.name.startswith("tocsin_run_seconds_"):
                samples[channel][metric.name] = metric.value
        return {
            channel: Runs(
                int(values.get("tocsin_run_seconds_count", 0)),
                values.get("tocsin_run_seconds_sum", 0.0),
            )
            for channel, values in samples.items()
        }

    async def _metrics(self, name: str, url: str) -> list[Sample]:
        answer = await self._plain.get(f"{self._inner.get(name, url)}/metrics")
        answer.raise_for_status()
        families = text_string_to_metric_families(answer.text)
        return [sample for family in families for sample in family.samples]


def tell(ledger: Ledger, heads: Mapping[int, tuple[str, int]]) -> None:
    for backend, (epoch, head) in heads.items():
        ledger.stored(backend, epoch, head)
