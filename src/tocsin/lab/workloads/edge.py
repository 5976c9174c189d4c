"""The simulated day of BAD V, Table II: every number of it a setting.

The paper leaves open how subscribers join ("a random joining process"). Two variants are offered:
`always` keeps every subscriber at its number of subscriptions, replacing one that ends at once;
`spread` lets each make that number in the whole run, beginning at random times.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tocsin.errors import SettingError
from tocsin.lab.workloads.workload import OFFLINE, ONLINE, PUBLISH, SUBSCRIBE, UNSUBSCRIBE, Workload

Events = tuple[NDArray[np.float64], NDArray[np.int8], NDArray[np.int32], NDArray[np.int32]]


class EdgeSettings(Struct, frozen=True, kw_only=True):
    subscribers: int = 10_000
    subscriptions_each: int = 10
    backends: int = 1_000  # "unique subscriptions"
    hours: float = 6.0
    subscription_minutes: tuple[float, float] = (1.0, 2.0)  # lognormal, of the underlying normal
    size_bytes: tuple[int, int] = (1_000, 500_000)  # uniform
    interval_s: tuple[float, float] = (10.0, 60.0)  # mean time between results: uniform
    on_minutes: tuple[float, float] = (1.753, 1.425)  # lognormal
    off_minutes: tuple[float, float] = (2.415, 1.11)  # lognormal
    joining: Literal["always", "spread"] = "always"
    skew: float = 0.0  # Zipf's exponent of the interest in backend subscriptions; 0: all alike

    def __post_init__(self) -> None:
        for name in ("subscribers", "subscriptions_each", "backends", "hours"):
            value = getattr(self, name)
            _refuse(0 < value < float("inf"), name, value, "more than 0")
        for name in ("size_bytes", "interval_s"):
            low, high = getattr(self, name)
            _refuse(0 < low <= high < float("inf"), name, (low, high), "0 < lowest <= highest")
        _refuse(self.size_bytes[1] < 2**31, "size_bytes", self.size_bytes, "less than 2 GB")
        for name in ("subscription_minutes", "on_minutes", "off_minutes"):
            mean, deviation = getattr(self, name)
            _refuse(-20 < mean < 20 and 0 <= deviation < 10, name, (mean, deviation), "mu, sigma")
        _refuse(0 <= self.skew <= 10, "skew", self.skew, "0 to 10")
        _refuse(self.joining in ("always", "spread"), "joining", self.joining, "always or spread")


def edge_workload(settings: EdgeSettings, seed: int) -> Workload:
    """Each kind of event has a random stream of its own, so that one setting moves one part."""
    streams = [np.random.default_rng((seed, part)) for part in range(3)]
    duration_s = settings.hours * 3600
    parts = [
        *_subscriptions(settings, streams[0], duration_s),
        *_presence(settings, streams[1], duration_s),
        _publications(settings, streams[2], duration_s),
    ]
    at, kind, subject, value = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.argsort(at, kind="stable")  # an end before the beginning that replaces it
    owners = np.arange(settings.subscribers * settings.subscriptions_each) // (
        settings.subscriptions_each
    )
    return Workload(
        at[order],
        kind[order],
        subject[order],
        value[order],
        owners.astype(np.int32),
        settings.backends,
        settings.subscribers,
        duration_s,
    )


def _publications(settings: EdgeSettings, random: np.random.Generator, duration_s: float) -> Events:
    """A Poisson process for each backend subscription."""
    rates = 1 / random.uniform(*settings.interval_s, settings.backends)
    counts = random.poisson(rates * duration_s)
    backends = np.repeat(np.arange(settings.backends), counts)
    low, high = settings.size_bytes
    at = random.uniform(0, duration_s, len(backends))
    return _events(at, PUBLISH, backends, random.integers(low, high, len(at), endpoint=True))


def _presence(
    settings: EdgeSettings, random: np.random.Generator, duration_s: float
) -> list[Events]:
    """Everybody alternates between on and off, and has done so for long when the run begins:
    the right part of them is on, each somewhere in the middle of a period. Such a period is longer
    than others; a lognormal one weighted by its length is lognormal with mu + sigma^2."""
    mean_on, mean_off = (
        np.exp(mean + deviation**2 / 2)
        for mean, deviation in (settings.on_minutes, settings.off_minutes)
    )
    who = np.arange(settings.subscribers)
    on = random.random(len(who)) < mean_on / (mean_on + mean_off)
    parts = [_events(np.zeros(int(on.sum())), ONLINE, who[on])]
    at = np.zeros(len(who))
    first = True
    while len(who):
        lasts_s = 60 * np.where(
            on,
            _lognormal(random, settings.on_minutes, len(who), by_length=first),
            _lognormal(random, settings.off_minutes, len(who), by_length=first),
        )
        at = at + (lasts_s * random.random(len(who)) if first else lasts_s)
        first = False
        stays = at < duration_s
        at, who, on = at[stays], who[stays], ~on[stays]
        parts += [_events(at[on], ONLINE, who[on]), _events(at[~on], OFFLINE, who[~on])]
    return parts


def _lognormal(
    random: np.random.Generator, shape: tuple[float, float], count: int, *, by_length: bool
) -> NDArray[np.float64]:
    mean, deviation = shape
    return random.lognormal(mean + deviation**2 if by_length else mean, deviation, count)


def _subscriptions(
    settings: EdgeSettings, random: np.random.Generator, duration_s: float
) -> list[Events]:
    weights = 1 / np.arange(1, settings.backends + 1) ** settings.skew
    weights = np.cumsum(weights / weights.sum())
    ranked = random.permutation(settings.backends)
    slots = np.arange(settings.subscribers * settings.subscriptions_each)
    spread = settings.joining == "spread"
    at = random.uniform(0, duration_s, len(slots)) if spread else np.zeros(len(slots))
    parts = []
    while len(slots):
        chosen = np.searchsorted(weights, random.random(len(slots)))
        backends = ranked[np.minimum(chosen, settings.backends - 1)]
        parts.append(_events(at, SUBSCRIBE, slots, backends))
        at = at + random.lognormal(*settings.subscription_minutes, len(slots)) * 60
        ends = at < duration_s
        at, slots = at[ends], slots[ends]
        parts.append(_events(at, UNSUBSCRIBE, slots))
        if spread:
            break
    return parts


def _events(
    at: NDArray[np.float64],
    kind: int,
    subject: NDArray[np.int64],
    value: NDArray[np.int64] | None = None,
) -> Events:
    values = np.zeros(len(at), np.int32) if value is None else value.astype(np.int32)
    return at, np.full(len(at), kind, np.int8), subject.astype(np.int32), values


def _refuse(holds: bool, name: str, value: object, hint: str) -> None:
    if not holds:
        raise SettingError(f"{name} is {value}", field=name, hint=hint)
