"""What publishers were told held against what the store and the log hold: nothing that was
acknowledged is lost, nothing is answered twice or out of order, and what is left out is told.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import msgspec

from tocsin.protocol.gap import LostRecords, decode_gap
from tocsin.storage.log import Appended
from tocsin.testing.simulation.checkers import promise
from tocsin.testing.simulation.observed import ObservedCluster
from tocsin.testing.simulation.publishers import Publishers, Request
from tocsin.testing.simulation.questions import POISON


@dataclass
class HistoryChecker:
    cluster: ObservedCluster
    publishers: Publishers
    asked_at: dict[str, float] = field(default_factory=dict)  # by epoch: a subscriber was told
    flipped: list[int] = field(default_factory=list)  # where in the log bits were
    answered: int = 0
    gaps: int = 0

    def subscribed(self, epoch: str, at: float) -> None:
        self.asked_at.setdefault(epoch, at)

    def check(self) -> None:
        """In the end."""
        by_epoch: dict[str, list[Any]] = defaultdict(list)
        for (epoch, _), result in sorted(self.cluster.history.items()):
            by_epoch[epoch].append(msgspec.json.decode(result.payload))
        for epoch, (channel, arguments) in self.cluster.interests.items():
            self._check_epoch(epoch, channel, arguments, by_epoch[epoch])

    def _check_epoch(
        self, epoch: str, channel: str, arguments: dict[str, Any], payloads: list[Any]
    ) -> None:
        what = f"{channel} {arguments} {epoch}"
        gaps: list[LostRecords] = []
        ids: list[int] = []
        windows: list[list[int]] = []
        for payload in payloads:
            gap = decode_gap(payload)
            if gap is not None:
                gaps.append(gap)
            elif channel == "windows":
                promise(not payload["outside"], f"{what}: records outside of {payload}")
                ids += payload["ids"]
                windows.append(payload["window"])
            else:
                ids.append(payload["id"])
        self.answered += len(ids)
        self.gaps += len(gaps)
        for gap in gaps:
            promise(self._has_cause(gap), f"{what}: {gap} has no cause")
        twice = [number for number, times in Counter(ids).items() if times > 1]
        mended = [number for number in twice if self._is_mended(number)]
        promise(twice == mended, f"{what}: records {twice} were answered twice: {ids}")
        for number in ids:
            request, index = self.publishers.by_id[number]
            record = request.records[index]
            promise(record["kind"] == arguments["kind"], f"{what}: {record} is no answer")
        for before, after in pairwise(windows):
            promise(before[1] <= after[0], f"{what}: windows {before} and {after} overlap")
        if channel != "windows":
            alone = [number for number in ids if not self._is_mended(number)]
            places = [place for number in alone if (place := self._place(number)) is not None]
            promise(places == sorted(places), f"{what}: out of the log's order: {ids}")
        self._check_complete(what, epoch, channel, arguments, set(ids), gaps)

    def _check_complete(
        self,
        what: str,
        epoch: str,
        channel: str,
        arguments: dict[str, Any],
        ids: set[int],
        gaps: list[LostRecords],
    ) -> None:
        since = self.asked_at.get(epoch)
        lives = any(backend.epoch == epoch for backend in self.cluster.backends.values())
        if since is None or not lives:
            return
        for number, (request, index) in self.publishers.by_id.items():
            record = request.records[index]
            place = request.place
            if place is None or record["kind"] != arguments["kind"]:
                continue
            if not (request.sent_at > since or self._counts(epoch, channel, place.first)):
                continue
            if channel == "places" and record["who"] == POISON:  # whom no place is known of
                continue
            excused = any(self._excuses(gap, place, record) for gap in gaps)
            promise(
                number in ids or excused,
                f"{what}: {record}, acknowledged at {place}, was never answered",
            )

    def _counts(self, epoch: str, channel: str, position: int) -> bool:
        """Whether the subscription says so, by the place of the record. Channels that look at whole
        windows promise that for later ones only."""
        return channel != "windows" and position >= self.cluster.since[epoch]

    def _excuses(self, gap: LostRecords, place: Appended, record: dict[str, Any]) -> bool:
        """Whether the gap is about this record, and the record itself is why it was told."""
        if gap.dataset != "reports" or gap.end <= place.first or place.end <= gap.first:
            return False
        if "damaged" in gap.cause:
            return self._was_flipped(place)
        return "run_limit_s" in gap.cause or record["who"] == POISON

    def _has_cause(self, gap: LostRecords) -> bool:
        """A record that no query can compute with, or one that was damaged on the disk; or a query
        that took too long again and again."""
        if "damaged" in gap.cause:
            return self.cluster.process.repairs > 0
        if "run_limit_s" in gap.cause:
            return self.cluster.process.overlong > 0
        mended = self.cluster.process.repairs > 0  # what is left of a request stays where it was
        return any(
            request.place is None
            or (mended and len(request.records) > 1)
            or (request.place.first < gap.end and gap.first < request.place.end)
            for request in self.publishers.requests
            if poisonous(request)
        )

    def _is_mended(self, number: int) -> bool:
        """A request that has lost records is taken again when it is sent again. Those of a sector
        that was lost in the middle of a sync were not acknowledged, and nobody told where."""
        request, _ = self.publishers.by_id[number]
        torn = len(request.records) > 1 and self.cluster.process.around.happened["lost sector"] > 0
        damaged = torn or any(self._was_flipped(place) for place in request.taken)
        return damaged and self.cluster.process.repairs > 0

    def _was_flipped(self, place: Appended) -> bool:
        """A bit of it was, or of the end of the line before it."""
        return any(place.first - 1 <= at < place.end for at in self.flipped)

    def _place(self, number: int) -> tuple[int, int] | None:
        request, index = self.publishers.by_id[number]
        return None if request.place is None else (request.place.first, index)


def poisonous(request: Request) -> bool:
    return any(record.get("who") == POISON for record in request.records)
