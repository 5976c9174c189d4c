"""What the demo asks the services themselves: to make the city, to take records, and the truth.

The truth is the cluster's store: how far each backend subscription goes. Caches are asked for
their own counts.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from tocsin.client.cluster import Cluster
from tocsin.client.connection import Address
from tocsin.client.http import Http
from tocsin.demo import city
from tocsin.demo.ledger import Ledger
from tocsin.demo.reports import Record
from tocsin.errors import TocsinError, Unavailable

BROKERS_LIMIT_S = 30.0
RANGES_AT_ONCE = 500


class CacheCounts(Struct, frozen=True):
    hits: int = 0
    misses: int = 0
    fetched_bytes: int = 0

    @property
    def hit_ratio(self) -> float | None:
        asked = self.hits + self.misses
        return self.hits / asked if asked else None


class Services:
    """One call each; a single HTTP client per service for everybody in this process."""

    def __init__(
        self, cluster: str, coordinator: str, brokers: Mapping[str, str], token: str
    ) -> None:
        """`token` needs every scope."""
        self._records = Cluster(cluster, token)
        self._cluster = Http(cluster, token)
        self._coordinator = Http(coordinator, token)
        self._brokers = {name: Http(url, token, timeout_s=5.0) for name, url in brokers.items()}

    async def close(self) -> None:
        await self._records.close()
        for each in (self._cluster, self._coordinator, *self._brokers.values()):
            await each.close()

    async def found(self, speed: float) -> None:
        """Make the city's datasets and channels."""
        for statement in city.statements(speed):
            await self._records.sql(statement)

    async def send(self, dataset: str, records: Sequence[Record]) -> int:
        """Publish; how many were acknowledged."""
        return (await self._records.publish(dataset, records)).accepted

    async def locate(self, avoid: str | None) -> Address:
        """Which broker a subscriber should use."""
        path = "/v1/broker" + (f"?exclude={avoid}" if avoid else "")
        told = await self._coordinator.call("GET", path, repeatable=True, attempts=3)
        return Address(told["name"], told["ws_url"])

    async def all_known(self) -> None:
        """Until the coordinator has heard of every broker: one heartbeat after its start."""
        limit = time.monotonic() + BROKERS_LIMIT_S
        while time.monotonic() < limit:
            told = await self._coordinator.call("GET", "/v1/brokers", repeatable=True)
            if sum(bool(each["alive"]) for each in told["brokers"]) >= len(self._brokers):
                return
            await asyncio.sleep(0.1)
        raise Unavailable("the brokers did not report to the coordinator", hint="see their logs")

    async def heads(self, backends: Iterable[int]) -> dict[int, tuple[str, int]]:
        """The epoch and head of each backend subscription that the store (still) has."""
        wanted = sorted(backends)
        found: dict[int, tuple[str, int]] = {}
        for start in range(0, len(wanted), RANGES_AT_ONCE):
            ranges = [
                {"backend": backend, "after": 0, "upto": 0, "limit": 1}
                for backend in wanted[start : start + RANGES_AT_ONCE]
            ]
            told = await self._cluster.call(
                "POST", "/v1/results", json={"ranges": ranges}, repeatable=True
            )
            for each in told["ranges"]:
                if not each.get("gone"):
                    found[each["backend"]] = (each["epoch"], each["head"])
        return found

    async def caches(self) -> dict[str, CacheCounts]:
        """What each broker's cache has counted; a broker that does not answer is left out."""
        found = {}
        for name, broker in self._brokers.items():
            try:
                told = await broker.call("GET", "/v1/cache", repeatable=True, attempts=1)
            except TocsinError:
                continue
            found[name] = _counts(told)
        return found


def tell(ledger: Ledger, heads: Mapping[int, tuple[str, int]]) -> None:
    for backend, (epoch, head) in heads.items():
        ledger.stored(backend, epoch, head)


def _counts(told: dict[str, Any]) -> CacheCounts:
    counters = told.get("counters", told)
    fetched = told.get("fetched_bytes", counters.get("fetched_bytes", 0))
    return CacheCounts(int(counters["hits"]), int(counters["misses"]), int(fetched))
