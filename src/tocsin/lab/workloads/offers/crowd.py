"""A crowd: thousands of consumers with Zipfian interest in thousands of contents.

A few restaurants and foods are wanted by many and most by few; consumers leave attributes open.
So the number of consumers a record is for has a long tail, as in any real system. In a campaign,
one restaurant that many want publishes record after record. Consumers read now and then.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tocsin.errors import SettingError
from tocsin.lab.workloads.offers.offers import Offers, Published, Subscription
from tocsin.lab.workloads.offers.vocabulary import OPEN, Vocabulary

SMALLEST_BYTES, LARGEST_BYTES = 64, 1_000_000  # of a record


class CrowdSettings(Struct, frozen=True, kw_only=True):
    records: int = 20_000
    records_per_s: float = 50.0
    consumers: int = 2_000
    restaurants: int = 200
    foods: int = 20
    discounts: int = 5
    interest: float = 1.0  # Zipf's exponent of what consumers want
    popularity: float = 0.6  # Zipf's exponent of what is published, in an order of its own
    open_restaurant: float = 0.05  # the part of consumers that leaves the attribute open
    open_food: float = 0.4
    open_discount: float = 0.7
    size_bytes: tuple[float, float] = (6.5, 1.0)  # lognormal, of the underlying normal
    campaign_every: int = 0  # records between the beginnings of campaigns; 0: there are none
    campaign_records: int = 200
    read_every_s: tuple[float, float] = (20.0, 100.0)  # uniform over consumers

    def __post_init__(self) -> None:
        for name in ("records", "records_per_s", "consumers", "restaurants", "foods", "discounts"):
            _refuse(0 < getattr(self, name) < 2**31, name, getattr(self, name), "1 or more")
        for name in ("interest", "popularity"):
            _refuse(0 <= getattr(self, name) <= 10, name, getattr(self, name), "0 to 10")
        for name in ("open_restaurant", "open_food", "open_discount"):
            _refuse(0 <= getattr(self, name) <= 1, name, getattr(self, name), "0 to 1")
        mean, deviation = self.size_bytes
        _refuse(-20 < mean < 20 and 0 <= deviation < 10, "size_bytes", self.size_bytes, "mu, sigma")
        for name in ("campaign_every", "campaign_records"):
            _refuse(getattr(self, name) >= 0, name, getattr(self, name), "0 or more")
        low, high = self.read_every_s
        _refuse(0 <= low <= high < 1e9, "read_every_s", self.read_every_s, "lowest, highest")

    @property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary(self.restaurants, self.foods, self.discounts)


def crowd_offers(settings: CrowdSettings, seed: int) -> Offers:
    """Each part has a random stream of its own, so that one setting moves one part."""
    streams = [np.random.default_rng((seed, part)) for part in range(4)]
    rank_of_interest = streams[0].permutation(settings.restaurants)
    values = _published(settings, rank_of_interest, streams[1])
    low, high = settings.read_every_s
    read_every_s = streams[2].uniform(low, high, settings.consumers)
    sizes = streams[3].lognormal(*settings.size_bytes, settings.records)
    return Offers.of(
        settings.vocabulary,
        Published(
            at=np.cumsum(streams[3].exponential(1 / settings.records_per_s, settings.records)),
            producer=values[:, 0].copy(),
            values=values,
            size_bytes=np.clip(sizes, SMALLEST_BYTES, LARGEST_BYTES).astype(np.int64),
        ),
        crowd_subscriptions(settings, seed),
        read_every_s=read_every_s,
        read_at_s=streams[2].random(settings.consumers) * read_every_s,
    )


def crowd_subscriptions(settings: CrowdSettings, seed: int) -> list[Subscription]:
    """One each. Who would leave everything open wants one restaurant after all."""
    ranks, random = (
        np.random.default_rng((seed, 0)).permutation(settings.restaurants),
        np.random.default_rng((seed, 4)),
    )
    count = settings.consumers
    restaurant = ranks[_zipf(random, settings.restaurants, settings.interest, count)]
    food = _zipf(random, settings.foods, settings.interest, count)
    discount = random.integers(0, settings.discounts, count)
    is_open = random.random((3, count)) < np.array(
        [[settings.open_restaurant], [settings.open_food], [settings.open_discount]]
    )
    is_open[0] &= ~is_open.all(axis=0)
    wanted = np.where(is_open, OPEN, np.stack([restaurant, food, discount])).T
    return [
        (consumer, (values[0], values[1], values[2]))
        for consumer, values in enumerate(wanted.tolist())
    ]


def _published(
    settings: CrowdSettings, ranks: NDArray[np.int64], random: np.random.Generator
) -> NDArray[np.int32]:
    count = settings.records
    own_order = random.permutation(settings.restaurants)
    restaurant = own_order[_zipf(random, settings.restaurants, settings.popularity, count)]
    if settings.campaign_every:
        number = np.arange(count) // settings.campaign_every
        favourites = ranks[_zipf(random, settings.restaurants, settings.interest, number[-1] + 1)]
        running = np.arange(count) % settings.campaign_every < settings.campaign_records
        restaurant = np.where(running, favourites[number], restaurant)
    food = _zipf(random, settings.foods, settings.popularity, count)
    discount = random.integers(0, settings.discounts, count)
    return np.stack([restaurant, food, discount], axis=1).astype(np.int32)


def _zipf(
    random: np.random.Generator, values: int, exponent: float, count: int
) -> NDArray[np.int64]:
    """Ranks from 0, drawn with weights 1/(rank + 1)^exponent."""
    ends = np.cumsum(1 / np.arange(1, values + 1) ** exponent)
    drawn = np.searchsorted(ends, random.random(count) * ends[-1], side="right")
    ranks: NDArray[np.int64] = np.minimum(drawn, values - 1)
    return ranks


def _refuse(holds: bool, name: str, value: object, hint: str) -> None:
    if not holds:
        raise SettingError(f"{name} is {value}", field=name, hint=hint)
