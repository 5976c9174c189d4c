"""The promises, watched from outside after every step. They share no code with the core."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tocsin.broker.machine import BrokerMachine
from tocsin.broker.machine.core import BrokerCore
from tocsin.broker.machine.effects import Marker
from tocsin.client.feed import Result as Got
from tocsin.testing.simulation.model_cluster import ModelCluster


class BrokenPromise(AssertionError):
    pass


def promise(kept: bool, broken: str) -> None:
    if not kept:
        raise BrokenPromise(broken)


@dataclass
class DeliveryChecker:
    """Per client each result once and in order; no gap but what retention took, and told."""

    cluster: ModelCluster
    delivered: dict[tuple[str, int], tuple[str, int]] = field(default_factory=dict)
    beginnings: dict[tuple[str, int, str], int] = field(default_factory=dict)
    acknowledged: dict[tuple[int, str], int] = field(default_factory=dict)
    count: int = 0
    gaps: int = 0
    ends: int = 0
    on_begin: Callable[[str], None] = lambda epoch: None

    def began(self, client: str, subscription: int, epoch: str, position: int) -> None:
        """The client was told that it has all up to there."""
        begin = self.cluster.begins.get((subscription, epoch), 0)  # 0: it ended before
        may = max(begin, self.acknowledged.get((subscription, epoch), 0))
        promise(position <= may, f"{client}, {subscription}: begins at {position}, not at {may}")
        self.beginnings[client, subscription, epoch] = position
        self.on_begin(epoch)
        self.delivered.setdefault((client, subscription), (epoch, position))

    def forgotten(self, client: str, subscription: int) -> None:
        """If it should come back, it begins at the marker."""
        self.delivered.pop((client, subscription), None)

    def ended(self, client: str, subscription: int) -> None:
        promise(
            subscription not in self.cluster.frontends,
            f"{client}, subscription {subscription}: told as ended, and lives",
        )
        self.ends += 1

    def got(self, client: str, subscription: int, backend: int, result: Got) -> None:
        key = (client, subscription)
        epoch, position = self.delivered[key]
        if result.epoch != epoch:
            order = self.cluster.epoch_order
            promise(order[result.epoch] > order[epoch], f"{key} went back from {epoch}: {result}")
            position = self.beginnings[client, subscription, result.epoch]
        if result.gap is not None:
            position = self._after_gap(key, backend, position, result, result.epoch != epoch)
        there = self.cluster.following(backend, result.epoch, position)
        if there is None or there.position != result.position:
            raise BrokenPromise(f"{key}: {result} came after {position}, {there} is next")
        same = (there.payload, there.created_at) == (result.value, result.at)
        promise(same, f"{key}: {result} is not {there}")
        self.delivered[key] = (result.epoch, result.position)
        acknowledged = self.acknowledged.get((subscription, result.epoch), 0)
        self.acknowledged[subscription, result.epoch] = max(acknowledged, result.position)
        self.count += 1

    def _after_gap(
        self, key: tuple[str, int], backend: int, position: int, result: Got, is_new: bool
    ) -> int:
        """Where the result may follow."""
        gap, floor = result.gap, self.cluster.floor(backend, result.epoch)
        assert gap is not None
        self.gaps += 1
        promise(gap.reason != "missing in the answer", f"{key}: {gap}")
        if gap.last is None:  # an epoch is over, and perhaps more
            promise(is_new, f"{key}: {gap} within {result.epoch}")
            return max(position, min(floor, result.position - 1))
        first = self.cluster.following(backend, result.epoch, position)
        left = first is not None and first.position < gap.first
        promise(not left, f"{key}: {gap} leaves a hole after {position}: {first}")
        promise(gap.last <= floor, f"{key}: {gap} was told but is kept")
        return max(position, gap.last)

    def confirmed(self, subscription: int, epoch: str, position: int) -> None:
        """The client was told that this acknowledgement is durable."""
        frontend = self.cluster.frontends.get(subscription)
        if frontend is not None and self.cluster.backends[frontend.backend].epoch == epoch:
            promise(
                position <= frontend.marker,
                f"{subscription} was told that {position} is durable, {frontend.marker} is",
            )

    def stored(self, markers: list[Marker]) -> None:
        for marker in markers:
            taken = self.acknowledged.get((marker.subscription, marker.epoch), -1)
            promise(marker.position <= taken, f"{marker} is beyond what was delivered: {taken}")

    def everything_delivered(self, client: str, subscription: int, broker: str) -> None:
        """In the end. The client is connected to that broker."""
        frontend = self.cluster.frontends.get(subscription)
        if frontend is None:
            raise BrokenPromise(f"{client} never heard that subscription {subscription} ended")
        promise(
            frontend.broker == broker,
            f"{client} is at {broker}, its subscription {subscription} at {frontend.broker}",
        )
        backend = self.cluster.backends[frontend.backend]
        if self.cluster.following(backend.id, backend.epoch, 0) is None:
            return  # a new epoch without results: nobody need have heard of it
        epoch, position = self.delivered[client, subscription]
        missed = self.cluster.following(backend.id, backend.epoch, position)
        promise(
            epoch == backend.epoch and missed is None,
            f"{client}, subscription {subscription}: {epoch} {position} is all that came of "
            f"{backend.epoch}: {missed}",
        )
        missed = self.cluster.following(backend.id, backend.epoch, frontend.marker)
        promise(
            missed is None,
            f"subscription {subscription}: marker {frontend.marker} was stored, not {missed}",
        )


class Broker(Protocol):
    name: str
    machine: BrokerMachine | None


@dataclass
class StepChecker:
    """In the end every broker is in step with the cluster: registered, with its present store, and
    serving just what the cluster has for it. Nothing is still to be filled."""

    cluster: ModelCluster

    def check(self, brokers: Sequence[Broker]) -> None:
        for broker in brokers:
            machine = broker.machine
            assert machine is not None
            promise(broker.name in self.cluster.registered, f"{broker.name} is not registered")
            promise(
                machine.store_id == self.cluster.store_id,
                f"{broker.name} is with {machine.store_id}, not {self.cluster.store_id}",
            )
            served = set(machine.core.table.frontends)
            there = {
                frontend.id
                for frontend in self.cluster.frontends.values()
                if frontend.broker == broker.name
            }
            promise(served == there, f"{broker.name} serves {served}, the cluster says {there}")
            promise(machine.filling == 0, f"{broker.name}: {machine.filling} fills never ended")


@dataclass
class BrokerChecker:
    """One broker's memory: budget, suffix, counters, markers that never go back."""

    cluster: ModelCluster
    machine: BrokerMachine
    markers: dict[tuple[int, str], int] = field(default_factory=dict)
    core: BrokerCore = field(init=False)

    def __post_init__(self) -> None:
        self.core = self.machine.core

    def check(self) -> None:
        core = self.machine.core
        if core is not self.core:  # another store: nothing of before counts
            self.core, self.markers = core, {}
        cache, total = core.cache, 0
        if cache.policy.evict is not None:
            promise(cache.size_bytes <= cache.budget_bytes, "the byte budget is exceeded")
        for backend in self.core.table.backends.values():
            contents, after = cache.contents(backend.id), cache.tail(backend.id) - 1
            there = self.cluster.results(backend.id, backend.epoch, after, backend.fetched)
            promise(
                contents == there,
                f"backend {backend.id}: {contents} is not {there}, of ({after}, {backend.fetched}]",
            )
            total += sum(result.size_bytes for result in contents)
            markers = [frontend.marker for frontend in backend.frontends.values()]
            if contents:
                waiting = sum(1 for marker in markers if marker < contents[0].position)
                promise(
                    waiting == cache.candidate(backend.id).waiting > 0,
                    f"backend {backend.id}: {waiting} wait for {contents[0]}",
                )
            promise(len(markers) > 0, f"backend {backend.id} has no subscription here")
        promise(total == cache.size_bytes, f"{cache.size_bytes} bytes are counted, {total} cached")
        self._check_markers()

    def _check_markers(self) -> None:
        """While it is attached. Attached again, a subscription begins with the cluster's marker."""
        before, self.markers = self.markers, {}
        for frontend in self.core.table.frontends.values():
            key = (frontend.id, frontend.backend.epoch)
            promise(frontend.marker >= before.get(key, 0), f"marker {key} went back")
            promise(frontend.durable <= frontend.marker, f"marker {key} is behind what is stored")
            self.markers[key] = frontend.marker
