"""How far feeds are: written all together, each topic and dataset by itself."""

from __future__ import annotations

from tocsin.storage.store.feeds import Place
from tocsin.storage.store.store import Store

FAR = 2**62


def test_a_feed_that_never_ran_has_no_place(store: Store) -> None:
    assert store.feeds.places("reports", "t") == {}
    store.feeds.put("reports", "t", {})
    assert store.feeds.places("reports", "t") == {}


def test_places_come_back_and_the_others_stay(store: Store) -> None:
    store.feeds.put("reports", "t", {0: Place(0, 0), 7: Place(5, FAR)})
    store.feeds.put("reports", "t", {0: Place(0, 3), 1: Place(1, 2)})
    assert store.feeds.places("reports", "t") == {0: (0, 3), 1: (1, 2), 7: (5, FAR)}


def test_topics_and_datasets_do_not_see_each_other(store: Store) -> None:
    store.feeds.put("reports", "t", {0: Place(1, 1)})
    store.feeds.put("reports", "T", {0: Place(2, 2)})
    store.feeds.put("users", "t", {0: Place(3, 3)})
    store.feeds.drop("reports")
    assert store.feeds.places("reports", "t") == store.feeds.places("reports", "T") == {}
    assert store.feeds.places("users", "t") == {0: (3, 3)}
    store.feeds.drop("nobody")
