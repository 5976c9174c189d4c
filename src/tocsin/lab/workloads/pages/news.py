"""A news site and its edge servers: the workload of delivery 3, completed where it is not printed.

Pages are versions of stories. How often a story is requested follows Zipf's law, which of its
versions is drawn, and when has a density that falls with the age of the page. Where is drawn for
each request. Of the requests for a page at a server a part F_ij is led by notifications, and
subscriptions are made from them: SF = round(P·F/SQ) (delivery, equation 6). Costs do not come in:
there is one publisher.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from tocsin.errors import InvalidInput
from tocsin.lab.workloads.pages.operations import BROWSE, NOTIFIED, PUBLISH, SUPERSEDED, Operations

HOUR_S = 3600.0
WIDTHS = 2.0  # standard deviations from the middle of a Gaussian-like distribution to its ends


Ranked = Literal["stories", "pages"]


class NewsSettings(Struct, frozen=True, kw_only=True):
    servers: int = 100
    pages: int = 30_147
    stories: int = 6_000
    days: float = 7.0
    requests: int = 195_000
    zipf: float = 1.5  # R_i = 1/i^α
    ranked: Ranked = "stories"  # what has a rank i: a story, or each page by itself
    size_mean: float = 9.357  # lognormal: of the underlying normal, sizes in bytes
    size_deviation: float = 1.318
    age_exponent: float = 1.5  # requests of a page: density ∝ (age + offset)^−exponent
    age_offset_h: float = 1.0
    story_h: float = 48.0  # how long a story has new versions
    notified: float = 0.5  # F
    quality: float = 0.5  # SQ
    spread: float = 0.9  # of F_ij and SQ_ij: of the way from the middle to the nearer of 0 and 1
    supersede: bool = False  # tell servers of newer versions

    def __post_init__(self) -> None:
        for name in ("servers", "pages", "stories", "requests"):
            _refuse(getattr(self, name) >= 1, name, getattr(self, name), "1 or more")
        _refuse(self.stories <= self.pages, "stories", self.stories, "no more than pages")
        _refuse(self.servers * self.pages < 2**62, "servers", self.servers, "fewer")
        for name in ("days", "age_offset_h", "story_h"):
            value = getattr(self, name)
            _refuse(0 < value < 1e9, name, value, "more than 0")
        for name in ("zipf", "age_exponent", "size_deviation"):
            value = getattr(self, name)
            _refuse(0 <= value < 100, name, value, "0 or more")
        _refuse(-10 <= self.size_mean <= 30, "size_mean", self.size_mean, "from -10 to 30")
        _refuse(self.ranked in ("stories", "pages"), "ranked", self.ranked, "stories or pages")
        _refuse(0 <= self.notified <= 1, "notified", self.notified, "from 0 to 1")
        _refuse(0 < self.quality <= 1, "quality", self.quality, "above 0, at most 1")
        _refuse(0 <= self.spread < 1, "spread", self.spread, "from 0, below 1")

    @property
    def duration_s(self) -> float:
        return self.days * 24 * HOUR_S


@dataclass(frozen=True, slots=True)
class News:
    """Operations of all servers, one after the other, each in the order of time."""

    kind: NDArray[np.uint8]
    page: NDArray[np.int32]  # numbered by server
    size_bytes: NDArray[np.int64]
    subscriptions: NDArray[np.int32]
    at_s: NDArray[np.float64]
    begin: NDArray[np.int64]  # where the operations of a server begin; and an end
    pages: NDArray[np.int64]  # how many different ones a server sees

    @property
    def servers(self) -> int:
        return len(self.pages)

    @property
    def requests(self) -> int:
        return int(np.isin(self.kind, (BROWSE, NOTIFIED)).sum())

    def save(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        for field in fields(self):
            np.save(directory / f"{field.name}.npy", getattr(self, field.name))

    @classmethod
    def load(cls, directory: Path) -> News:
        try:
            arrays = {
                field.name: np.load(directory / f"{field.name}.npy", mmap_mode="c")
                for field in fields(cls)
            }
        except (OSError, EOFError, ValueError) as problem:
            raise InvalidInput(f"{directory} holds no workload: {problem}") from None
        return cls(**arrays)

    def server(self, number: int) -> Operations:
        part = slice(int(self.begin[number]), int(self.begin[number + 1]))
        return Operations(
            self.kind[part],
            self.page[part],
            self.size_bytes[part],
            self.subscriptions[part],
            int(self.pages[number]),
        )

    def by_server(self) -> Iterator[Operations]:
        """Server by server."""
        return (self.server(number) for number in range(self.servers))


def news(settings: NewsSettings, seed: int) -> News:
    random = np.random.default_rng(seed)
    story, published_s, replaced_s = publications(settings, random)
    size_bytes = sizes(settings, random)
    page = popular(settings, story, random)
    request_s = published_s[page] + ages(settings, settings.duration_s - published_s[page], random)
    server = random.integers(0, settings.servers, len(page))
    # A pair is a page at a server where somebody requests it.
    pair, whose, requests = np.unique(
        server * settings.pages + page, return_inverse=True, return_counts=True
    )
    expected = requests * around(settings.notified, settings.spread, len(pair), random)
    quality = around(settings.quality, settings.spread, len(pair), random)
    subscriptions = np.rint(expected / quality).astype(np.int32)
    kind = np.where(_tagged(whose, requests, expected, random), NOTIFIED, BROWSE)
    pair_server, pair_page = np.divmod(pair, settings.pages)
    parts: list[tuple[Any, ...]] = [
        (np.full(len(pair), PUBLISH), np.arange(len(pair)), published_s[pair_page], subscriptions),
        (kind, whose, request_s, np.zeros(len(page), np.int32)),
    ]
    if settings.supersede:
        old = np.flatnonzero(np.isfinite(replaced_s[pair_page]))
        gone_s = replaced_s[pair_page][old]
        parts.append((np.full(len(old), SUPERSEDED), old, gone_s, np.zeros(len(old), np.int32)))
    kinds, pairs, at_s, matched = (np.concatenate(column) for column in zip(*parts, strict=True))
    order = np.lexsort((kinds != PUBLISH, at_s, pair_server[pairs]))
    pairs = pairs[order]
    pages = np.bincount(pair_server, minlength=settings.servers)
    before = np.cumsum(pages) - pages
    return News(
        kind=kinds[order].astype(np.uint8),
        page=(pairs - before[pair_server[pairs]]).astype(np.int32),
        size_bytes=size_bytes[pair_page[pairs]],
        subscriptions=matched[order].astype(np.int32),
        at_s=at_s[order],
        begin=np.searchsorted(pair_server[pairs], np.arange(settings.servers + 1)),
        pages=pages,
    )


def publications(
    settings: NewsSettings, random: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """The story of each page; when it is published, and when a newer version (never: infinite)."""
    story = np.concatenate(
        (
            np.arange(settings.stories),
            random.integers(0, settings.stories, settings.pages - settings.stories),
        )
    )
    begins_s = random.uniform(0, settings.duration_s, settings.stories)
    ends_s = np.minimum(settings.duration_s, begins_s + settings.story_h * HOUR_S)
    at_s = begins_s[story]
    later = slice(settings.stories, None)
    at_s[later] = random.uniform(begins_s[story[later]], ends_s[story[later]])
    order = np.lexsort((at_s, story))
    replaced_s = np.full(settings.pages, np.inf)
    same = story[order[1:]] == story[order[:-1]]
    replaced_s[order[:-1][same]] = at_s[order[1:][same]]
    return story, at_s, replaced_s


def sizes(settings: NewsSettings, random: np.random.Generator) -> NDArray[np.int64]:
    drawn = random.lognormal(settings.size_mean, settings.size_deviation, settings.pages)
    return np.maximum(1, np.rint(drawn)).astype(np.int64)


def popular(
    settings: NewsSettings, story: NDArray[np.int64], random: np.random.Generator
) -> NDArray[np.int64]:
    """The page of each request; who has which rank is drawn, too."""
    ranks = settings.pages if settings.ranked == "pages" else settings.stories
    weight = 1 / np.arange(1, ranks + 1) ** settings.zipf
    chance = np.cumsum(weight / weight.sum())
    rank = np.searchsorted(chance, random.random(settings.requests), side="right")
    requested: NDArray[np.int64] = random.permutation(ranks)[np.minimum(rank, ranks - 1)]
    if settings.ranked == "pages":
        return requested
    versions = np.bincount(story, minlength=settings.stories)
    by_story = np.argsort(story, kind="stable")
    begin = np.cumsum(versions) - versions
    pages: NDArray[np.int64] = by_story[begin[requested] + random.integers(0, versions[requested])]
    return pages


def ages(
    settings: NewsSettings, most_s: NDArray[np.float64], random: np.random.Generator
) -> NDArray[np.float64]:
    """Ages up to the end of the simulated days, by inversion of their distribution."""
    offset = settings.age_offset_h * HOUR_S
    drawn = random.random(len(most_s))
    power = 1 - settings.age_exponent
    if abs(power) < 1e-9:
        ages_s = offset * (1 + most_s / offset) ** drawn - offset
    else:
        low, high = offset**power, (offset + most_s) ** power
        ages_s = (low + drawn * (high - low)) ** (1 / power) - offset
    return np.clip(ages_s, 0, most_s)


def around(
    middle: float, spread: float, count: int, random: np.random.Generator
) -> NDArray[np.float64]:
    """Gaussian-like, cut off at equal distances from the middle, so that this is the mean; at 0
    and 1 nothing is left to spread: F = 1 is exact (delivery 3.2)."""
    half = spread * min(middle, 1 - middle)
    if half == 0:
        return np.full(count, middle)
    drawn = random.standard_normal(count)
    outside = np.flatnonzero(np.abs(drawn) > WIDTHS)
    while len(outside):
        drawn[outside] = random.standard_normal(len(outside))
        outside = outside[np.abs(drawn[outside]) > WIDTHS]
    return middle + half * drawn / WIDTHS


def _tagged(
    whose: NDArray[np.int64],
    requests: NDArray[np.int64],
    expected: NDArray[np.float64],
    random: np.random.Generator,
) -> NDArray[np.bool_]:
    """P·F requests of each pair, drawn at random (delivery 3.3). Broken numbers are rounded up or
    down at random: most pairs have one or two requests, and F would else be lost."""
    chosen = np.floor(expected + random.random(len(expected))).astype(np.int64)
    order = np.lexsort((random.random(len(whose)), whose))
    rank = np.empty(len(whose), np.int64)
    rank[order] = np.arange(len(whose)) - np.repeat(np.cumsum(requests) - requests, requests)
    tagged: NDArray[np.bool_] = rank < np.minimum(chosen, requests)[whose]
    return tagged


def _refuse(fits: bool, name: str, value: Any, usage: str) -> None:
    if not fits:
        raise InvalidInput(f"{name} is {value!r}", field=name, hint=usage)
