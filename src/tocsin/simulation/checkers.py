"""The promises, watched from outside after every step. They share no code with the core."""

from __future__ import annotations

from dataclasses import dataclass, field

from tocsin.broker.core import BrokerCore
from tocsin.broker.effects import Gap, Marker
from tocsin.model import Result
from tocsin.simulation.model_cluster import ModelCluster


class BrokenPromise(AssertionError):
    pass


def promise(kept: bool, told: str) -> None:
    if not kept:
        raise BrokenPromise(told)


@dataclass
class DeliveryChecker:
    """Per client each result once and in order; no gap but what retention took, and told."""

    cluster: ModelCluster
    delivered: dict[tuple[str, int], tuple[str, int]] = field(default_factory=dict)
    acknowledged: dict[tuple[int, str], int] = field(default_factory=dict)
    count: int = 0
    gaps: int = 0
    ends: int = 0

    def started(self, client: str, subscription: int, epoch: str, position: int) -> None:
        key = (client, subscription)
        known = self.delivered.get(key)
        if known is not None:
            order = self.cluster.epoch_order
            promise(order[epoch] > order[known[0]], f"{key} went back from {known} to {epoch}")
        self.delivered[key] = (epoch, position)
        self._may_acknowledge(subscription, epoch, position)

    def forgotten(self, client: str, subscription: int) -> None:
        """The client unsubscribed: if it should come back, it begins at the marker."""
        self.delivered.pop((client, subscription), None)

    def told_end(self, client: str, subscription: int) -> None:
        promise(
            subscription not in self.cluster.frontends,
            f"{client}, subscription {subscription}: told as ended, and lives",
        )
        self.ends += 1

    def told_gap(self, client: str, subscription: int, epoch: str, gap: Gap) -> None:
        key = (client, subscription)
        known_epoch, position = self.delivered[key]
        promise(epoch == known_epoch, f"{key}: a gap of another epoch")
        promise(gap.first <= position + 1, f"{key}: {gap} leaves a hole after {position}")
        promise(gap.last <= self.cluster.floors[epoch], f"{key}: {gap} was told but is kept")
        self.delivered[key] = (epoch, max(position, gap.last))
        self._may_acknowledge(subscription, epoch, gap.last)
        self.gaps += 1

    def got(self, client: str, subscription: int, epoch: str, result: Result) -> None:
        key = (client, subscription)
        known_epoch, position = self.delivered[key]
        promise(epoch == known_epoch, f"{key}: {epoch} delivered within {known_epoch}")
        promise(result.position == position + 1, f"{key}: {result.position} came after {position}")
        promise(result == self.cluster.history[epoch, result.position], f"{key}: not the same")
        self.delivered[key] = (epoch, result.position)
        self._may_acknowledge(subscription, epoch, result.position)
        self.count += 1

    def _may_acknowledge(self, subscription: int, epoch: str, position: int) -> None:
        key = (subscription, epoch)
        self.acknowledged[key] = max(self.acknowledged.get(key, 0), position)

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
        if backend.head == 0:
            return  # a new epoch without results: nobody need have heard of it
        epoch, position = self.delivered[client, subscription]
        promise(
            (epoch, position) == (backend.epoch, backend.head),
            f"{client}, subscription {subscription}: {epoch} {position} is all that came of "
            f"{backend.epoch} {backend.head}",
        )
        promise(
            frontend.marker == backend.head,
            f"subscription {subscription}: marker {frontend.marker} of {backend.head} was stored",
        )


@dataclass
class BrokerChecker:
    """One broker's memory: budget, suffix, counters, markers that never go back."""

    cluster: ModelCluster
    core: BrokerCore
    markers: dict[tuple[int, str], int] = field(default_factory=dict)

    def check(self) -> None:
        cache, total = self.core.cache, 0
        if cache.policy.evict is not None:
            promise(cache.size_bytes <= cache.budget_bytes, "the byte budget is exceeded")
        for backend in self.core.attachments.backends.values():
            contents, tail = cache.contents(backend.id), cache.tail(backend.id)
            positions = [result.position for result in contents]
            promise(
                positions == list(range(tail, backend.fetched + 1)),
                f"backend {backend.id}: {positions} is no suffix up to {backend.fetched}",
            )
            for result in contents:
                promise(
                    result == self.cluster.history[backend.epoch, result.position],
                    f"backend {backend.id}: cached {result.position} is not what is stored",
                )
            total += sum(result.size_bytes for result in contents)
            markers = [frontend.marker for frontend in backend.frontends.values()]
            waiting = sum(1 for marker in markers if marker < tail)
            if contents:
                promise(
                    waiting == cache.candidate(backend.id).waiting > 0,
                    f"backend {backend.id}: {waiting} wait for {tail}",
                )
            promise(len(markers) > 0, f"backend {backend.id} has no subscription here")
        promise(total == cache.size_bytes, f"{cache.size_bytes} bytes are counted, {total} cached")
        self._check_markers()

    def _check_markers(self) -> None:
        """While it is attached. Attached again, a subscription begins with the cluster's marker."""
        before, self.markers = self.markers, {}
        for frontend in self.core.attachments.frontends.values():
            key = (frontend.id, frontend.backend.epoch)
            promise(frontend.marker >= before.get(key, 0), f"marker {key} went back")
            promise(frontend.durable <= frontend.marker, f"marker {key} is behind what is stored")
            self.markers[key] = frontend.marker
