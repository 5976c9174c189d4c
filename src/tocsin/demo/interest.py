"""Who cares about what: Zipfian interest in types, places and users, as the BAD prototype had it.

A wish is a channel with its arguments: two people with the same wish share a backend subscription.
How steep the Zipf law is follows from how many distinct wishes a crowd shall have. Pure: the random
source is passed in.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from random import Random
from typing import TypeVar

from msgspec import Struct

from tocsin.demo import city
from tocsin.model import Arguments

Thing = TypeVar("Thing")

FRONTEND_PER_SUBSCRIBER = 8.75  # 3,500 frontend subscriptions of 400 subscribers
BACKEND_PER_SUBSCRIBER = 2.0  # 800 backend subscriptions of 400 subscribers

SHARES = (0.10, 0.16, 0.18, 0.12, 0.16, 0.16, 0.12)
"""How wishes spread over the seven channels. The paper does not say; nearly evenly, with fewer for
the plain type, whose every result goes to a large part of the town."""


class Wish(Struct, frozen=True):
    channel: str
    type: str | None = None
    place: city.Place | None = None
    user: str | None = None

    @property
    def arguments(self) -> Arguments:
        arguments: Arguments = {} if self.type is None else {"type": self.type}
        if self.place is not None:
            arguments |= city.place_arguments(self.place)
        if self.user is not None:
            arguments["user"] = self.user
        return arguments


def zipf(count: int, exponent: float) -> list[float]:
    """The probability of each of `count` ranks."""
    weights = [rank**-exponent for rank in range(1, count + 1)]
    whole = math.fsum(weights)
    return [weight / whole for weight in weights]


class Crowd:
    """The interest of `subscribers` people: draws wishes, the popular ones more often."""

    def __init__(self, users: Sequence[str], random: Random) -> None:
        self._random = random
        self.wishes = round(FRONTEND_PER_SUBSCRIBER * len(users))
        self.exponent = _exponent(len(users), self.wishes)
        # Who and what is popular differs from seed to seed; only the law is fixed.
        self.types = _shuffled(city.TYPES, random)
        self.places = _shuffled(city.PLACES, random)
        self.users = _shuffled(users, random)
        self._cumulated = {
            count: list(itertools.accumulate(zipf(count, self.exponent)))
            for count in (len(self.types), len(self.places), len(self.users))
        }

    def wish(self) -> Wish:
        [channel] = self._random.choices(city.CHANNELS, SHARES)
        asks = channel.names
        return Wish(
            channel.name,
            type=self.type() if "type" in asks else None,
            place=self.place() if "lat" in asks else None,
            user=self._draw(self.users) if "user" in asks else None,
        )

    def type(self) -> str:
        return self._draw(self.types)

    def place(self) -> city.Place:
        return self._draw(self.places)

    def holdings(self) -> list[list[Wish]]:
        """The wishes that each subscriber starts with: distinct per person, `wishes` in all."""
        amounts = [1] * len(self.users)
        for person in self._random.choices(range(len(amounts)), k=self.wishes - len(amounts)):
            amounts[person] += 1
        return [self.fresh(amount) for amount in amounts]

    def fresh(self, amount: int, held: Sequence[Wish] = ()) -> list[Wish]:
        """So many further wishes of one person, none of them held already."""
        known = dict.fromkeys(held)
        while len(known) < len(held) + amount:
            known[self.wish()] = None
        return list(known)[len(held) :]

    def _draw(self, ranked: Sequence[Thing]) -> Thing:
        [drawn] = self._random.choices(ranked, cum_weights=self._cumulated[len(ranked)])
        return drawn


def expected_distinct(users: int, wishes: int, exponent: float) -> float:
    """How many distinct wishes `wishes` draws have on average."""
    types = zipf(len(city.TYPES), exponent)
    spots = {"lat": zipf(len(city.PLACES), exponent), "user": zipf(users, exponent)}
    total = 0.0
    for channel, share in zip(city.CHANNELS, SHARES, strict=True):
        spot = next((spots[name] for name in channel.names if name in spots), [1.0])
        kind = types if "type" in channel.names else [1.0]
        draws = wishes * share
        total += math.fsum(-math.expm1(-draws * p * q) for p in kind for q in spot)
    return total


def _exponent(users: int, wishes: int) -> float:
    """The Zipf exponent with which the crowd has its share of distinct wishes (bisection)."""
    target = BACKEND_PER_SUBSCRIBER * users
    flat, steep = 0.0, 4.0
    for _ in range(30):
        middle = (flat + steep) / 2
        if expected_distinct(users, wishes, middle) > target:
            flat = middle
        else:
            steep = middle
    return (flat + steep) / 2


def _shuffled(things: Sequence[Thing], random: Random) -> list[Thing]:
    return random.sample(things, len(things))
