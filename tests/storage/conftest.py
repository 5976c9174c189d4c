"""Fixtures of the store's contract suite. To add a database, add one line to STORES."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tocsin.model import Channel, Dataset, Parameter
from tocsin.storage.store import Store

STORES: dict[str, Callable[[Path], str]] = {
    "sqlite": lambda directory: f"sqlite:///{directory}/store.db",
}


class Clock:
    """A clock that stands still until a test moves it."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=STORES)
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return STORES[request.param](tmp_path)


@pytest.fixture
def store(url: str, clock: Clock) -> Iterator[Store]:
    with Store.open(url, clock=clock) as opened:
        yield opened


@pytest.fixture
def city(store: Store) -> Store:
    """A store with dataset `reports`, channels `by_type` and `alerts`, brokers `north`, `south`."""
    furnish(store)
    return store


def furnish(store: Store) -> None:
    store.catalog.create_dataset(Dataset("reports", ()))
    for name in ("by_type", "alerts"):
        store.catalog.create_channel(
            Channel(
                name=name,
                kind="continuous",
                parameters=(Parameter("type", "STRING"),),
                query="SELECT * FROM NEW reports WHERE type = :type",
                reads=("reports",),
                new=("reports",),
            )
        )
    store.catalog.put_broker("north", "http://north")
    store.catalog.put_broker("south", "http://south")
