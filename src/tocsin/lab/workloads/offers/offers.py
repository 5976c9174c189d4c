"""Records in the order of their publication, and for each which consumers wait for it.

Kept as plain arrays, so that many tasks can share one file. Knows no log and no policy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from tocsin.errors import SettingError
from tocsin.lab.workloads.offers.matching import match
from tocsin.lab.workloads.offers.vocabulary import Values, Vocabulary

Subscription = tuple[int, Values]  # a consumer, and what it wants of each attribute

_RECORDS = {"at": np.float64, "producer": np.int32, "content": np.int32, "size_bytes": np.int64}
_CONTENTS = {"values": np.int32, "first": np.int64, "consumer": np.int32}
_CONSUMERS = {"read_every_s": np.float64, "read_at_s": np.float64, "subscribed": np.int32}
_ARRAYS = _RECORDS | _CONTENTS | _CONSUMERS


@dataclass(frozen=True, eq=False)
class Published:
    """Records, before anybody is found for them: a row each."""

    at: NDArray[np.float64]
    producer: NDArray[np.int32]
    values: NDArray[np.int32]
    size_bytes: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Offers:
    """All numbers count from 0. A consumer that reads every 0 s reads at once."""

    at: NDArray[np.float64]  # seconds, ascending: when each record is published
    producer: NDArray[np.int32]
    content: NDArray[np.int32]  # which of the contents
    size_bytes: NDArray[np.int64]
    values: NDArray[np.int32]  # of each content: restaurant, food, discount
    first: NDArray[np.int64]  # of each content, and one more: where its consumers begin
    consumer: NDArray[np.int32]  # of each content: who subscribed, ascending
    read_every_s: NDArray[np.float64]  # of each consumer
    read_at_s: NDArray[np.float64]  # of each consumer: its first read
    subscribed: NDArray[np.int32]  # a row each: a consumer, what it wants of each attribute
    vocabulary: Vocabulary

    def __len__(self) -> int:
        return len(self.at)

    @property
    def consumers(self) -> int:
        return len(self.read_every_s)

    @cached_property
    def waiting(self) -> NDArray[np.int64]:
        """The number of consumers each record is for: the n of the admission policies."""
        return np.diff(self.first)[self.content]

    @property
    def deliveries(self) -> int:
        return int(self.waiting.sum())

    @classmethod
    def of(
        cls,
        vocabulary: Vocabulary,
        published: Published,
        subscriptions: Sequence[Subscription],
        *,
        read_every_s: NDArray[np.float64],
        read_at_s: NDArray[np.float64],
    ) -> Offers:
        """Records matched with the subscriptions."""
        contents, content = np.unique(published.values, axis=0, return_inverse=True)
        rows = [(who, *wanted) for who, wanted in subscriptions]
        subscribed = np.array(rows, np.int32).reshape(-1, 4)
        first, consumer = match(vocabulary, contents, subscribed[:, 0], subscribed[:, 1:])
        return cls(
            at=published.at,
            producer=published.producer,
            content=content.reshape(-1).astype(np.int32),
            size_bytes=published.size_bytes,
            values=contents,
            first=first,
            consumer=consumer,
            read_every_s=read_every_s,
            read_at_s=read_at_s,
            subscribed=subscribed,
            vocabulary=vocabulary,
        )

    def check(self) -> Offers:
        """Refuse what cannot be played, and name the first record that is wrong."""
        if not len(self):
            raise SettingError("there are no records", field="offers", hint="give some")
        if any(getattr(self, name).shape != self.at.shape for name in _RECORDS):
            raise SettingError("the columns of records differ in length", field="offers")
        late = np.concatenate([[False], np.diff(self.at) < 0]) | ~np.isfinite(self.at)
        self._refuse(late, "its time is before the record's before it, or no number")
        contents = len(self.first) - 1
        self._refuse((self.content < 0) | (self.content >= contents), "its content does not exist")
        self._refuse(self.size_bytes <= 0, "its size is not positive")
        wrong = self.first[0] != 0 or (np.diff(self.first) < 0).any()
        if wrong or self.first[-1] != len(self.consumer) or len(self.values) != contents:
            raise SettingError("the consumers of contents overlap or leave gaps", field="offers")
        if len(self.consumer) and not 0 <= self.consumer.min() <= self.consumer.max() < (
            self.consumers
        ):
            raise SettingError("a content is for a consumer that does not exist", field="offers")
        if not (np.isfinite(self.read_every_s) & (self.read_every_s >= 0)).all():
            raise SettingError("a consumer never reads", field="offers")
        return self

    def _refuse(self, wrong: NDArray[np.bool_], why: str) -> None:
        if wrong.any():
            raise SettingError(f"record {int(np.argmax(wrong)) + 1}: {why}", field="offers")

    def save(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        for name in _ARRAYS:
            np.save(directory / f"{name}.npy", getattr(self, name))
        (directory / "offers.json").write_bytes(msgspec.json.encode(self.vocabulary))

    @classmethod
    def load(cls, directory: Path, *, mmap: bool = True) -> Offers:
        try:
            arrays: dict[str, Any] = {
                name: np.load(directory / f"{name}.npy", mmap_mode="r" if mmap else None)
                for name in _ARRAYS
            }
            about = msgspec.json.decode((directory / "offers.json").read_bytes(), type=Vocabulary)
        except (OSError, EOFError, ValueError, TypeError, msgspec.DecodeError) as problem:
            raise SettingError(f"{directory} holds no offers: {problem}", field="offers") from None
        return cls(**arrays, vocabulary=about)
