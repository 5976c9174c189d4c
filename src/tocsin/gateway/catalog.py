"""Datasets by name, as the cluster's catalog had them when they were asked for first.

One may be dropped and made anew meanwhile. The cluster sees that when records come that were
checked against the old one, and then it is asked for again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tocsin.model import Dataset

MOST_KNOWN = 10_000


class Catalog:
    def __init__(self, ask: Callable[[str], Awaitable[Dataset]]) -> None:
        self._ask = ask
        self._known: dict[str, Dataset] = {}
        self._asking: dict[str, asyncio.Task[Dataset]] = {}

    async def dataset(self, name: str) -> Dataset:
        known = self._known.get(name)
        if known is not None:
            return known
        asking = self._asking.get(name)
        if asking is None:  # however many want it, one asks
            asking = asyncio.create_task(self._read(name))
            self._asking[name] = asking
            asking.add_done_callback(lambda done: self._asked(name, done))
        return await asyncio.shield(asking)

    def forget(self, dataset: Dataset) -> None:
        """It is another now, or gone."""
        if self._known.get(dataset.name) == dataset:
            del self._known[dataset.name]

    async def _read(self, name: str) -> Dataset:
        dataset = await self._ask(name)
        if len(self._known) >= MOST_KNOWN:
            del self._known[next(iter(self._known))]
        self._known[name] = dataset
        return dataset

    def _asked(self, name: str, done: asyncio.Task[Dataset]) -> None:
        del self._asking[name]
        if not done.cancelled():
            done.exception()  # those who wait have it
