"""The delivery paper's workload has the distributions it says it has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tocsin.errors import InvalidInput
from tocsin.lab.workloads.pages.news import (
    HOUR_S,
    News,
    NewsSettings,
    Ranked,
    ages,
    around,
    news,
    popular,
    publications,
    sizes,
)
from tocsin.lab.workloads.pages.operations import BROWSE, NOTIFIED, PUBLISH, SUPERSEDED


def random() -> np.random.Generator:
    return np.random.default_rng(5)


@pytest.fixture(scope="module")
def paper() -> News:
    return news(NewsSettings(notified=0.5, quality=0.5), 1)


def test_the_papers_numbers(paper: News) -> None:
    settings = NewsSettings()
    assert (settings.servers, settings.pages, settings.requests) == (100, 30_147, 195_000)
    assert paper.servers == 100
    assert np.isin(paper.kind, (BROWSE, NOTIFIED)).sum() == 195_000
    assert sum(paper.server(number).requests for number in range(100)) == 195_000
    assert 0 <= paper.at_s.min() < paper.at_s.max() <= 7 * 24 * HOUR_S


@pytest.mark.parametrize("ranked", ["stories", "pages"])
def test_popularity_follows_zipf(ranked: Ranked) -> None:
    settings = NewsSettings(pages=5000, stories=1000, requests=400_000, ranked=ranked)
    story = publications(settings, random())[0]
    page = popular(settings, story, random())
    count = np.bincount(page if ranked == "pages" else story[page])
    count = np.sort(count)[::-1]
    expected = 1 / np.arange(1, len(count) + 1) ** 1.5
    expected *= 400_000 / expected.sum()
    assert count[:30] == pytest.approx(expected[:30], rel=0.12)
    assert count[0] / count[7] == pytest.approx(8**1.5, rel=0.05)


def test_sizes_are_lognormal() -> None:
    drawn = np.log(sizes(NewsSettings(pages=50_000), random()))
    assert drawn.mean() == pytest.approx(9.357, abs=0.02)
    assert drawn.std() == pytest.approx(1.318, abs=0.02)


@pytest.mark.parametrize("exponent", [1.5, 1.0, 3.0, 0.0])
def test_ages_have_the_density_that_is_set(exponent: float) -> None:
    week = 7 * 24 * HOUR_S
    drawn = ages(NewsSettings(age_exponent=exponent), np.full(100_000, week), random())
    edge = np.linspace(0, week, 2_000_001)
    density = (edge + HOUR_S) ** -exponent
    share = np.cumsum(density) / density.sum()
    for hours in (0.5, 1, 3, 24, 100):
        found = float((drawn <= hours * HOUR_S).mean())
        expected = float(share[np.searchsorted(edge, hours * HOUR_S)])
        assert found == pytest.approx(expected, abs=0.006)
    assert drawn.min() >= 0
    assert drawn.max() <= week


def test_stories_have_versions_one_after_the_other() -> None:
    settings = NewsSettings(pages=1000, stories=100)
    story, at_s, replaced_s = publications(settings, random())
    assert len(np.unique(story)) == 100
    assert len(at_s) == 1000
    assert np.isinf(replaced_s).sum() == 100  # the newest version of each
    assert (replaced_s >= at_s).all()


@pytest.mark.parametrize("middle", [0.1, 0.25, 0.5, 0.75, 1.0, 0.0])
def test_shares_scatter_evenly_around_their_middle(middle: float) -> None:
    drawn = around(middle, 0.9, 50_000, random())
    assert drawn.mean() == pytest.approx(middle, abs=0.005)
    assert drawn.min() >= 0
    assert drawn.max() <= 1
    assert np.std(drawn) > 0.01 or middle in (0.0, 1.0)


def pairs(made: News) -> dict[str, Any]:
    """Subscriptions, requests and notified ones of each page at each server."""
    page = made.page + np.repeat(np.cumsum(made.pages) - made.pages, np.diff(made.begin))
    count = int(made.pages.sum())
    published = made.kind == PUBLISH
    subscriptions = np.zeros(count, np.int64)
    subscriptions[page[published]] = made.subscriptions[published]
    return {
        "subscriptions": subscriptions,
        "notified": np.bincount(page[made.kind == NOTIFIED], minlength=count),
        "asked": np.bincount(page[np.isin(made.kind, (BROWSE, NOTIFIED))], minlength=count),
    }


def test_with_f_1_every_request_is_led_by_a_notification_and_sf_is_exact() -> None:
    for quality, factor in ((1.0, 1), (0.5, None)):
        found = pairs(news(NewsSettings(notified=1.0, quality=quality, spread=0.0), 3))
        assert (found["notified"] == found["asked"]).all()
        assert (found["subscriptions"] == np.rint(found["asked"] / quality)).all()
        assert factor is None or (found["subscriptions"] == found["asked"]).all()
    spread = pairs(news(NewsSettings(notified=1.0, quality=1.0), 3))
    assert (spread["notified"] == spread["asked"]).all()
    assert (spread["subscriptions"] == spread["asked"]).all()


@pytest.mark.parametrize(("notified", "quality"), [(0.25, 0.1), (0.5, 0.75), (0.75, 1.0)])
def test_subscriptions_are_rounded_from_equation_6(notified: float, quality: float) -> None:
    made = news(NewsSettings(notified=notified, quality=quality, spread=0.0, requests=50_000), 3)
    found = pairs(made)
    expected = np.rint(found["asked"] * notified / quality)
    assert (found["subscriptions"] == expected).all()
    share = found["notified"].sum() / found["asked"].sum()
    assert share == pytest.approx(notified, abs=0.01)


def test_a_page_is_published_before_it_is_requested_and_once_at_a_server(paper: News) -> None:
    for number in range(0, 100, 20):
        one = paper.server(number)
        published = one.kind == PUBLISH
        assert published.sum() == one.pages
        first = np.full(one.pages, len(one))
        np.minimum.at(first, one.page, np.arange(len(one)))
        assert published[first].all()
        assert (np.bincount(one.page, minlength=one.pages) > 0).all()


def test_superseded_versions_are_told_if_asked_for() -> None:
    made = news(NewsSettings(requests=20_000, supersede=True), 1)
    plain = news(NewsSettings(requests=20_000), 1)
    told = made.kind == SUPERSEDED
    assert told.sum() > 100
    assert (made.kind[~told] == plain.kind).all()
    assert (made.page[~told] == plain.page).all()


def test_a_seed_is_a_workload() -> None:
    small = NewsSettings(requests=5_000)
    assert (news(small, 1).page == news(small, 1).page).all()
    assert len(news(small, 1).page) != len(news(small, 2).page)


@pytest.mark.parametrize(
    ("field", "value"),
    [("servers", 0), ("stories", 99_999), ("quality", 0.0), ("notified", 1.5), ("spread", 1.0)],
)
def test_settings_that_cannot_be_are_refused(field: str, value: float) -> None:
    with pytest.raises(InvalidInput) as refused:
        NewsSettings(**{field: value})  # type: ignore[arg-type]
    assert refused.value.field == field
