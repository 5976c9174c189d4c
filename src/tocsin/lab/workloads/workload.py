"""A workload: who subscribes to what, who is connected when, and what is published, in order.

Events only; knows no cache and no policy. The compiled kernel, the live broker's core and the
bounds are driven by the same object. Kept as plain arrays, so that many tasks can share one file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tocsin.errors import SettingError

PUBLISH = 0  # subject: backend subscription, value: size in bytes
ONLINE = 1  # subject: subscriber
OFFLINE = 2  # subject: subscriber
SUBSCRIBE = 3  # subject: frontend subscription, value: backend subscription
UNSUBSCRIBE = 4  # subject: frontend subscription; its number may be given again
KINDS = ("publish", "online", "offline", "subscribe", "unsubscribe")

_ARRAYS = {"at": np.float64, "kind": np.int8, "subject": np.int32, "value": np.int32}


@dataclass(frozen=True, eq=False)
class Workload:
    """Everybody begins offline and without subscriptions. All numbers count from 0."""

    at: NDArray[np.float64]  # seconds, ascending
    kind: NDArray[np.int8]
    subject: NDArray[np.int32]
    value: NDArray[np.int32]
    owners: NDArray[np.int32]  # frontend subscription -> subscriber
    backends: int
    subscribers: int
    duration_s: float

    def __len__(self) -> int:
        return len(self.at)

    def check(self) -> Workload:
        """Refuse what no broker could have seen, and name the first event that is wrong."""
        if not len(self):
            raise SettingError("the workload has no events", hint="give one that has some")
        if any(getattr(self, name).shape != self.at.shape for name in _ARRAYS):
            raise SettingError("the workload's columns differ in length", field="workload")
        wrong = np.concatenate([[False], np.diff(self.at) < 0]) | ~np.isfinite(self.at)
        self._refuse(wrong, "its time is before the event's before it, or no number")
        kind, subject, value = self.kind, self.subject, self.value
        self._refuse((kind < 0) | (kind >= len(KINDS)), "its kind is unknown")
        limits = np.array(
            [self.backends, self.subscribers, self.subscribers, len(self.owners), len(self.owners)]
        )
        self._refuse((subject < 0) | (subject >= limits[kind]), "its subject does not exist")
        self._refuse((kind == PUBLISH) & (value <= 0), "its size is not positive")
        unknown = (kind == SUBSCRIBE) & ((value < 0) | (value >= self.backends))
        self._refuse(unknown, "its backend subscription does not exist")
        if len(self.owners) and not 0 <= self.owners.min() <= self.owners.max() < self.subscribers:
            raise SettingError("a frontend subscription belongs to no subscriber", field="owners")
        for what, begin, end in (
            ("subscribed", SUBSCRIBE, UNSUBSCRIBE),
            ("there", ONLINE, OFFLINE),
        ):
            self._check_alternate(what, begin, end)
        return self

    def _check_alternate(self, what: str, begin: int, end: int) -> None:
        """Who begins has not begun, who ends has begun."""
        rows = np.flatnonzero((self.kind == begin) | (self.kind == end))
        order = rows[np.argsort(self.subject[rows], kind="stable")]
        begins = self.kind[order] == begin
        same = np.concatenate([[False], np.diff(self.subject[order]) == 0])
        before = np.concatenate([[False], begins[:-1]]) & same
        wrong = np.zeros(len(self), bool)
        wrong[order[begins == before]] = True
        self._refuse(wrong, f"its subject is {what} already, or is not")

    def _refuse(self, wrong: NDArray[np.bool_], why: str) -> None:
        if wrong.any():
            row = int(np.argmax(wrong))
            kind = int(self.kind[row])
            name = KINDS[kind] if 0 <= kind < len(KINDS) else str(kind)
            raise SettingError(
                f"event {row} ({name} {self.subject[row]} at {self.at[row]:g} s): {why}",
                field="workload",
            )

    def save(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        for name in (*_ARRAYS, "owners"):
            np.save(directory / f"{name}.npy", getattr(self, name))
        about = {
            "backends": self.backends,
            "subscribers": self.subscribers,
            "duration_s": self.duration_s,
        }
        (directory / "workload.json").write_bytes(msgspec.json.encode(about))

    @classmethod
    def load(cls, directory: Path, *, mmap: bool = True) -> Workload:
        try:
            arrays: dict[str, Any] = {
                name: np.load(directory / f"{name}.npy", mmap_mode="r" if mmap else None)
                for name in (*_ARRAYS, "owners")
            }
            about = msgspec.json.decode((directory / "workload.json").read_bytes())
            return cls(**arrays, **about)
        except (OSError, EOFError, ValueError, TypeError, msgspec.DecodeError) as problem:
            raise SettingError(
                f"{directory} holds no workload: {problem}", field="workload"
            ) from problem

    @classmethod
    def of(
        cls,
        events: list[tuple[float, int, int, int]],
        owners: list[int],
        backends: int,
        subscribers: int,
        duration_s: float | None = None,
    ) -> Workload:
        """From rows (at, kind, subject, value)."""
        columns: list[Sequence[float]] = list(zip(*events, strict=True)) or [(), (), (), ()]
        arrays = {
            name: np.array(column, kind)
            for (name, kind), column in zip(_ARRAYS.items(), columns, strict=True)
        }
        last = float(arrays["at"][-1]) if events else 0.0
        return cls(
            **arrays,
            owners=np.array(owners, np.int32),
            backends=backends,
            subscribers=subscribers,
            duration_s=last if duration_s is None else duration_s,
        )
