"""The paper's own setting: three consumers, two of which want the same, and the records of a file.

The authors' files hold the two contents that somebody subscribed to, each half of the time; their
report speaks of one in which 70 % of the records are shared. They are published as fast as a
producer can, and every consumer reads all the time. Every figure is a setting.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tocsin.errors import InvalidInput, SettingError
from tocsin.lab.workloads.offers.files import Recorded, digest_of, read_records
from tocsin.lab.workloads.offers.offers import Offers, Published, Subscription
from tocsin.lab.workloads.offers.vocabulary import Vocabulary


class PaperSettings(Struct, frozen=True, kw_only=True):
    records: int = 1_000
    shared: float = 0.5  # the part of the records that is of the first consumer's content
    subscriptions: tuple[str, ...] = ("10001", "00110", "10001")  # one a consumer (kafka, Figure 4)
    restaurants: int = 2
    foods: int = 4
    discounts: int = 3
    producers: int = 2
    records_per_s: float = 50_000.0  # published: a Poisson process
    size_bytes: int = 100  # of each record
    file: str = ""  # take records from such a file instead of making them
    digest: str = ""  # of the file

    def __post_init__(self) -> None:
        for name in ("records", "producers", "records_per_s", "size_bytes"):
            if not 0 < getattr(self, name) < 2**31:
                raise SettingError(f"{name} is {getattr(self, name)}", field=name, hint="1 or more")
        if not 0 <= self.shared <= 1:
            raise SettingError(f"shared is {self.shared}", field="shared", hint="0 to 1")
        if not self.subscriptions:
            raise SettingError("nobody subscribed", field="subscriptions", hint="such as 10001")
        for _, wanted in self.wanted():
            if min(wanted) < 0 and not self.file:
                raise SettingError(
                    "a subscription leaves an attribute open: what would be published?",
                    field="subscriptions",
                    hint="name a file of records, or make a crowd's",
                )

    @property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary(self.restaurants, self.foods, self.discounts)

    def wanted(self) -> list[Subscription]:
        """One subscription a consumer."""
        try:
            return [
                (consumer, self.vocabulary.values(bitmap, may_be_open=True))
                for consumer, bitmap in enumerate(self.subscriptions)
            ]
        except ValueError as error:
            raise SettingError(str(error), field="subscriptions") from None


def paper_offers(settings: PaperSettings, seed: int) -> Offers:
    """Producers, contents and times have random streams of their own."""
    streams = [np.random.default_rng((seed, part)) for part in range(3)]
    if settings.file:
        file = Path(settings.file)
        recorded = read_records(file, settings.vocabulary)
        if settings.digest and digest_of(file) != settings.digest:
            raise InvalidInput(f"{file} has changed meanwhile", field="file", hint="run it again")
        if len(recorded) != settings.records:
            raise InvalidInput(
                f"{settings.file} has {len(recorded)} records, not {settings.records}",
                field="records",
            )
    else:
        recorded = Recorded(
            streams[0].integers(0, settings.producers, settings.records, np.int32),
            _contents(settings, streams[1]),
        )
    return offers_of(settings, recorded, settings.wanted(), streams[2])


def offers_of(
    settings: PaperSettings,
    recorded: Recorded,
    subscriptions: list[Subscription],
    random: np.random.Generator,
) -> Offers:
    """Recorded offers, published at the settings' rate and size to these subscriptions."""
    consumers = 1 + max(consumer for consumer, _ in subscriptions)
    return Offers.of(
        settings.vocabulary,
        Published(
            at=np.cumsum(random.exponential(1 / settings.records_per_s, len(recorded))),
            producer=recorded.producer,
            values=recorded.values,
            size_bytes=np.full(len(recorded), settings.size_bytes, np.int64),
        ),
        subscriptions,
        read_every_s=np.zeros(consumers),
        read_at_s=np.zeros(consumers),
    )


def _contents(settings: PaperSettings, random: np.random.Generator) -> NDArray[np.int32]:
    """What is subscribed to, and nothing else: the first content so often, the others alike."""
    contents = np.array(list(dict.fromkeys(wanted for _, wanted in settings.wanted())), np.int32)
    if len(contents) == 1:
        return np.repeat(contents, settings.records, axis=0)
    others = random.integers(1, len(contents), settings.records)
    chosen = np.where(random.random(settings.records) < settings.shared, 0, others)
    return contents[chosen]
